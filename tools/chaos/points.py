"""Scenario: the driver is killed at every named point between plan and report.

The driver runs its trials itself (`--executor inline`) with a checkpoint at every validation, so
that one process takes every step. Its steps are counted first; then it is killed right after the
middle time that it takes each. In the long form it is also killed right before, and the first and
the last time too.
"""

from __future__ import annotations

import multiprocessing
import shutil
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tools.chaos.arena import (
    KILLED,
    Ended,
    ablation,
    bakeoff,
    inline,
    make_empty_store,
    prove_each,
    warm_up,
)
from tools.chaos.faults import STEPS, Fault, Point, count_into
from tools.chaos.figures import Figures, Scale
from tools.chaos.recorded import acknowledged_in, duplicated_in_store, findings_in, read, recorded

NAME, NUM_TRIALS = "resumable", 2


@dataclass(frozen=True)
class Crash:
    """A point at which the driver is killed, with the store's tables made before or not."""

    point: Point
    has_store: bool

    def __str__(self) -> str:
        return str(self.point)


def prove(scale: Scale, folder: Path) -> Figures:
    """Kill the driver at every point; in the short form at every ninth."""
    warm_up()
    make_empty_store(folder / "empty.db")
    file = ablation(folder, NAME)
    first, without = _counted_run(file, folder / "first", has_store=False)
    reference, counts = _counted_run(file, folder / "reference", has_store=True)
    chosen = crashes_of(counts, without, scale)[:: scale.pick(18, 1)]
    figures = prove_each(chosen, partial(_recovered, file, findings_in(folder / "reference")))
    num_recovered = len(chosen) - len({line.partition(": ")[0] for line in figures.problems})
    problems = [f"no run comes past the step '{s}'" for s in STEPS if not counts[s] + without[s]]
    problems += first.failure("the first run") + reference.failure("the reference run")
    return figures + Figures(
        problems=tuple(problems),
        notes=(f"{len(chosen)} crash points enumerated, {num_recovered} recovered.",),
    )


def crashes_of(
    counts: Mapping[str, int], without_store: Mapping[str, int], scale: Scale
) -> list[Crash]:
    """Return a crash after each step, the middle time that it is taken; in the long form more."""
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


def _counted_run(file: Path, out: Path, *, has_store: bool) -> tuple[Ended, Counter[str]]:
    _make_folder(out, has_store)
    counts = multiprocessing.RawArray("L", len(STEPS))
    before = partial(count_into, counts)
    run = bakeoff(inline(file, out), log=out.with_suffix(".log"), before=before)
    return run, Counter(dict(zip(STEPS, counts, strict=True)))


def _make_folder(out: Path, has_store: bool) -> None:
    out.mkdir(parents=True)
    if has_store:
        shutil.copy(out.parent / "empty.db", out / "mlflow.db")


def _recovered(file: Path, reference: Mapping[str, str], crash: Crash) -> Figures:
    point = crash.point
    out = file.parent / f"{list(STEPS).index(point.step)}-{point.when}-{point.occurrence}"
    _make_folder(out, crash.has_store)
    killed = bakeoff(inline(file, out), log=out.with_suffix(".killed"), faults=[Fault(point)])
    before = acknowledged_in(out)
    restarted = time.time()
    again = bakeoff(inline(file, out), log=out.with_suffix(".again"))
    verified = bakeoff(f"verify --out {out}", log=out.with_suffix(".verify"))
    problems = again.failure(f"{crash}: the same command")
    problems += verified.failure(f"{crash}: verify")
    if killed.code != KILLED:
        problems = [f"{crash}: was not reached; exit code {killed.code}"]
    # Recovery lasts to the end of the restart if all trials had ended before.
    starts = [one.started_seconds for one in read(out, lambda journal: journal.starts())]
    until_starts = [when - restarted for when in starts if when > restarted]
    figures = recorded(out, NUM_TRIALS, before=before, reference=reference, output=again.output)
    figures += duplicated_in_store(NAME, out) + Figures(
        faults=Counter({"driver killed at a named point": int(killed.code == KILLED)}),
        recovery_seconds=(min(until_starts, default=again.seconds),),
        problems=tuple(problems),
    )
    if not figures.broken_promises():
        shutil.rmtree(out)
    return figures
