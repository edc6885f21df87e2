"""Train sampled choices of a model by the loss of each example.

`bakeoff.models.score_function` describes the estimator.
The cost of an example is the task's own loss for it alone, with the same label smoothing. The value
of the loss stays the same, so that curves of different estimators are comparable; only its gradient
changes.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from bakeoff.models.interface import Outputs
from bakeoff.models.score_function import (
    BASELINE,
    ENTROPY,
    LOG_PROBABILITY,
    Choices,
    move_baseline,
    score_term,
)
from bakeoff.suite.schema import Training
from bakeoff.suite.tasks.task import Batch, Task
from bakeoff.suite.training.engines.engine import part_of


def with_score(
    loss: Tensor, outputs: Outputs, batch: Batch, task: Task, model: nn.Module, training: Training
) -> Tensor:
    """Return the loss with the gradient of sampled choices, or the loss itself if there are none.

    Args:
        loss: The task's own loss of the batch, a scalar.
        outputs: The outputs of the model in training, with the log-probabilities of its samples if
            any.
        batch: The batch, with its targets.
        task: The task, which defines the loss.
        model: The model, which holds the average cost as a buffer that is updated.
        training: The settings, with the label smoothing.
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
    """Return the loss of each example alone, and its share in the batch loss, `[batch]` each.

    A loss is a mean over scored targets; an example without any has cost and share 0. The loss is
    computed separately for each example, which takes some 30 microseconds of a CPU.
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
