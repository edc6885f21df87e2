"""The figures of the scenarios: how they add up, which must be zero, and their table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields

import numpy as np

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
_MOST_SHARE_OF_SAFETY = 0.03  # of the wall time of a trial of 20 s or more


@dataclass(frozen=True, kw_only=True)
class Figures:
    """What one scenario counted; `+` adds two up.

    Attributes:
        faults: How often each kind of fault was injected, by a few words for the kind.
        num_submitted: Trials that sweeps were asked for, once for each sweep.
        num_acknowledged: Results that stood in a journal, each counted once.
        num_lost: Acknowledged results that were gone or changed later, and trials that were
            without a result when their sweep had said that it is done.
        num_doubled: Results that the store holds more than once, or that were committed twice.
        num_resumed: Trials that went on from a checkpoint.
        num_resumed_equal: Those whose finding has the hash of an uninterrupted run.
        num_repeated: Trials that ran to their end at least twice, the reference included.
        num_alarms: Those whose findings differ: a failure of determinism.
        num_orphans: Processes of a sweep that were left when it had ended.
        recovery_seconds: From each fault, or the restart after it, until the sweep worked again.
        safety_seconds: Spent on journal, fsync and checkpoints by trials of 20 s or more.
        safety_of_seconds: The wall time of these trials.
        problems: Whatever else was not as promised, a sentence each.
        notes: What a reader should know besides the table, a sentence each.
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
        """Of the wall time of trials of 20 s or more; 0 where there was none."""
        return self.safety_seconds / self.safety_of_seconds if self.safety_of_seconds else 0.0

    def broken_promises(self) -> list[str]:
        """What is not zero and should be, or too large; empty where all promises were kept."""
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
    """All of them added up."""
    return sum(figures, Figures())


def rows(figures: Mapping[str, Figures]) -> list[tuple[str, ...]]:
    """A row for each scenario, by its title, and one for all."""
    everything = {**figures, "all": total(figures.values())}
    return [_row(title, of_one) for title, of_one in everything.items()]


def markdown(figures: Mapping[str, Figures]) -> str:
    """The table, the number of faults of each kind, and the notes."""
    lines = [HEAD, ["---"] + ["---:"] * (len(HEAD) - 1), *rows(figures)]
    table = [f"| {' | '.join(cells)} |" for cells in lines]
    faults = [f"{kind} {number}" for kind, number in sorted(total(figures.values()).faults.items())]
    notes = [f"- {title}: {note}" for title, of_one in figures.items() for note in of_one.notes]
    return "\n".join([*table, "", f"Faults: {', '.join(faults)}.", "", *notes])


def plain(figures: Mapping[str, Figures]) -> str:
    """The table for a terminal."""
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
