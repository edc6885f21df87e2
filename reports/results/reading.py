"""Read single measurements: which of them count, and how many of the expected ones exist.

A failure is a reading, too: it stays in the denominator and is reported.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from bakeoff.reports.stats.intervals import Estimate, mean_interval, median_range
from bakeoff.suite.schema import Status
from bakeoff.suite.schema.old_labels import Value, values_in

_LARGEST = 1e100  # squares of larger numbers overflow; they count as missing
NOISY_MEANING = (
    "Noisy: the stopping criterion of the timing was not met. The time counts as measured; its "
    "interval shows the uncertainty."
)


@dataclass(frozen=True, kw_only=True)
class Reading:
    """One measurement of one variant, from one seed or one timing process.

    Attributes:
        at: The coordinate, as ``length=1024``; empty if there is none.
        value: The number; NaN if there is none.
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
    def coordinates(self) -> Mapping[str, Value]:
        """The values of the coordinate by name, as ``{"length": 1024}``."""
        return coordinates(self.at)

    @property
    def has_number(self) -> bool:
        """True if the value is finite and can be computed with."""
        return math.isfinite(self.value) and abs(self.value) < _LARGEST

    @property
    def is_ok(self) -> bool:
        """True if the reading may enter a mean."""
        return self.status is Status.OK and self.has_number

    @property
    def is_usable(self) -> bool:
        """True if the reading has a number, ok or noisy."""
        return self.status in (Status.OK, Status.NOISY) and self.has_number

    @property
    def fate(self) -> str:
        """The status in words."""
        if self.status is Status.OK and not self.has_number:
            return "not a number"
        return str(self.status).replace("_", " ")


@functools.cache
def coordinates(at: str) -> Mapping[str, Value]:
    """Return the values that a coordinate names; empty if it is not a list of ``name=value``."""
    return values_in(at)


def reading_of(row: Mapping[Any, Any]) -> Reading:
    """Return the measurement in a row of results."""
    named = {field.name: row[field.name] for field in fields(Reading)}
    return Reading(**named | {"status": Status(row["status"])})


@dataclass(frozen=True, kw_only=True)
class Coverage:
    """The number of expected readings that are ok, and the others by status.

    Attributes:
        num_ok: Readings that are ok.
        num_total: Readings that are expected.
        others: Status in words -> number of readings that are not ok.
        skipped_because: The reason if all readings were skipped; else empty.
        num_timings: Times with a number, in the whole sweep; rates derived from them do not count.
        num_noisy_timings: The number of these times that did not settle.
    """

    num_ok: int
    num_total: int
    others: Mapping[str, int]
    skipped_because: str = ""
    num_timings: int = 0
    num_noisy_timings: int = 0

    def __str__(self) -> str:
        if self.skipped_because:
            return f"skipped: {self.skipped_because}"
        if not self.num_total:
            return "nothing planned"
        noisy = "" if self.num_noisy == self.num_measured else f"{self.num_noisy} "
        measured = f"{self.num_measured} of {self.num_total}"
        measured += f", {noisy}noisy" if self.num_noisy else ""
        return "; ".join([measured, *(f"{number} {fate}" for fate, number in self.lost.items())])

    @property
    def num_noisy(self) -> int:
        """The number of readings with a number whose spread is too wide."""
        return self.others.get("noisy", 0)

    @property
    def num_measured(self) -> int:
        """The number of readings with a number."""
        return self.num_ok + self.num_noisy

    @property
    def lost(self) -> Mapping[str, int]:
        """The readings without a number: status in words -> count."""
        return {fate: number for fate, number in self.others.items() if fate != "noisy"}

    @property
    def is_complete(self) -> bool:
        """True if every expected reading is ok."""
        return self.num_ok == self.num_total


def coverage(readings: Sequence[Reading], num_expected: int) -> Coverage:
    """Return the coverage of one entry; expected seeds without a reading count as missing."""
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


def is_noisy(readings: Sequence[Reading]) -> bool:
    """Return True if most processes missed their stopping criterion.

    A single noisy one may be chance, and the interval between processes covers it.
    """
    noisy = sum(reading.status is Status.NOISY for reading in readings)
    return 2 * noisy > len(readings)


def resolution_of(again: Iterable[Reading]) -> float:
    """Return the logarithm of the smallest ratio of times that is resolved, 0 if it is not known.

    It is the ratio that the baseline showed against itself: the largest of any process, or the far
    end of the 95 % interval of their mean if that is nearer to 1, as it is for many processes.

    Args:
        again: The ratio of the baseline timed again to the baseline, one per process.
    """
    logs = [math.log(r.value) for r in again if r.is_usable and r.value > 0]
    seen = max(map(abs, logs), default=0.0)
    mean = mean_interval(logs)
    if mean.low is None or mean.high is None:
        return seen
    return min(seen, max(-mean.low, mean.high))


def median_of(readings: Sequence[Reading]) -> Estimate:
    """Return the median over usable readings; for a single one, with the spread of its samples."""
    usable = [reading for reading in readings if reading.is_usable]
    if len(usable) != 1:
        return median_range([reading.value for reading in usable])
    only = usable[0]
    if not only.spread_low <= only.spread_high:  # also true for NaN
        return Estimate(n=1, point=only.value)
    return Estimate(n=1, point=only.value, low=only.spread_low, high=only.spread_high)


def first_of_seeds(
    readings: Iterable[Reading], rank: Callable[[Reading], int]
) -> tuple[Reading, ...]:
    """Return for each seed the reading of the lowest rank; ties go to the first by environment."""
    by_seed: dict[int, Reading] = {}
    for reading in sorted(readings, key=lambda r: (r.seed, rank(r), r.environment_id)):
        by_seed.setdefault(reading.seed, reading)
    return tuple(by_seed.values())
