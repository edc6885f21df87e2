"""The measurements behind one entry of a table, and its coverage.

A failure is a reading too: it stays in the denominator, and is named.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from suite.schema import Status

_LARGEST = 1e100  # beyond, squares overflow: such a number counts as none


@dataclass(frozen=True, kw_only=True)
class Reading:
    """One measurement of one variant: of one seed, or of one timing process.

    Attributes:
        at: The coordinate, as ``length=1024``; empty where there is none.
        value: NaN where there is none.
    """

    seed: int
    at: str
    environment_id: str
    value: float
    spread_low: float
    spread_high: float
    status: Status
    reason: str

    @property
    def has_number(self) -> bool:
        """Whether the value can be computed with."""
        return math.isfinite(self.value) and abs(self.value) < _LARGEST

    @property
    def is_ok(self) -> bool:
        """Whether it may stand in a mean."""
        return self.status is Status.OK and self.has_number

    @property
    def is_noisy_number(self) -> bool:
        """Whether it is a number whose stopping criterion was not met."""
        return self.status is Status.NOISY and self.has_number

    @property
    def fate(self) -> str:
        """What became of it, in words."""
        if self.status is Status.OK and not self.has_number:
            return "not a number"
        return str(self.status).replace("_", " ")


@dataclass(frozen=True, kw_only=True)
class Coverage:
    """How many of the expected readings are ok; the others by what became of them."""

    num_ok: int
    num_total: int
    others: Mapping[str, int]
    skipped_because: str = ""

    def __str__(self) -> str:
        if self.skipped_because:
            return f"skipped: {self.skipped_because}"
        if not self.num_total:
            return "nothing planned"
        others = (f"{number} {fate}" for fate, number in self.others.items())
        return "; ".join([f"{self.num_ok} of {self.num_total}", *others])

    @property
    def is_complete(self) -> bool:
        """Whether every expected reading is ok."""
        return self.num_ok == self.num_total


def is_noisy(readings: Sequence[Reading]) -> bool:
    """Whether most processes did not meet their stopping criterion.

    A single one may be unlucky: the interval between processes then says what the rest is worth.
    """
    noisy = sum(reading.status is Status.NOISY for reading in readings)
    return 2 * noisy > len(readings)


def coverage(readings: Sequence[Reading], num_expected: int) -> Coverage:
    """Coverage of one entry; expected seeds without a reading are missing."""
    fates = Counter(reading.fate for reading in readings)
    total = max(num_expected, len(readings))
    missing = {"missing": total - len(readings)} if total > len(readings) else {}
    all_skipped = bool(readings) and fates["skipped"] == total
    return Coverage(
        num_ok=fates["ok"],
        num_total=total,
        others={fate: fates[fate] for fate in sorted(fates) if fate != "ok" and fates[fate]}
        | missing,
        skipped_because="; ".join(sorted({r.reason for r in readings})) if all_skipped else "",
    )
