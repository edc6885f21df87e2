"""Lets what a model has sampled learn from the loss of each example; see `models.score_function`.

The cost of an example is the task's own loss of it alone, smoothed as the whole one is. The loss
keeps its value, so that curves of different estimators are of one kind; only its gradient changes.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from models.interface import Outputs
from models.score_function import (
    BASELINE,
    ENTROPY,
    LOG_PROBABILITY,
    Choices,
    move_baseline,
    score_term,
)
from suite.schema import Training
from suite.tasks.task import Batch, Task
from suite.training.engines.engine import part_of


def with_score(
    loss: Tensor, outputs: Outputs, batch: Batch, task: Task, model: nn.Module, training: Training
) -> Tensor:
    """The loss with the gradient of what was sampled; itself where nothing was.

    Args:
        loss: The task's own of the batch, a scalar.
        outputs: Of the model in training; where it samples, with what it has sampled.
        batch: With the targets.
        task: Whose loss it is.
        model: Keeps the average cost as a buffer, which is moved.
        training: With the label smoothing.
    """
    if LOG_PROBABILITY not in outputs.auxiliary:
        return loss
    costs, shares = costs_of(outputs, batch, task, training.label_smoothing)
    choices = Choices(outputs.auxiliary[LOG_PROBABILITY], outputs.auxiliary[ENTROPY])
    baseline = model.get_buffer(BASELINE)
    learned = loss + score_term(costs, shares, choices, baseline.clone())
    move_baseline(baseline, loss.detach())
    return learned


@torch.no_grad()
def costs_of(
    outputs: Outputs, batch: Batch, task: Task, label_smoothing: float
) -> tuple[Tensor, Tensor]:
    """The loss of each example alone, and its share in the whole one, `[batch]` each.

    A loss is a mean over scored targets; an example without any has no cost, and no share. Each
    example goes through the task's loss by itself: some 30 microseconds of a CPU.
    """
    num_rows = len(outputs.logits)
    num_scored = batch.is_scored(outputs.logits).reshape(num_rows, -1).sum(1)
    losses = [
        task.loss(
            Outputs(outputs.logits[row : row + 1]), part_of(batch, row, num_rows), label_smoothing
        )
        for row in range(num_rows)
    ]
    costs = torch.stack(losses).where(num_scored > 0, 0.0)
    return costs, num_scored / num_scored.sum()
