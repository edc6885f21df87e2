"""Scenario: killed at every named point between plan and report.

The driver runs its trials itself here (`--executor inline`) with a checkpoint at every validation,
so that one process comes past every step. How often it takes each step is counted first; it is
killed right after the middle time. In the long form also right before, where only what stands
between two steps could differ, and the first and the last time too.
"""

from __future__ import annotations

import multiprocessing
import shutil
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from suite.journal.journal import Journal
from suite.journal.sqlite_schema import journal_in
from tools.chaos.books import (
    Key,
    findings_in,
    kept_in,
    num_amiss,
    num_committed_twice,
    num_contradictions,
    num_differing,
    num_doubled_in_store,
    num_lost,
    without_failures,
)
from tools.chaos.command import KILLED, Ended, bakeoff, fork, inline, warm_up
from tools.chaos.faults import STEPS, Fault, Point, count_into
from tools.chaos.figures import Figures
from tools.chaos.lanes import in_lanes
from tools.chaos.remarks import num_resumed
from tools.chaos.scale import Scale

SWEEP = Path(__file__).parent / "sweeps" / "resumable.py"
NUM_TRIALS = 2


@dataclass(frozen=True)
class Bench:
    """What all points have in common.

    Attributes:
        folder: Scratch.
        empty_store: A store with its tables and nothing in them: making them takes seconds.
        reference: What an undisturbed run found.
    """

    folder: Path
    empty_store: Path
    reference: Mapping[Key, str]


@dataclass(frozen=True)
class Crash:
    """A point to die at, with the store's tables made before or not."""

    point: Point
    has_store: bool

    def __str__(self) -> str:
        return str(self.point)


def prove(scale: Scale, folder: Path) -> Figures:
    """Die at every point; in the short form at every ninth."""
    warm_up()
    first, without = _counted_run(folder / "first", None)
    empty = folder / "empty.db"
    make_empty_store(empty)
    reference, counts = _counted_run(folder / "reference", empty)
    untaken = [step for step in STEPS if not counts[step] and not without[step]]
    bench = Bench(folder, empty, findings_in(folder / "reference"))
    crashes = crashes_of(counts, without, scale)
    chosen = crashes[:: scale.pick(9, 1)]
    figures = in_lanes(chosen, partial(_recovered, bench))
    num_recovered = len(chosen) - len({line.partition(": ")[0] for line in figures.troubles})
    troubles = [f"no run comes past the step '{step}'" for step in untaken]
    troubles += [
        f"the {name} run ended with exit code {run.code}: {run.last_line}"
        for name, run in (("first", first), ("reference", reference))
        if run.code
    ]
    return figures + Figures(
        troubles=tuple(troubles),
        notes=(f"{len(chosen)} crash points enumerated, {num_recovered} recovered.",),
    )


def crashes_of(
    counts: Mapping[str, int], without_store: Mapping[str, int], scale: Scale
) -> list[Crash]:
    """After each step that is taken, the middle time; in the long form more often."""
    crashes = []
    for step in STEPS:
        has_store = bool(counts[step])
        number = counts[step] or without_store[step]
        middle = (number + 1) // 2
        times = scale.pick((middle,), (middle,), tuple(sorted({1, middle, number})))
        crashes += [
            Crash(Point(step, when, occurrence), has_store)
            for occurrence in (times if number else ())
            for when in scale.pick(("after",), ("after",), ("before", "after"))
        ]
    return crashes


def _counted_run(out: Path, store: Path | None) -> tuple[Ended, Counter[str]]:
    _furnish(out, store)
    counts = multiprocessing.RawArray("L", len(STEPS))
    run = fork(inline(SWEEP, out), out.with_suffix(".log"), before=partial(count_into, counts))
    return run.wait(), Counter(dict(zip(STEPS, counts, strict=True)))


def make_empty_store(path: Path) -> None:
    """A store with its tables and nothing in them."""
    from suite.tracking.location import Store
    from suite.tracking.run_writer import RunWriter

    def make() -> Figures:
        RunWriter(Store(uri=f"sqlite:///{path}", artifacts=None))
        return Figures()

    in_lanes([0], lambda _: make(), num_lanes=1)  # in a child: what it opens must not be forked


def _furnish(out: Path, store: Path | None) -> None:
    out.mkdir(parents=True)
    if store is not None:
        shutil.copy(store, out / "mlflow.db")


def _recovered(bench: Bench, crash: Crash) -> Figures:
    out = (
        bench.folder
        / f"{list(STEPS).index(crash.point.step)}-{crash.point.when}-{crash.point.occurrence}"
    )
    _furnish(out, bench.empty_store if crash.has_store else None)
    killed = bakeoff(
        *inline(SWEEP, out), log=out.with_suffix(".killed"), faults=[Fault(crash.point)]
    )
    before = without_failures(kept_in(out))
    restarted = time.time()
    again = bakeoff(*inline(SWEEP, out), log=out.with_suffix(".again"))
    verified = bakeoff("verify", "--out", str(out), log=out.with_suffix(".verify"))
    now = without_failures(kept_in(out))
    findings = findings_in(out)
    num_wrong = num_differing(bench.reference, findings)
    figures = Figures(
        faults=Counter({"driver killed at a named point": int(killed.code == KILLED)}),
        num_submitted=NUM_TRIALS,
        num_acknowledged=len(now),
        num_lost=num_lost(before, now) + num_amiss(NUM_TRIALS, now),
        num_doubled=num_committed_twice(out)
        + num_doubled_in_store(f"sqlite:///{out / 'mlflow.db'}", SWEEP.stem),
        num_resumed=num_resumed(again.said),
        num_resumed_equal=num_resumed(again.said) if not num_wrong else 0,
        num_repeated=len(findings),
        num_alarms=num_wrong + num_contradictions(out),
        recovery_seconds=(_recovery(out, restarted, again),),
        troubles=tuple(_troubles(crash, killed, again, verified)),
    )
    if not figures.broken_promises():
        shutil.rmtree(out)
    return figures


def _troubles(crash: Crash, killed: Ended, again: Ended, verified: Ended) -> Sequence[str]:
    if killed.code != KILLED:
        return [f"{crash}: was not reached; exit code {killed.code}: {killed.last_line}"]
    return [
        f"{crash}: {what} ended with exit code {run.code}: {run.last_line}"
        for what, run in (("the same command", again), ("verify", verified))
        if run.code
    ]


def _recovery(out: Path, restarted: float, again: Ended) -> float:
    """From the restart to the next attempt; to the end where all trials had ended before."""
    with Journal(journal_in(out), read_only=True) as journal:
        later = [one.started_seconds for one in journal.starts() if one.started_seconds > restarted]
    return min(later) - restarted if later else again.seconds
