"""Measures what journal, fsync and checkpoints cost a trial of 20 seconds or more."""

from __future__ import annotations

import multiprocessing
from functools import partial
from pathlib import Path

from tools.chaos.books import num_amiss, results_in
from tools.chaos.command import fork, warm_up
from tools.chaos.figures import Figures
from tools.chaos.scale import Scale
from tools.chaos.timers import SAFETY, time_into

SWEEP = Path(__file__).parent / "sweeps" / "long.py"
_SHORTEST_SECONDS = 20.0
_SECONDS_BETWEEN = 5


def prove(scale: Scale, folder: Path) -> Figures:
    """One trial with a checkpoint every five seconds."""
    warm_up()
    seconds = multiprocessing.RawArray("d", len(SAFETY))
    out = folder / "out"
    run = fork(
        ["run", str(SWEEP), "--executor", "inline", "--out", str(out),
         "--checkpoint-every", str(_SECONDS_BETWEEN)],
        folder / "run.log", before=partial(time_into, seconds),
    ).wait(limit_seconds=300)  # fmt: skip
    results = list(results_in(out).values())
    wall = sum(result.seconds for result in results)
    troubles = [f"exit code {run.code}: {run.last_line}"] if run.code else []
    if wall < _SHORTEST_SECONDS:
        troubles.append(f"the trial took {wall:.1f} s, which is too short to tell anything")
    parts = ", ".join(
        f"{target.rpartition(':')[2]} {1000 * spent:.0f} ms"
        for target, spent in zip(SAFETY, seconds, strict=True)
    )
    return Figures(
        num_submitted=1,
        num_acknowledged=len(results),
        num_lost=num_amiss(1, results),
        safety_seconds=sum(seconds),
        safety_of_seconds=wall,
        troubles=tuple(troubles),
        notes=(f"A trial of {wall:.0f} s, a checkpoint every {_SECONDS_BETWEEN} s: {parts}.",),
    )
