"""Build what a trial's training begins with: the model by its seed, the task and the settings.

Initialisation depends on the seed and the model alone. Training FLOPs count the backward pass as
twice the forward one.
"""

from __future__ import annotations

import torch

from models import ModelError, Skeleton, build_model
from suite.schema import Training, Trial
from suite.tasks.registry import build_task
from suite.training.loop import Exercise

_TRAINING_OVER_FORWARD = 3.0
# Of single steps that are measured: so many that the rate does not fall to nothing.
ENDLESS = Training(
    steps=1_000_000, learning_rate=1e-3, warmup_steps=1, weight_decay=0.01, num_evaluations=1
)


def initial_model(trial: Trial) -> Skeleton:
    """The trial's one model, untrained, on the CPU; the same whenever it is asked for."""
    torch.manual_seed(trial.seed)
    return build_model(trial.subjects[0])


def exercise(trial: Trial, model: Skeleton) -> Exercise:
    """What the trial says to train on; the trial must have training settings."""
    assert trial.training is not None, "a trial that trains is planned with training settings"
    return Exercise(
        task=build_task(trial.task, trial.length), training=trial.training, batch=trial.batch,
        seed=trial.seed, flops_per_step=_flops_per_step(trial, model),
    )  # fmt: skip


def _flops_per_step(trial: Trial, model: Skeleton) -> float | None:
    """By formula; None where a user's mixer gives no formula."""
    try:
        return _TRAINING_OVER_FORWARD * float(model.flops(trial.length, batch=trial.batch))
    except ModelError:
        return None
