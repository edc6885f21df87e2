"""How long does a training step take? A plain median over repeated steps: indicative.

All variants take turns, so that a busy moment of the machine hits them alike. A real instrument
(fresh processes, warm-up until no trend, a stopping rule) is to take this file's place.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import torch

from models import ModelSpec, build_model
from suite.engines.local import LocalEngine
from suite.probes.probe import Probe
from suite.schema import Measurement, MetricSpec, Parallel, Point, Training, Trial
from suite.tasks.registry import build_task
from suite.tasks.task import Batch, Task

METRIC = "training_step_seconds"
_WARM_UP_ROUNDS = 2
_ROUNDS = 9
_TRAINING = Training(
    steps=_WARM_UP_ROUNDS + _ROUNDS, learning_rate=1e-3, warmup_steps=1, weight_decay=0.01,
    num_evaluations=1,
)  # fmt: skip


@dataclass(frozen=True)
class _Subject:
    step: Callable[[Batch], object]
    seconds: list[float] = field(default_factory=list)


class StepTime(Probe):
    """Median seconds of a full training step, with the quartiles as spread."""

    name = "step_time"
    version = 1
    grain = "comparison"
    is_batched = True
    is_timing = True

    def why_not(self, model: ModelSpec, parallel: Parallel | None) -> str:
        """It times what happens in one process."""
        return "step_time times one process; data_parallel measures workers" if parallel else ""

    def metrics(self, task: type[Task], length: int) -> tuple[MetricSpec, ...]:
        """Seconds a step, at the length of the trial."""
        return (MetricSpec(name=METRIC, unit="s", better="lower", at=f"length={length}"),)

    def measure(self, trial: Trial, device: str) -> Iterator[Point | Measurement]:
        """Every variant once a round, after warm-up rounds that do not count."""
        task = build_task(trial.task, trial.length)
        subjects = [_Subject(_stepper(spec, trial, task, device)) for spec in trial.subjects]
        batches = [task.training_batch(step, trial.batch, trial.seed) for step in range(_ROUNDS)]
        for batch in [*batches[:_WARM_UP_ROUNDS], *batches]:
            for subject in subjects:
                subject.seconds.append(_seconds(subject.step, batch, device))
        for index, subject in enumerate(subjects):
            yield _measurement(index, subject.seconds[_WARM_UP_ROUNDS:], trial.length)


def _stepper(spec: ModelSpec, trial: Trial, task: Task, device: str) -> Callable[[Batch], object]:
    torch.manual_seed(trial.seed)
    engine = LocalEngine(build_model(spec), _TRAINING, device)
    return lambda batch: engine.step(batch, task)


def _seconds(step: Callable[[Batch], object], batch: Batch, device: str) -> float:
    """Wall time of one step, the device idle before and after."""
    _synchronise(device)
    start = time.perf_counter()
    step(batch)
    _synchronise(device)
    return time.perf_counter() - start


def _synchronise(device: str) -> None:
    if device != "cpu":  # kernel launches return early
        torch.cuda.synchronize(device)


def _measurement(subject: int, seconds: list[float], length: int) -> Measurement:
    low, median, high = statistics.quantiles(seconds, n=4, method="inclusive")
    return Measurement(
        metric=METRIC, value=median, unit="s", better="lower", subject=subject,
        at=f"length={length}", spread_low=low, spread_high=high,
    )  # fmt: skip
