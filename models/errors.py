"""Define the error for a model that cannot be built, and suggestions of similar names.

This module imports no torch, so that a plan can be checked on any laptop.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class ModelError(ValueError):
    """Raised, with a one-sentence message, for an invalid mixer, position, architecture or knob."""

    exit_code = 2  # exit code of the command line for wrong usage


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a clause that names up to three similar names; empty if none is similar."""
    close = difflib.get_close_matches(name, list(known), n=10, cutoff=0.5)
    close.sort(key=lambda one: _num_edits(name, one))  # a stable sort keeps the order of ties
    return f"; did you mean {' or '.join(map(repr, close[:3]))}?" if close else ""


def _num_edits(first: str, second: str) -> int:
    """Return the edit distance: the least number of letters to insert, remove or replace."""
    row = list(range(len(second) + 1))
    for i, letter in enumerate(first, start=1):
        before, row[0] = row[0], i
        for j, other in enumerate(second, start=1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (letter != other))
    return row[-1]
