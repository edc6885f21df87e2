"""The last figures, and their place in docs/reliability.md: between two marks, amid its prose."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from suite.provenance import commit, cpu_model, versions
from tools.chaos.figures import Figures
from tools.chaos.scale import Scale
from tools.chaos.table import markdown

DOCUMENT = Path(__file__).parents[2] / "docs" / "reliability.md"
BEGIN, END = "<!-- chaos: begin -->", "<!-- chaos: end -->"


def text(figures: Mapping[str, Figures], scale: Scale, minutes: float) -> str:
    """Where and when, and the table."""
    named = ", ".join(f"{package} {number}" for package, number in versions().items())
    return (
        f"Measured at commit {commit()} in {minutes:.0f} minutes, the {scale} form, on "
        f"{os.cpu_count()} cores of {cpu_model()}; {named}.\n\n{markdown(figures)}"
    )


def write(content: str, path: Path = DOCUMENT) -> None:
    """Put it between the marks of the document.

    Raises:
        ValueError: the document lacks a mark.
    """
    document = path.read_text(encoding="utf-8")
    if document.count(BEGIN) != 1 or document.count(END) != 1:
        raise ValueError(f"{path}: needs {BEGIN} and {END}, once each.")
    before, rest = document.split(BEGIN)
    after = rest.split(END)[1]
    path.write_text(f"{before}{BEGIN}\n\n{content}\n\n{END}{after}", encoding="utf-8")
