"""Run a training that is small enough to be stopped and resumed a hundred times."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import nn

from bakeoff.models import ModelSpec, build_model
from bakeoff.suite.events import TrainedState, TrialRemark
from bakeoff.suite.schema import Point
from bakeoff.suite.training.checkpoint import Checkpointer
from bakeoff.suite.training.engines.local import LocalEngine
from bakeoff.suite.training.loop import Exercise, train_resuming
from tests.suite.toy import FirstToken, training

TRIAL = "7a" * 16
STEPS, STOP = 12, 7  # stopped after a step that adds no point to the curve
NUM_LOSSES = 4  # per curve
NOT_WRITTEN = "a checkpoint could not be written, and training continues without it"


def spec(mixer: str, **knobs: object) -> ModelSpec:
    return ModelSpec(
        architecture="classifier",
        mixer=mixer,
        knobs=knobs,
        position="learned",
        dim=8,
        depth=1,
        length=3,
        input_kind="tokens",
        input_size=4,
        output_size=4,
        settings={"dropout": 0.2},
    )


ATTENTION = spec("attention", heads=2)


@dataclass(frozen=True)
class Said:
    """The results of a training."""

    points: list[Point]
    score: float
    states: list[TrainedState]
    remarks: list[str]
    num_steps: int

    @property
    def numbers(self) -> tuple[object, ...]:
        return self.points, self.score, self.states


class Observed(FirstToken):
    """A task that calls back before every step, and is scored on a quarter of its sequences."""

    def __init__(self, on_step: Callable[[int], None]) -> None:
        super().__init__()
        self.on_step, self.num_steps = on_step, 0

    def training_batch(self, step, batch, seed):
        self.num_steps += 1
        self.on_step(step)
        return super().training_batch(step, batch, seed)

    def held_out(self, split, batch):
        return islice(super().held_out(split, batch), 2)


class Stopped(BaseException):
    """Raised in place of a kill."""


class Clock:
    """A clock that a test sets, in seconds."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def run(
    model: ModelSpec | nn.Module,
    checkpointer: Checkpointer | None,
    on_step: Callable[[int], None] = lambda step: None,
    steps: int = STEPS,
    kind: type[Observed] = Observed,
    recipe: Mapping[str, Any] | None = None,
) -> Said:
    """Run a training as a new process would, independent of earlier random numbers."""
    torch.manual_seed(0)
    task = kind(on_step)
    asked = training(steps, num_evaluations=3, **(recipe or {}))
    todo = Exercise(task=task, training=asked, batch=8, seed=0, flops_per_step=7.0)
    built = build_model(model) if isinstance(model, ModelSpec) else model
    engine = LocalEngine(built, todo.training, "cpu")
    said = list(train_resuming(engine, todo, checkpointer))
    return Said(
        points=[s for s in said if isinstance(s, Point)],
        score=engine.evaluate(task, "test", 8),
        states=[s for s in said if isinstance(s, TrainedState)],
        remarks=[s.sentence for s in said if isinstance(s, TrialRemark)],
        num_steps=task.num_steps,
    )


def checkpointer_in(folder: Path, clock: Clock | None = None) -> Checkpointer:
    """Return a checkpointer; without a clock, a checkpoint is due after every step."""
    if clock is None:
        return Checkpointer(folder / TRIAL, 0.0)
    return Checkpointer(folder / TRIAL, 1.0, clock=clock)


def stopped(
    folder: Path,
    model: ModelSpec = ATTENTION,
    after: int = STOP,
    recipe: Mapping[str, Any] | None = None,
) -> None:
    """Leave the checkpoints of the last two steps of a training that was killed."""
    clock = Clock()

    def on_step(num_done: int) -> None:
        if num_done == after:
            raise Stopped
        clock.now += num_done >= after - 2

    try:
        run(model, checkpointer_in(folder, clock), on_step, recipe=recipe)
    except Stopped:
        return
    raise AssertionError("it was not stopped")
