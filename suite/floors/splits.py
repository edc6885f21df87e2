"""Read a task as a floor does: its training examples, once, and its held-out splits.

Where a task has an epoch, that is one epoch; where its examples are drawn, as many as NUM_DRAWN.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from models.interface import CONTEXT, INPUTS, Input
from suite.tasks.task import UNSCORED, Batch, Split, Task

NUM_DRAWN = 4_096  # examples, of a task that draws them
_SEED = 0
_TOKENS_AT_ONCE = 16_384


def training_batches(task: Task) -> Iterator[Batch]:
    """The training examples, each once where there is an epoch."""
    left = task.num_training_examples() or NUM_DRAWN
    size = min(_rows(task), left)
    for step in range(-(-left // size)):
        batch = task.training_batch(step, size, _SEED)
        yield batch if left >= size else batch.rows(slice(left))
        left -= size


def held_out_batches(task: Task, split: Split) -> Iterator[Batch]:
    """The whole split, a few rows at a time."""
    yield from task.held_out(split, _rows(task))


def numbers_of(batches: Iterable[Batch], name: str = INPUTS) -> NDArray[np.float32]:
    """`[examples, numbers]`: all numbers of each input of that name as one long vector."""
    found: NDArray[np.float32] = np.concatenate(
        [batch.inputs[name].flatten(1).numpy() for batch in batches]
    )
    return found


def answer_counts(task: Task, batches: Iterable[Batch]) -> NDArray[np.int64]:
    """`[classes]`: how often each is the answer."""
    counts = np.zeros(task.output_size, dtype=np.int64)
    for batch in batches:
        asked = batch.targets[batch.targets != UNSCORED].numpy()
        counts += np.bincount(asked, minlength=task.output_size)
    return counts


def context_of(task: type[Task]) -> Input | None:
    """The second stream that a task gives; None where it gives none."""
    return task.other_inputs(task.fixed_length or task.lengths[1]).get(CONTEXT)


def sources(batch: Batch) -> Iterator[NDArray[np.int64]]:
    """The symbols of each source, without padding."""
    yield from _real(batch.inputs[CONTEXT], batch.inputs.get("context_mask"))


def texts(batch: Batch) -> Iterator[NDArray[np.int64]]:
    """The symbols of each first input, without padding."""
    yield from _real(batch.inputs[INPUTS], batch.inputs.get("mask"))


def _real(symbols: Tensor, mask: Tensor | None) -> Iterator[NDArray[np.int64]]:
    is_real = symbols == symbols if mask is None else mask
    for row, real in zip(symbols.numpy(), is_real.numpy(), strict=True):
        yield row[real]


def asked_sequences(batch: Batch, end: int | None) -> Iterator[NDArray[np.int64]]:
    """The symbols of each target, without the one that ends it."""
    for row in batch.targets.numpy():
        yield row[(row != UNSCORED) & (row != end)]


def _rows(task: Task) -> int:
    return max(1, _TOKENS_AT_ONCE // task.length)
