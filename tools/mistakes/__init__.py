"""Plausible bugs, each in one file, that the tests must notice; `tools/mutants.py` makes them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    """One mistake.

    Attributes:
        mistake: In words.
        file: Where it is made, below the folder `room`.
        old: The right text, which stands there once.
        new: The wrong text.
        tests: What pytest's -k selects: the mixers whose battery must notice.
        battery: The file of tests, below that folder in `tests/`.
        room: ``models``, ``suite`` or ``reports``.
    """

    mistake: str
    file: str
    old: str
    new: str
    tests: str
    battery: str = "test_every_mixer.py"
    room: str = "models"
