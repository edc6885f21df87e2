"""Trains a model on a task, and yields the points of its learning curve as they come.

Initialisation is the caller's; the order of the data is
a pure function of (seed, step), so all variants of a seed see the same batches.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn

from suite.errors import Diverged
from suite.schema import Point, Training
from suite.tasks.task import Task
from suite.training.engines.engine import Engine
from suite.training.engines.engine import evaluate as evaluate  # of a model that is no engine's
from suite.training.engines.local import LocalEngine

VERSION = 1  # goes up whenever a change here moves a number
VALIDATION = "validation_"  # begins the name of the metric of an evaluation point
_TRAINING_LOSSES_PER_CURVE = 40


@dataclass(frozen=True, kw_only=True)
class Exercise:
    """What to train on, and how."""

    task: Task
    training: Training
    batch: int
    seed: int
    flops_per_step: float | None = None

    def flops_at(self, step: int) -> float | None:
        """Training FLOPs spent after `step` steps."""
        return None if self.flops_per_step is None else self.flops_per_step * step


@dataclass
class TrainingProgress:
    """How far a training has come: with the engine's state, all that it needs to resume.

    Attributes:
        step: Steps done.
        losses: Of the steps since the last point of the curve.
        points: Of the curve so far; `steps` leaves them to its caller.
    """

    step: int = 0
    losses: list[Tensor] = field(default_factory=list)
    points: list[Point] = field(default_factory=list)


def train(model: nn.Module, exercise: Exercise, device: str) -> Iterator[Point]:
    """Train in place, in this process; yield training losses and validation scores.

    Raises:
        Diverged: at the first loss that is not finite.
    """
    engine = LocalEngine(model, exercise.training, device)
    found = steps(engine, exercise, TrainingProgress())
    yield from (point for point in found if point is not None)


def steps(engine: Engine, exercise: Exercise, progress: TrainingProgress) -> Iterator[Point | None]:
    """Train from `progress` on, which is updated; yield training losses and validation scores.

    After each step and its points comes None: a checkpoint may be written there.

    Raises:
        Diverged: at the first loss that is not finite; on all workers alike.
    """
    training = exercise.training
    for step in range(progress.step + 1, training.steps + 1):
        batch = exercise.task.training_batch(step - 1, exercise.batch, exercise.seed)
        progress.losses.append(engine.step(batch, exercise.task))
        progress.step = step
        if _falls_due(step, training.steps, _TRAINING_LOSSES_PER_CURVE):
            point = _loss_point(engine, progress, exercise)
            progress.losses.clear()
            yield point
        if _falls_due(step, training.steps, training.num_evaluations):
            yield _validation_point(engine, step, exercise)
        yield None


def _falls_due(step: int, steps: int, times: int) -> bool:
    """Whether one of `times` evenly spaced points, the last at the end, lies in this step."""
    return step * times // steps > (step - 1) * times // steps


def _loss_point(engine: Engine, progress: TrainingProgress, exercise: Exercise) -> Point:
    """Mean loss since the last point; reading it here keeps the loop free of synchronisation."""
    mean, metric = engine.mean(progress.losses), {"unit": "nat", "better": "lower"}
    return _point("training loss", mean, progress.step, exercise, metric="training_loss", **metric)


def _validation_point(engine: Engine, step: int, exercise: Exercise) -> Point:
    metric = exercise.task.metric
    value = engine.evaluate(exercise.task, "validation", exercise.batch)
    name = f"{VALIDATION}{metric.name}"
    what = f"validation {metric.name}"
    return _point(what, value, step, exercise, metric=name, unit=metric.unit, better=metric.better)


def _point(what: str, value: float, step: int, exercise: Exercise, **metric: Any) -> Point:
    if not math.isfinite(value):
        raise Diverged(f"the {what} is {value} at step {step}")
    return Point(step=step, flops=exercise.flops_at(step), value=value, **metric)
