"""How good is a model on a split? One process scores all of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from suite.tasks.task import Split, Task


def evaluate(model: nn.Module, task: Task, split: Split, batch: int, device: str) -> float:
    """The task's metric over a whole split, the model in evaluation mode."""
    total, count = 0.0, 0
    with in_evaluation_mode(model), torch.inference_mode():
        for held_out in task.held_out(split, batch):
            on_device = held_out.to(device)
            score, number = task.score(on_device.through(model), on_device)
            total, count = total + score, count + number
    return total / count


@contextmanager
def in_evaluation_mode(model: nn.Module) -> Iterator[None]:
    """Without dropout and the like for the length of the block; then as it was."""
    was_training = model.training
    model.eval()
    yield
    model.train(was_training)
