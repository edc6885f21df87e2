"""Train and measure a module of your own on a task, with no ablation and no launcher."""

from __future__ import annotations

import time
from dataclasses import dataclass

import torch
from torch import nn

from suite.schema import Point, Training
from suite.tasks.registry import build_task, task_class
from suite.training import Exercise, evaluate, train


@dataclass(frozen=True, kw_only=True)
class TaskResult:
    """What a module came to.

    Attributes:
        metric: The task's metric, as ``bits_per_character``.
        value: On the test split, after training.
        unit: Of the value.
        points: The learning curve.
        num_parameters: Trainable ones.
        seconds: Of training and scoring.
    """

    metric: str
    value: float
    unit: str
    points: tuple[Point, ...]
    num_parameters: int
    seconds: float


def run_task(
    module: nn.Module,
    *,
    task: str,
    steps: int = 300,
    seed: int = 0,
    length: int = 64,
    batch: int = 16,
    learning_rate: float = 1e-3,
) -> TaskResult:
    """Train `module` in place and score it on the test split.

    Args:
        module: Called as ``module(inputs)``, with ``mask=`` where a batch has one; returns logits
            `[batch, time, symbols]` for a language model, `[batch, classes]` for a classifier.
        task: Name of a task; `bakeoff list --tasks` shows them.
        steps: Training steps.
        seed: Of the order of the data; initialise the module yourself.
        length: Tokens per sequence, where the data do not dictate it.
        batch: Sequences per step.
        learning_rate: Peak of the schedule.

    Raises:
        TaskError: for a task that is not there, or a length that does not suit it.
        Diverged: if the loss stops being a number.
    """
    start = time.perf_counter()
    data = build_task(task, task_class(task).fixed_length or length)
    training = _training(steps, learning_rate)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    exercise = Exercise(task=data, training=training, batch=batch, seed=seed)
    points = tuple(train(module, exercise, device))
    return TaskResult(
        metric=data.metric.name,
        value=evaluate(module, data, "test", batch, device),
        unit=data.metric.unit,
        points=points,
        num_parameters=sum(p.numel() for p in module.parameters() if p.requires_grad),
        seconds=time.perf_counter() - start,
    )


def _training(steps: int, learning_rate: float) -> Training:
    return Training(
        steps=steps, learning_rate=learning_rate, warmup_steps=min(50, max(1, steps // 10)),
        weight_decay=0.01, num_evaluations=8,
    )  # fmt: skip
