"""Test that the notebook of the documentation runs, and that its script has the same cells."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.whole

DOCS = Path(__file__).parents[1] / "docs"
CELLS: list[dict[str, Any]] = json.loads((DOCS / "notebook.ipynb").read_text())["cells"]
# Run the cells in one namespace, as a kernel does, with other sizes.
KERNEL = """
import json, sys
names = {"__name__": "__main__"}
for source in json.load(sys.stdin):
    exec(compile(source, "a cell", "exec"), names)
"""


def text_of(cell: dict[str, Any]) -> str:
    return "".join(cell["source"]).strip()


def run_cells(folder: Path, **sizes: int) -> subprocess.CompletedProcess[str]:
    sources = [text_of(cell) for cell in CELLS if cell["cell_type"] == "code"]
    for name, value in sizes.items():
        changed = [re.sub(rf"\b{name}=\d+", f"{name}={value}", source) for source in sources]
        assert changed != sources
        sources = changed
    return subprocess.run(
        [sys.executable, "-c", KERNEL],
        input=json.dumps(sources),
        cwd=folder,
        env={**os.environ, "MPLBACKEND": "agg"},
        text=True,
        capture_output=True,
        check=False,
    )


def test_the_script_has_the_cells_of_the_notebook() -> None:
    parts = re.split(r"^# %%(.*)\n", (DOCS / "notebook.py").read_text(), flags=re.MULTILINE)[1:]
    script = []
    for kind, text in zip(parts[::2], parts[1::2], strict=True):
        is_text = kind == " [markdown]"
        shown = re.sub("^# ?", "", text, flags=re.MULTILINE) if is_text else text
        script.append(("markdown" if is_text else "code", shown.strip()))
    assert script == [(cell["cell_type"], text_of(cell)) for cell in CELLS]


def test_the_notebook_shows_its_scores_a_plot_and_the_verdict() -> None:
    outputs = [output for cell in CELLS for output in cell.get("outputs", ())]
    assert [each for each in outputs if each["output_type"] == "error"] == []
    assert any("image/png" in each.get("data", {}) for each in outputs)
    told = "".join("".join(each.get("text", ())) for each in outputs)
    assert "a window of two tokens is better than one of one: supported" in told
    assert (DOCS / "notebook.ipynb").stat().st_size < 150_000


def test_all_cells_run_in_a_fresh_folder(tmp_path: Path) -> None:
    """Run the cells with fewer steps and one seed, which gives no verdict."""
    done = run_cells(tmp_path, steps=10, seeds=1)
    assert done.returncode == 0, done.stderr
    assert "'run': 4, 'reused': 0, 'failed': 0" in done.stdout
    assert "underpowered" in done.stdout
    assert (tmp_path / "out/reports/window_below_attention/index.html").is_file()
    assert (tmp_path / "window_below_attention.png").stat().st_size > 10_000


@pytest.mark.slow
def test_the_mixer_helps_as_the_notebook_shows(tmp_path: Path) -> None:
    done = run_cells(tmp_path)
    assert done.returncode == 0, done.stderr
    assert re.search(r"^verdict +supported$", done.stdout, flags=re.MULTILINE)
