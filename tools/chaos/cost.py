"""Measures the time that journal, fsync and checkpoints take in a trial of 20 seconds or more."""

from __future__ import annotations

import multiprocessing
from functools import partial
from pathlib import Path

from tools.chaos.arena import ablation, bakeoff, warm_up
from tools.chaos.faults import SAFETY, time_into
from tools.chaos.figures import Figures, Scale
from tools.chaos.recorded import recorded, results_in

_SHORTEST_SECONDS = 20.0
_SECONDS_BETWEEN = 5


def prove(scale: Scale, folder: Path) -> Figures:
    """Run one trial with a checkpoint every five seconds."""
    warm_up()
    seconds = multiprocessing.RawArray("d", len(SAFETY))
    out, file = folder / "out", ablation(folder, "long")
    run = bakeoff(
        f"run {file} --executor inline --out {out} --checkpoint-every {_SECONDS_BETWEEN}",
        log=folder / "run.log",
        before=partial(time_into, seconds),
        limit_seconds=300,
    )
    wall = sum(result.seconds for result in results_in(out))
    problems = run.failure("the command")
    if wall < _SHORTEST_SECONDS:
        problems.append(f"the trial took {wall:.1f} s, which is too short to tell anything")
    parts = ", ".join(
        f"{target.rpartition(':')[2]} {1000 * spent:.0f} ms"
        for target, spent in zip(SAFETY, seconds, strict=True)
    )
    return recorded(out, 1) + Figures(
        safety_seconds=sum(seconds),
        safety_of_seconds=wall,
        problems=tuple(problems),
        notes=(f"A trial of {wall:.0f} s, a checkpoint every {_SECONDS_BETWEEN} s: {parts}.",),
    )
