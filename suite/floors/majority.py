"""Predict without reading the input: always the most frequent class, or the frequencies.

Where a right answer counts, the most frequent class of the training data is said. Where bits count,
each symbol costs -log2 of its frequency in the training text, and the floor is called unigram;
symbols that training never showed share what Witten and Bell (1991) leave them (see `ngram`, with
n = 1).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from suite.floors.floor import Floor
from suite.floors.splits import answer_counts, held_out_batches, training_batches
from suite.tasks.bases.text_windows import TextWindows
from suite.tasks.task import Task


class Majority(Floor):
    """Class frequencies of the training data."""

    name = "majority"
    label = "majority"
    version = 1
    needs = "classes or symbols as answers, each of which counts by itself"

    def label_on(self, task: type[Task]) -> str:
        """Of a text the frequencies of single symbols, which have a name."""
        return "unigram" if task.metric.unit == "bit" else self.label

    def suits(self, task: type[Task]) -> bool:
        """See `Floor.suits`."""
        return task.asks_for != "number" and task.metric.num_symbols == 1

    def score(self, task: Task) -> float:
        """From how often each class stands in training, and how often in the test split."""
        if isinstance(task, TextWindows):  # also of a masked text all symbols count
            seen = np.bincount(task.read().training, minlength=task.output_size)
        else:
            seen = answer_counts(task, training_batches(task))
        asked = answer_counts(task, held_out_batches(task, "test"))
        if task.metric.unit == "bit":
            return float(-(asked * np.log2(smoothed(seen))).sum() / asked.sum())
        return float(asked[seen.argmax()] / asked.sum())


def smoothed(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Frequencies `[classes]` of which none is zero: Witten and Bell's, over the uniform ones."""
    num_kinds, total = int((counts > 0).sum()), int(counts.sum())
    return (counts + num_kinds / len(counts)) / (total + num_kinds)
