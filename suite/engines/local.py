"""How a training step runs on one device: AdamW, clipping, warm-up and cosine."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from suite.engines.evaluation import evaluate
from suite.engines.runtime import prepared, runtime_of
from suite.schema import Training
from suite.tasks.task import Batch, Split, Task

CLIP_NORM = 1.0
BETAS = (0.9, 0.98)  # Vaswani et al. 2017, section 5.3


class LocalEngine:
    """One model on one device, and its optimiser.

    Attributes:
        model: What steps go through: the model, run as its spec declares.
    """

    def __init__(self, model: nn.Module, training: Training, device: str) -> None:
        """Move the model there.

        Raises:
            suite.engines.runtime.NoRuntime: this machine cannot run it as declared.
        """
        self.device = device
        self._label_smoothing = training.label_smoothing
        self._eager = model.to(device).train()
        self.model = prepared(self._eager, runtime_of(model), device)
        self.optimizer = torch.optim.AdamW(
            decayed_apart(model, training.weight_decay), lr=training.learning_rate, betas=BETAS
        )
        self.schedule = schedule_of(self.optimizer, training)

    def step(self, batch: Batch, task: Task) -> Tensor:
        """Forward, backward, update. Returns the loss, a scalar left on the device."""
        batch = batch.to(self.device)
        loss = task.loss(batch.through(self.model), batch, self._label_smoothing)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(self.model.parameters(), CLIP_NORM)
        self.optimizer.step()
        self.schedule.step()
        return loss.detach()

    def mean(self, losses: Sequence[Tensor]) -> float:
        """The mean loss over steps; reading it waits for the device."""
        return torch.stack(list(losses)).mean().item()

    def evaluate(self, task: Task, split: Split, batch: int) -> float:
        """The task's metric over a whole split, the model in evaluation mode, run eagerly.

        The last batch of a split may be smaller, and would be compiled for itself.
        """
        return evaluate(self._eager, task, split, batch, self.device)


def schedule_of(
    optimizer: torch.optim.Optimizer, training: Training
) -> torch.optim.lr_scheduler.LambdaLR:
    """The learning rate of each step, as `learning_rate_factor` has it."""
    return torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: learning_rate_factor(step, training)
    )


def learning_rate_factor(step: int, training: Training) -> float:
    """Linear warm-up over `warmup_steps`, then half a cosine down to zero at the last step."""
    if step < training.warmup_steps:
        return (step + 1) / training.warmup_steps
    rest = max(1, training.steps - training.warmup_steps)
    return 0.5 * (1 + math.cos(math.pi * min(1.0, (step - training.warmup_steps) / rest)))


def decayed_apart(model: nn.Module, weight_decay: float) -> list[dict[str, object]]:
    """Matrices decay; biases, gains and other vectors do not."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    return [
        {"params": [p for p in parameters if p.dim() >= 2], "weight_decay": weight_decay},
        {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0},
    ]
