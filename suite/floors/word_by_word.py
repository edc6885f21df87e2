"""Translate each symbol of the source by itself, in its place: a dictionary, and no grammar.

The dictionary gives for each symbol s of the source the symbol t with the largest Dice coefficient
(Dice 1945, doi:10.2307/1932409), 2 n(s, t) / (n(s) + n(t)), where n counts training examples: those
with s in the source, with t in the target, with both. A symbol that training never showed is
written as it is; of equal ones the smaller is taken.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from suite.floors.floor import Floor
from suite.floors.splits import (
    asked_sequences,
    context_of,
    held_out_batches,
    sources,
    training_batches,
)
from suite.tasks.sequence_metrics import SequenceMetric
from suite.tasks.task import Task


class WordByWord(Floor):
    """The symbols of the source, each translated."""

    name = "word_by_word"
    label = "word by word"
    version = 1
    needs = "a source and a target of symbols, and a metric of what is written"

    def suits(self, task: type[Task]) -> bool:
        """See `Floor.suits`."""
        is_written = task.asks_for == "sequence" and isinstance(task.metric, SequenceMetric)
        source = context_of(task)
        return is_written and source is not None and source.kind == "tokens"

    def score(self, task: Task) -> float:
        """From the training examples; the validation split is not read."""
        assert isinstance(task.metric, SequenceMetric), "see `suits`"
        metric, known = task.metric, dictionary(task, task.metric.end)
        batches = held_out_batches(task, "test")
        return metric.over(
            metric.sums_of_written((known[row].tolist() for row in sources(each)), each)
            for each in batches
        )


def dictionary(task: Task, end: int | None) -> NDArray[np.int64]:
    """`[symbols of the source]`: what each is translated as."""
    num_symbols = task.other_inputs(task.length)["context"].size
    both = np.zeros((num_symbols, task.output_size), dtype=np.int32)
    in_source, in_target = (np.zeros(size, dtype=np.int64) for size in both.shape)
    for batch in training_batches(task):
        for source, target in zip(sources(batch), asked_sequences(batch, end), strict=True):
            own, others = np.unique(source), np.unique(target)
            in_source[own] += 1
            in_target[others] += 1
            both[np.ix_(own, others)] += 1
    dice = both / np.maximum(1, in_source[:, None] + in_target)  # but for the factor of 2
    return np.where(in_source > 0, dice.argmax(axis=1), np.arange(num_symbols))
