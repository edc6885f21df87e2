"""Reads what the command said about checkpoints while it ran."""

from __future__ import annotations

import re

_RESUMED = re.compile(r"resumes from step ([\d,]+)")
_DAMAGED = re.compile(r"its checkpoint \d+ is skipped: ")


def num_resumed(said: str) -> int:
    """How many trials went on from a checkpoint."""
    return len(_RESUMED.findall(said))


def steps_resumed(said: str) -> list[int]:
    """The step that each of them went on from."""
    return [int(step.replace(",", "")) for step in _RESUMED.findall(said)]


def names_a_damaged_one(said: str) -> bool:
    """Whether it says of a checkpoint, by name, that it is not used."""
    return bool(_DAMAGED.search(said))
