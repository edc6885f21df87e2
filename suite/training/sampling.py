"""Scheduled sampling: a decoder reads some of its own answers while it is trained.

Bengio et al. 2015 (arXiv:1506.03099) replace tokens of the target one after the other; here all of
a batch are replaced at once, as in the two passes of Mihaylova and Martins 2019 (arXiv:1906.07651):
the model answers the right tokens, in evaluation mode and without gradient; then each token that
the place before it was asked for is replaced, with a chance of `share_at`, by the likeliest answer
of that place; and the model is trained on that. The targets stay. The chance grows from 0 in a
line, as in the first paper's section 2.4.

Start symbols, prompts, fillers and masks stay, since no place is asked for them.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from models.interface import INPUTS
from suite.schema import Training
from suite.tasks.data_order import RandomStream
from suite.tasks.task import Batch, Task

_OTHER_SEEDS = 1 << 63  # the streams of these are no task's


def why_no_sampling(task: type[Task]) -> str:
    """Why a model of the task reads none of its own answers, as a clause; empty where it may."""
    if task.reads_answers:
        return ""
    return f"the inputs of {task.name} are not the answers to earlier places"


def share_at(step: int, training: Training) -> float:
    """The chance of a token to be replaced in the step of that index, from 0."""
    return training.scheduled_sampling * step / max(1, training.steps - 1)


def with_own_answers(
    batch: Batch, answer: Callable[[Batch], Tensor], share: float, *, seed: int, step: int
) -> Batch:
    """The batch with some inputs replaced: a pure function of what is given.

    Args:
        batch: With tokens `[batch, time]` as ``inputs``, and targets of the same shape.
        answer: What the model finds likeliest at each place, `[batch, time]`.
        share: The chance of each.
        seed: Of the training; with `step`, from 0, it gives the draw.
        step: Likewise.
    """
    inputs = batch.inputs[INPUTS]
    drawn = RandomStream(_OTHER_SEEDS ^ seed, step).uniform(*inputs.shape)
    is_drawn = torch.from_numpy(drawn < share).to(inputs.device)
    is_answer = torch.zeros_like(is_drawn)
    is_answer[:, 1:] = inputs[:, 1:] == batch.targets[:, :-1]
    own = torch.where(is_drawn & is_answer, answer(batch).roll(1, dims=1), inputs)
    return Batch(inputs={**batch.inputs, INPUTS: own}, targets=batch.targets)
