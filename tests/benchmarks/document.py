"""Write the tables of `docs/benchmarks.md`."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from bakeoff.models.registry import MIXERS, mixer_class
from bakeoff.suite.provenance import commit
from tests.benchmarks.duels import AT_MOST, SLOWED, Control, Row
from tests.benchmarks.linearity import Growth
from tests.benchmarks.peers import PAIRINGS, packages
from tests.benchmarks.places import Place

NO_WORSE = 1.01  # for memory; less is a rounding of the allocator

_MIB = 2**20


@dataclass
class Report:
    """The measurements so far, and the time at which they began."""

    place: Place
    rows: list[Row] = field(default_factory=list)
    growths: list[Growth] = field(default_factory=list)
    controls: list[Control] = field(default_factory=list)
    begun: float = field(default_factory=time.monotonic)
    load: float = field(default_factory=lambda: os.getloadavg()[0])

    def text(self) -> str:
        """Return the report as Markdown."""
        parts = [self._head(), *self._families(), _slower(self.rows)]
        parts += [_control_table(self.controls)] if self.controls else []
        parts += [_growth_table(self.growths)] if self.growths else []
        return "\n\n".join(parts)

    def section(self) -> str:
        """Return a run of chosen pairs as a Markdown section, for the end of a whole report."""
        parts = [self._head()]
        parts += [_table(self.rows), _slower(self.rows)] if self.rows else []
        parts += [_growth_table(self.growths)] if self.growths else []
        lowered = "\n\n".join(parts).replace("\n### ", "\n#### ")
        return f"### At commit {commit()}\n\n{lowered}"

    def lacks(self) -> list[str]:
        """Return what a whole report would also need: peer packages, and pairings at some shape."""
        measured = {(row.title, row.shape) for row in self.rows}
        wanted = [(pairing.title, shape) for pairing in PAIRINGS for shape in self.place.shapes]
        gone = [package for package, found in packages().items() if not found]
        return gone + [
            f"{title} at {shape}" for title, shape in wanted if (title, shape) not in measured
        ]

    def _head(self) -> str:
        shape, minutes = self.place.shapes[0], (time.monotonic() - self.begun) / 60
        found = {"python": platform.python_version()} | dict(packages())
        named = ", ".join(f"{package} {number or 'absent'}" for package, number in found.items())
        return (
            f"Measured at commit {commit()} in {minutes:.0f} minutes on: {self.place}. "
            f"Load average at the start: {self.load:.1f}.\n\n"
            f"{named}.\n\n"
            f"Width {shape.dim}, {shape.heads} heads where there are heads. A pass is one forward "
            "and one backward in training mode, to the parameters and to the input."
        )

    def _families(self) -> Iterator[str]:
        families = dict.fromkeys(mixer_class(name).family for name in MIXERS)
        for family in families:
            rows = [row for row in self.rows if mixer_class(row.mixer).family == family]
            if rows:
                yield f"### {family.capitalize()}\n\n{_table(rows)}"


def _table(rows: Iterable[Row]) -> str:
    head = (
        "mixer",
        "batch × length",
        "beside",
        "ours, ms",
        "theirs, ms",
        "ours / theirs",
        f"at most {AT_MOST}",
        "ours, MiB",
        "ours / theirs",
        "same outputs",
    )
    return _markdown(head, (_cells(row) for row in rows))


def _cells(row: Row) -> tuple[str, ...]:
    ours = (row.title, str(row.shape), row.peer, f"{1e3 * row.seconds:.2f}")
    peak = f"{row.peak / _MIB:.1f}"
    if row.ratio is None or row.peer_seconds is None or not row.peer_peak:
        return (*ours, "", "", "", peak, "", row.note)
    same = ["yes" if row.is_same else "no"] + [row.note] * bool(row.note)
    return (
        *ours,
        f"{1e3 * row.peer_seconds:.2f}",
        str(row.ratio),
        row.verdict,
        peak,
        f"{row.peak / row.peer_peak:.2f}",
        ": ".join(same),
    )


def _slower(rows: Iterable[Row]) -> str:
    """Return a line for each mixer that takes more time or memory than the bounds allow."""
    lines = []
    for row in rows:
        if row.ratio is not None and row.verdict != "yes":
            takes = "takes" if row.verdict == "no" else "may take more:"
            times = f"{takes} {row.ratio} times as long as {row.peer}"
            lines.append(f"- {row.title}, {row.shape}, {times}")
        if row.peer_peak and row.peak > NO_WORSE * row.peer_peak:
            times = f"takes {row.peak / row.peer_peak:.2f} times the memory of {row.peer}"
            lines.append(f"- {row.title}, {row.shape}, {times}")
    title = f"### More than {AT_MOST} times as long, or more memory"
    return "\n".join([title, "", *(lines or ["None."])])


def _control_table(controls: Iterable[Control]) -> str:
    head = ("mixer", "batch × length", "itself / itself", f"slowed {SLOWED} times / itself")
    lines = ((c.title, str(c.shape), str(c.itself), str(c.slowed)) for c in controls)
    return f"### Controls with a known ratio\n\n{_markdown(head, lines)}"


def _growth_table(growths: Iterable[Growth]) -> str:
    head = (
        "mixer",
        "length",
        "ms",
        "time per token, over the shortest's",
        "KiB per token",
        "calls of torch",
    )
    lines = (
        (
            row.title,
            str(row.length),
            f"{1e3 * row.seconds:.1f}",
            str(row.per_token),
            f"{row.peak / row.length / 2**10:.1f}",
            str(row.num_calls),
        )
        for row in growths
    )
    return f"### Growth with length\n\n{_markdown(head, lines)}"


def _markdown(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
