"""Defines what the training loop and its checkpoints ask of an engine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from torch import Tensor

from suite.tasks.task import Batch, Split, Task


class Engine(Protocol):
    """Runs training steps on whole batches. Of several workers each has one, and all do the same.

    All workers must call a method at once. What `mean`, `evaluate`, `agreed`, `largest` and
    `state_sha256` return is about all of them, and equal on all of them.

    Attributes:
        device: Where it computes, as torch names it.
        rank: Which worker this is, from 0.
        num_workers: How many share the batch.
    """

    device: str
    rank: int
    num_workers: int

    def step(self, batch: Batch, task: Task) -> Tensor:
        """One update from the whole batch.

        Returns:
            The mean loss of this worker's share of it, a scalar in nats, left on the device.
        """

    def mean(self, losses: Sequence[Tensor]) -> float:
        """The mean loss over steps, and over workers."""

    def evaluate(self, task: Task, split: Split, batch: int) -> float:
        """The task's metric over a whole split, the model in evaluation mode."""

    def save(self, folder: Path) -> None:
        """Write this worker's part of the state into a folder.

        Raises:
            OSError: it could not be written; other workers may have written theirs.
            CheckpointError: it holds what no checkpoint can, or safetensors is missing.
        """

    def load(self, folder: Path) -> None:
        """Resume from what as many workers have saved, before the first step.

        Raises:
            CheckpointError: it does not fit, on all workers alike; nothing was changed.
        """

    def state_sha256(self) -> str:
        """Of parameters, buffers and the optimiser's state.

        Raises:
            CheckpointError: there is something among them that has no bytes.
        """

    def agreed(self, is_so: bool) -> bool:
        """What the first worker says."""

    def largest(self, value: float) -> float:
        """The largest that any worker says."""
