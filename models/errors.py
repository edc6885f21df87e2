"""How a model that cannot be had is refused: one sentence, with the nearest names.

No torch here, so that a plan can refuse on any laptop.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class ModelError(ValueError):
    """A mixer, position, architecture or knob that cannot be had as asked: one sentence."""

    exit_code = 2  # of the command line: wrong usage


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A clause that names up to three close names; empty where nothing is close."""
    close = difflib.get_close_matches(name, list(known), n=3, cutoff=0.5)
    return f"; did you mean {' or '.join(map(repr, close))}?" if close else ""
