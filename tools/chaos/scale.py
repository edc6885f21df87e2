"""How much a run of the fault scenarios does: short, full or long."""

from __future__ import annotations

from enum import StrEnum
from typing import TypeVar

_Value = TypeVar("_Value")


class Scale(StrEnum):
    """Short is at most 4 minutes on two cores, full at most 20, long as long as it takes."""

    SHORT = "short"
    FULL = "full"
    LONG = "long"

    def pick(self, short: _Value, full: _Value, long: _Value | None = None) -> _Value:
        """The value for this scale; long takes that of full where none is given."""
        if self is Scale.LONG and long is not None:
            return long
        return short if self is Scale.SHORT else full
