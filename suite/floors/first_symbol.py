"""Predict a class from the first symbol of the input alone."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from models.interface import INPUTS
from suite.floors.floor import Floor
from suite.floors.splits import held_out_batches, training_batches
from suite.tasks.metrics import Accuracy
from suite.tasks.task import Batch, Task


class FirstSymbol(Floor):
    """The most frequent class of the training examples that begin with the same symbol.

    Of ListOps the first symbol is the outermost operator: a maximum is mostly 9, a minimum mostly
    0. A model that beats this has read what stands inside.
    """

    name = "first_symbol"
    label = "by the first symbol"
    version = 1
    needs = "one class for a sequence of symbols"

    def suits(self, task: type[Task]) -> bool:
        """See `Floor.suits`."""
        is_class = task.asks_for == "class" and isinstance(task.metric, Accuracy)
        length = task.fixed_length or task.lengths[0]
        return is_class and task.interface(length).inputs[INPUTS].kind == "tokens"

    def score(self, task: Task) -> float:
        """Counted in training, scored on the test split."""
        seen = _pairs(task, training_batches(task))
        asked = _pairs(task, held_out_batches(task, "test"))
        right = asked[np.arange(len(asked)), seen.argmax(axis=1)]
        return float(right.sum() / asked.sum())


def _pairs(task: Task, batches: Iterable[Batch]) -> NDArray[np.int64]:
    """`[symbols, classes]`: how often each class belongs to an input that begins with a symbol."""
    counts = np.zeros((task.input_size, task.output_size), dtype=np.int64)
    for batch in batches:
        np.add.at(counts, (batch.inputs[INPUTS][:, 0].numpy(), batch.targets.numpy()), 1)
    return counts
