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
    close = difflib.get_close_matches(name, list(known), n=10, cutoff=0.5)
    close.sort(key=lambda one: _num_edits(name, one))  # stable: else the most alike first
    return f"; did you mean {' or '.join(map(repr, close[:3]))}?" if close else ""


def _num_edits(first: str, second: str) -> int:
    """Return the least number of letters to insert, remove or replace."""
    row = list(range(len(second) + 1))
    for i, letter in enumerate(first, start=1):
        before, row[0] = row[0], i
        for j, other in enumerate(second, start=1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (letter != other))
    return row[-1]
