"""Runs timing trials of `complexity`: how long they take, and whether their controls are right.

A trial of one length should end within 10 seconds. Its slowed control should be 1.05 times the
baseline, for graphs and for launches. The last figures say how many times as long an operation
takes if Python launches it as it does as a CUDA graph.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Sequence
from functools import cache, partial
from pathlib import Path

from bakeoff.suite.events import Checkpoints, ExecutorSettings, Finished
from bakeoff.suite.execution.inline import InlineExecutor
from bakeoff.suite.planning.cost_model import seconds_of
from bakeoff.suite.planning.plan import plan
from bakeoff.suite.schema import (
    BASELINE_SLOWED,
    CONTROLS,
    INJECTED,
    Measurement,
    Resources,
    Status,
    Trial,
    launched,
)
from tools.gpu_visit.results import Finding, Item, Visit

_ABLATION = "complexity"
_SECONDS_TO_STOP = 4.0
_GOAL_SECONDS = 10.0
_GOAL_OF_CONTROL = 0.01  # how far it may be from the truth
_MOST_NAMED = 5  # models whose launches are compared with their graphs


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
        f"{seconds:.1f} s for {len(trial.subjects)} models, goal {_GOAL_SECONDS:g}: "
        f"{_verdict(seconds <= _GOAL_SECONDS)}; planned {planned:.1f}"
    )
    if result.status is not Status.OK:
        text = f"{text}; {result.status}: {result.reason}"
        return Finding(text=text, status="failed", values=values)
    return judged(trial, result.measurements, text, values)


def judged(
    trial: Trial, measured: Sequence[Measurement], text: str, values: dict[str, float]
) -> Finding:
    """Return the finding with the slowed controls, and with launches over graphs.

    Only the first coordinate counts. A control that is off is a failure on a GPU alone, because a
    CPU has neighbours.
    """
    first: dict[tuple[str, int], float] = {}
    for each in measured:
        if each.value is not None:
            first.setdefault((each.metric, each.subject), each.value)
    is_wrong = False
    is_gpu = any(each.metric == launched(BASELINE_SLOWED) for each in measured)
    plain = "graph" if is_gpu else "eager"
    for name, metric in ((plain, BASELINE_SLOWED), ("launched", launched(BASELINE_SLOWED))):
        ratio = first.get((metric, 0))
        if ratio is not None:
            is_right = abs(ratio - INJECTED) <= _GOAL_OF_CONTROL
            goal = f"goal {INJECTED:g} ± {_GOAL_OF_CONTROL:g}: {_verdict(is_right)}"
            text = f"{text}; slowed control, {name}, {ratio:.3f}, {goal}"
            values = {**values, f"slowed_{name}": ratio}
            is_wrong |= not is_right
    main = _main_of(measured)
    times = {
        f"{spec.mixer} ({subject})": first[launched(main), subject] / first[main, subject]
        for subject, spec in enumerate(trial.subjects)
        if (main, subject) in first and (launched(main), subject) in first
    }
    if times:
        named = ", ".join(f"{name} {each:.2g}" for name, each in list(times.items())[:_MOST_NAMED])
        text = f"{text}; launched over graph: {named}"
        values = {
            **values,
            **{f"launched over graph, {name}": each for name, each in times.items()},
        }
    return Finding(text=text, status="failed" if is_wrong and is_gpu else "ok", values=values)


def _main_of(measured: Sequence[Measurement]) -> str:
    """Return the first time with a launched form; empty if there is none, as on a CPU."""
    names = dict.fromkeys(each.metric for each in measured if each.metric not in CONTROLS)
    return next((name for name in names if launched(name) in names), "")


def _verdict(is_met: bool) -> str:
    return "met" if is_met else "missed"
