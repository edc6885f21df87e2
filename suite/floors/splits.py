"""Read a task as a floor does: its training examples, once, and its held-out splits.

Where a task has an epoch, that is one epoch; where its examples are drawn, as many as NUM_DRAWN.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from suite.tasks.task import UNSCORED, Batch, Split, Task
from suite.tasks.text_windows import TextWindows

NUM_DRAWN = 4_096  # examples, of a task that draws them
_SEED = 0
_TOKENS_AT_ONCE = 16_384


def training_batches(task: Task) -> Iterator[Batch]:
    """The training examples, each once where there is an epoch."""
    left = task.num_training_examples() or NUM_DRAWN
    size = min(_rows(task), left)
    for step in range(-(-left // size)):
        batch = task.training_batch(step, size, _SEED)
        yield batch if left >= size else first_rows(batch, left)
        left -= size


def held_out_batches(task: Task, split: Split) -> Iterator[Batch]:
    """The whole split, a few rows at a time."""
    yield from task.held_out(split, _rows(task))


def training_counts(task: Task) -> NDArray[np.int64]:
    """`[classes]`: how often each is the answer in training; of a text, each of its symbols."""
    if isinstance(task, TextWindows):
        return np.bincount(task.read().training, minlength=task.output_size)
    return sum(
        (_counts(task, batch) for batch in training_batches(task)),
        start=np.zeros(task.output_size, dtype=np.int64),
    )


def test_counts(task: Task) -> NDArray[np.int64]:
    """`[classes]`: how often each is the answer in the test split."""
    return sum(
        (_counts(task, batch) for batch in held_out_batches(task, "test")),
        start=np.zeros(task.output_size, dtype=np.int64),
    )


def first_rows(batch: Batch, num_rows: int) -> Batch:
    """The first examples of a batch."""
    mask = None if batch.mask is None else batch.mask[:num_rows]
    return Batch(inputs=batch.inputs[:num_rows], targets=batch.targets[:num_rows], mask=mask)


def _rows(task: Task) -> int:
    return max(1, _TOKENS_AT_ONCE // task.length)


def _counts(task: Task, batch: Batch) -> NDArray[np.int64]:
    asked = batch.targets[batch.targets != UNSCORED].numpy()
    return np.bincount(asked, minlength=task.output_size)
