"""Holds the figures of scenarios: their sum, which of them must be zero, and their table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import TypeVar

import numpy as np

_Value = TypeVar("_Value")

HEAD = (
    "scenario",
    "faults",
    "submitted",
    "acknowledged",
    "lost",
    "doubled",
    "resumed equal",
    "orphans",
    "ran twice: differ",
    "recovery p50 / p95 / max",
    "safety",
)
_MOST_SHARE_OF_SAFETY = 0.03  # relative to the wall time of a trial of 20 s or more


class Scale(StrEnum):
    """How much is run: short is at most 4 minutes on two cores, full at most 20, long is hours."""

    SHORT = "short"
    FULL = "full"
    LONG = "long"

    def pick(self, short: _Value, full: _Value, long: _Value | None = None) -> _Value:
        """Return the value for this scale; by default that of full for long."""
        if self is Scale.LONG and long is not None:
            return long
        return short if self is Scale.SHORT else full


@dataclass(frozen=True, kw_only=True)
class Figures:
    """The counts of one scenario; `+` adds two up.

    Attributes:
        faults: The number of injected faults by kind; the key is a few words.
        num_submitted: Trials that sweeps were asked for; a trial of two sweeps counts twice.
        num_acknowledged: Results in the journals.
        num_lost: Acknowledged results that were later missing or changed, and trials without a
            result although their sweep ended well.
        num_doubled: Results that are in the store or were committed more than once.
        num_resumed: Trials that continued from a checkpoint.
        num_resumed_equal: Resumed trials whose finding has the hash of an uninterrupted run.
        num_repeated: Trials that ran to their end at least twice, the reference included.
        num_alarms: Repeated trials whose findings differ: a failure of determinism.
        num_orphans: Processes of a sweep that were left after its end.
        recovery_seconds: From each fault, or the restart after it, until the sweep worked again.
        safety_seconds: Spent on journal, fsync and checkpoints by trials of 20 s or more.
        safety_of_seconds: The wall time of these trials.
        problems: Any other broken promise, a sentence each.
        notes: Sentences for the reader of the table.
    """

    faults: Counter[str] = field(default_factory=Counter)
    num_submitted: int = 0
    num_acknowledged: int = 0
    num_lost: int = 0
    num_doubled: int = 0
    num_resumed: int = 0
    num_resumed_equal: int = 0
    num_repeated: int = 0
    num_alarms: int = 0
    num_orphans: int = 0
    recovery_seconds: tuple[float, ...] = ()
    safety_seconds: float = 0.0
    safety_of_seconds: float = 0.0
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def __add__(self, other: Figures) -> Figures:
        added = {f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(self)}
        return Figures(**added)

    @property
    def share_of_safety(self) -> float:
        """The share of the wall time of trials of 20 s or more; 0 if there was none."""
        return self.safety_seconds / self.safety_of_seconds if self.safety_of_seconds else 0.0

    def broken_promises(self) -> list[str]:
        """Return a sentence for each figure that should be zero or smaller."""
        zeros = {
            "results lost": self.num_lost,
            "results doubled": self.num_doubled,
            "determinism alarms": self.num_alarms,
            "orphans": self.num_orphans,
            "resumed trials that differ": self.num_resumed - self.num_resumed_equal,
        }
        found = [f"{number} {what}" for what, number in zeros.items() if number]
        if self.share_of_safety > _MOST_SHARE_OF_SAFETY:
            found.append(
                f"{self.share_of_safety:.1%} of the time of long trials was spent on safety; "
                f"at most {_MOST_SHARE_OF_SAFETY:.0%} is allowed"
            )
        return [*found, *self.problems]


def total(figures: Iterable[Figures]) -> Figures:
    """Add up all figures."""
    return sum(figures, Figures())


def rows(figures: Mapping[str, Figures]) -> list[tuple[str, ...]]:
    """Return a row for each scenario and one for all."""
    everything = {**figures, "all": total(figures.values())}
    return [_row(title, of_one) for title, of_one in everything.items()]


def markdown(figures: Mapping[str, Figures]) -> str:
    """Return the table, the number of faults of each kind, and the notes."""
    lines = [HEAD, ["---"] + ["---:"] * (len(HEAD) - 1), *rows(figures)]
    table = [f"| {' | '.join(cells)} |" for cells in lines]
    faults = [f"{kind} {number}" for kind, number in sorted(total(figures.values()).faults.items())]
    notes = [f"- {title}: {note}" for title, of_one in figures.items() for note in of_one.notes]
    return "\n".join([*table, "", f"Faults: {', '.join(faults)}.", "", *notes])


def plain(figures: Mapping[str, Figures]) -> str:
    """Return the table for a terminal."""
    lines = [HEAD, *rows(figures)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join([line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])])
        for line in lines
    )


def _row(title: str, of: Figures) -> tuple[str, ...]:
    seconds = of.recovery_seconds or (0.0,)
    recovery = np.quantile(seconds, (0.5, 0.95, 1.0), method="inverted_cdf")
    return (
        title,
        str(of.faults.total()),
        str(of.num_submitted),
        str(of.num_acknowledged),
        str(of.num_lost),
        str(of.num_doubled),
        f"{of.num_resumed_equal} of {of.num_resumed}" if of.num_resumed else "",
        str(of.num_orphans),
        f"{of.num_repeated}: {of.num_alarms}" if of.num_repeated else "",
        " / ".join(f"{one:.1f}" for one in recovery) + " s" if of.recovery_seconds else "",
        f"{of.share_of_safety:.2%}" if of.safety_of_seconds else "",
    )
