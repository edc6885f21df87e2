"""Replace some inputs of a decoder by its own answers in training (scheduled sampling).

Bengio et al. 2015 (arXiv:1506.03099) replace tokens of the target one after the other; here all of
a batch are replaced at once, as in the two passes of Mihaylova and Martins 2019 (arXiv:1906.07651):
the model predicts from the right tokens, in evaluation mode and without gradient; then each input
token that is the target of the previous position is replaced, with probability `share_at`, by the
most likely prediction at that position; and the model is trained on these inputs. The targets stay
the same. The probability grows linearly from 0, as in section 2.4 of the first paper.

Start symbols, prompts, fillers and masks are never replaced, since they are not targets.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from bakeoff.models.interface import INPUTS
from bakeoff.suite.schema import Training
from bakeoff.suite.tasks.data_order import RandomStream
from bakeoff.suite.tasks.task import Batch, Task

_OTHER_SEEDS = 1 << 63  # set in the seeds of the streams used here; no task uses it


def why_no_sampling(task: type[Task]) -> str:
    """Return why inputs of the task cannot be replaced by answers, as a clause, or ""."""
    if task.reads_answers:
        return ""
    return f"the inputs of {task.name} are not the answers to earlier places"


def share_at(step: int, training: Training) -> float:
    """Return the probability that a token is replaced in the step of that index, from 0."""
    return training.scheduled_sampling * step / max(1, training.steps - 1)


def with_own_answers(
    batch: Batch, answer: Callable[[Batch], Tensor], share: float, *, seed: int, step: int
) -> Batch:
    """Return the batch with some inputs replaced; a pure function of the arguments.

    Args:
        batch: A batch with tokens `[batch, time]` as ``inputs``, and targets of the same shape.
        answer: Function that returns the model's most likely symbols, `[batch, time]`.
        share: The probability of each replacement.
        seed: The seed of the training.
        step: The index of the step, from 0; with `seed` it determines the draw.
    """
    inputs = batch.inputs[INPUTS]
    drawn = RandomStream(_OTHER_SEEDS ^ seed, step).uniform(*inputs.shape)
    is_drawn = torch.from_numpy(drawn < share).to(inputs.device)
    is_answer = torch.zeros_like(is_drawn)
    is_answer[:, 1:] = inputs[:, 1:] == batch.targets[:, :-1]
    own = torch.where(is_drawn & is_answer, answer(batch).roll(1, dims=1), inputs)
    return Batch(inputs={**batch.inputs, INPUTS: own}, targets=batch.targets)
