"""Runs timing trials of `complexity` and compares how long they take with the plan's estimate."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path

from bakeoff.suite.events import Checkpoints, ExecutorSettings, Finished
from bakeoff.suite.execution.inline import InlineExecutor
from bakeoff.suite.planning.cost_model import seconds_of
from bakeoff.suite.planning.plan import plan
from bakeoff.suite.schema import Resources, Status, Trial
from tools.gpu_visit.results import Finding, Item, Visit

_ABLATION = "complexity"
_SECONDS_TO_STOP = 4.0


def items(visit: Visit) -> Iterator[Item]:
    """Yield the shortest timing trial of each probe, by the plan, and the sum of all."""
    work = _work("smoke" if visit.is_dry else "standard")
    yield "all planned", partial(_planned, work)
    by_probe: dict[str, tuple[Trial, Resources]] = {}
    for trial, resources in sorted(work, key=lambda each: seconds_of(*each)):
        by_probe.setdefault(trial.probe, (trial, resources))
    for probe, (trial, resources) in by_probe.items():
        yield f"{probe}, length {trial.length}", partial(_timed, visit, trial, resources)


@cache
def _work(scale: str) -> list[tuple[Trial, Resources]]:
    planned = plan(_ABLATION, scale=scale)
    return [(t, planned.resources.for_trial(t)) for t in planned.trials if t.is_timing]


def _planned(work: list[tuple[Trial, Resources]]) -> Finding:
    seconds = sum(seconds_of(*each) for each in work)
    text = f"{len(work)} timing trials of {_ABLATION} are planned for {seconds / 60:.1f} min"
    return Finding(text=text, values={"planned_seconds": seconds, "num_trials": len(work)})


def _timed(visit: Visit, trial: Trial, resources: Resources) -> Finding:
    planned = seconds_of(trial, resources)
    limit = max(1.0, visit.seconds_left - _SECONDS_TO_STOP)  # then it is known to take longer
    with tempfile.TemporaryDirectory() as folder:
        checkpoints = Checkpoints(folder=Path(folder))
        executor = InlineExecutor(ExecutorSettings(checkpoints=checkpoints, trial_seconds=limit))
        begun = time.perf_counter()
        events = executor.execute_alone([(trial, resources)], "")
        (result,) = [event.result for event in events if isinstance(event, Finished)]
        seconds = time.perf_counter() - begun
    values = {"seconds": seconds, "planned_seconds": planned, "num_models": len(trial.subjects)}
    text = (
        f"{seconds:.1f} s for {len(trial.subjects)} models, planned {planned:.1f}: "
        f"{seconds / planned:.1f} times"
    )
    if result.status is Status.OK:
        return Finding(text=text, values=values)
    return Finding(text=f"{text}; {result.status}: {result.reason}", status="failed", values=values)
