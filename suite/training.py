"""The training loop: a model, a task, a schedule; curve points as they come.

Arrow: part of Trial -> Result. Seeds: initialisation is the caller's; the order of the data is
a pure function of (seed, step), so all variants of a seed see the same batches.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from suite.engines.local import LocalEngine
from suite.schema import Point, Training
from suite.tasks.task import Split, Task

VERSION = 1  # goes up whenever a change here moves a number
_TRAINING_LOSSES_PER_CURVE = 40


class Diverged(ArithmeticError):
    """The loss stopped being a number: a finding about the variant, not a fault."""


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


def train(model: nn.Module, exercise: Exercise, device: str) -> Iterator[Point]:
    """Train in place; yield training losses and validation scores.

    Raises:
        Diverged: at the first loss that is not finite.
    """
    engine = LocalEngine(model, exercise.training, device)
    losses: list[Tensor] = []
    for step in range(1, exercise.training.steps + 1):
        batch = exercise.task.training_batch(step - 1, exercise.batch, exercise.seed)
        losses.append(engine.step(batch, exercise.task))
        if _falls_due(step, exercise.training.steps, _TRAINING_LOSSES_PER_CURVE):
            yield _loss_point(losses, step, exercise)
            losses.clear()
        if _falls_due(step, exercise.training.steps, exercise.training.num_evaluations):
            yield _validation_point(model, step, exercise, device)


def evaluate(model: nn.Module, task: Task, split: Split, batch: int, device: str) -> float:
    """The task's metric over a whole split, the model in evaluation mode."""
    was_training = model.training
    model.eval()
    total, count = 0.0, 0
    with torch.inference_mode():
        for held_out in task.held_out(split, batch):
            on_device = held_out.to(device)
            score, number = task.score(on_device.through(model), on_device)
            total, count = total + score, count + number
    model.train(was_training)
    return total / count


def _falls_due(step: int, steps: int, times: int) -> bool:
    """Whether one of `times` evenly spaced points, the last at the end, lies in this step."""
    return step * times // steps > (step - 1) * times // steps


def _loss_point(losses: list[Tensor], step: int, exercise: Exercise) -> Point:
    """Mean loss since the last point; reading it here keeps the loop free of synchronisation."""
    mean = torch.stack(losses).mean().item()
    if not math.isfinite(mean):
        raise Diverged(f"the training loss is {mean} at step {step}")
    return Point(
        metric="training_loss", step=step, flops=exercise.flops_at(step), value=mean,
        unit="nat", better="lower",
    )  # fmt: skip


def _validation_point(model: nn.Module, step: int, exercise: Exercise, device: str) -> Point:
    metric = exercise.task.metric
    value = evaluate(model, exercise.task, "validation", exercise.batch, device)
    if not math.isfinite(value):
        raise Diverged(f"the validation {metric.name} is {value} at step {step}")
    return Point(
        metric=f"validation_{metric.name}", step=step, flops=exercise.flops_at(step), value=value,
        unit=metric.unit, better=metric.better,
    )  # fmt: skip
