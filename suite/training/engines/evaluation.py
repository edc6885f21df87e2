"""Scores a model on a split of a task, in one process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import torch
from torch import Tensor, nn

from suite.tasks.task import UNSCORED, Batch, Split, Task


def evaluate(model: nn.Module, task: Task, split: Split, batch: int, device: str) -> float:
    """The task's metric over a whole split, the model in evaluation mode."""
    total, count = 0.0, 0
    with in_evaluation_mode(model), torch.inference_mode():
        for held_out in task.held_out(split, batch):
            on_device = held_out.to(device)
            score, number = task.score(on_device.through(model), on_device)
            total, count = total + score, count + number
    return total / count


def evaluate_in_parts(
    model: nn.Module, task: Task, split: Split, batch: int, device: str
) -> dict[str, float]:
    """The task's metric over a whole split, and over each of the task's parts that has targets.

    Returns:
        The metric by coordinate, as ``pairs=8``; that of the whole split first, under ``""``.
    """
    sums = dict.fromkeys(("", *task.parts()), (0.0, 0))
    with in_evaluation_mode(model), torch.inference_mode():
        for held_out in task.held_out(split, batch):
            on_device = held_out.to(device)
            for at, score, number in _scores(task, on_device.through(model), on_device):
                sums[at] = (sums[at][0] + score, sums[at][1] + number)
    return {at: total / count for at, (total, count) in sums.items() if count}


def _scores(task: Task, outputs: Tensor, batch: Batch) -> Iterator[tuple[str, float, int]]:
    yield "", *task.score(outputs, batch)
    for at, is_in_part in task.in_parts(batch).items():
        targets = batch.targets.masked_fill(~is_in_part, UNSCORED)
        if (targets != UNSCORED).any():
            yield at, *task.score(outputs, replace(batch, targets=targets))


@contextmanager
def in_evaluation_mode(model: nn.Module) -> Iterator[None]:
    """Without dropout and the like for the length of the block; then, always, as it was."""
    was_training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(was_training)
