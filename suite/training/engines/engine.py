"""Defines what training and its checkpoints ask of an engine, and how a split is scored."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor, nn

from suite.tasks.task import UNSCORED, Batch, Split, Task


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


def evaluate(model: nn.Module, task: Task, split: Split, batch: int, device: str) -> float:
    """The task's metric over a whole split, the model in evaluation mode."""
    with in_evaluation_mode(model), torch.inference_mode():
        batches = (held_out.to(device) for held_out in task.held_out(split, batch))
        return task.metric.over(task.metric.sums(each.through(model), each) for each in batches)


def evaluate_in_parts(
    model: nn.Module, task: Task, split: Split, batch: int, device: str
) -> dict[str, float]:
    """The task's metric over a whole split, and over each of the task's parts that has targets.

    Returns:
        The metric by coordinate, as ``pairs=8``; that of the whole split first, under ``""``.
    """
    sums: dict[str, list[Tensor]] = {at: [] for at in ("", *task.parts())}
    with in_evaluation_mode(model), torch.inference_mode():
        for held_out in task.held_out(split, batch):
            on_device = held_out.to(device)
            outputs = on_device.through(model)
            for at, asked in _in_parts(task, on_device):
                sums[at].append(task.metric.sums(outputs, asked))
    return {at: task.metric.over(found) for at, found in sums.items() if found}


def _in_parts(task: Task, batch: Batch) -> Iterator[tuple[str, Batch]]:
    """The whole batch, then the part of its targets at each coordinate, if there are any."""
    yield "", batch
    for at, is_in_part in task.in_parts(batch).items():
        asked = batch.only(is_in_part)
        if (asked.targets != UNSCORED).any():
            yield at, asked


@contextmanager
def in_evaluation_mode(model: nn.Module) -> Iterator[None]:
    """Without dropout and the like for the length of the block; then, always, as it was."""
    was_training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(was_training)
