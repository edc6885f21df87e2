"""Defines what the training loop asks of an engine, of one process or several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from torch import Tensor

from suite.tasks.task import Batch, Split, Task


class Engine(Protocol):
    """Runs training steps on whole batches. Of several workers each has one, and all do the same.

    What comes out of `mean` and `evaluate` is about the whole batch and equal on all workers.
    """

    def step(self, batch: Batch, task: Task) -> Tensor:
        """One update from the whole batch.

        Returns:
            The mean loss of this worker's share of it, a scalar in nats, left on the device.
        """

    def mean(self, losses: Sequence[Tensor]) -> float:
        """The mean loss over steps, and over workers."""

    def evaluate(self, task: Task, split: Split, batch: int) -> float:
        """The task's metric over a whole split, the model in evaluation mode."""
