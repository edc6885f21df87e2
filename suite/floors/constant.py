"""Floors that predict the same for all inputs: chance, the most frequent answer, a mean.

If the metric is in bits, `Majority` charges -log2 of a symbol's frequency in the training text.
Symbols that the training text lacks share the probability that Witten and Bell (1991) leave them;
see `bakeoff.suite.floors.counting` with n = 1.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from bakeoff.suite.floors.floor import (
    Floor,
    answer_counts,
    asked_sequences,
    held_out_batches,
    score_of_logits,
    score_of_written,
    training_batches,
)
from bakeoff.suite.tasks.bases.text_windows import TextWindows
from bakeoff.suite.tasks.metrics import Accuracy
from bakeoff.suite.tasks.sequence_metrics import SequenceMetric
from bakeoff.suite.tasks.task import UNSCORED, Task


class Uniform(Floor):
    """The exact expectation of uniformly drawn answers; it reads no data.

    It is 1 / classes to the power of the number of answers that must all be right, or the logarithm
    of the number of symbols for a metric in bits.
    """

    name = "uniform"
    label = "uniform"
    is_quick = True
    is_fitted = False

    def suits(self, task: type[Task]) -> bool:
        """Return True if the metric defines how many symbols must be right together."""
        return task.asks_for != "number" and task.metric.num_symbols is not None

    def score(self, task: Any) -> float:
        """Return the expected metric."""
        if task.metric.unit == "bit":
            return math.log2(task.output_size)
        return float((1.0 / task.output_size) ** task.metric.num_symbols)


class Majority(Floor):
    """The most frequent class of the training data, or the symbol frequencies ("unigram")."""

    name = "majority"
    label = "majority"
    is_quick = True

    def label_on(self, task: type[Task]) -> str:
        """Return "unigram" for a text."""
        return "unigram" if task.metric.unit == "bit" else super().label_on(task)

    def suits(self, task: type[Task]) -> bool:
        """Return True if each answer counts by itself."""
        return task.asks_for != "number" and task.metric.num_symbols == 1

    def score(self, task: Any) -> float:
        """Return the share of right answers, or the bits of the smoothed frequencies."""
        if isinstance(task, TextWindows):  # all symbols of a masked text count too
            seen = np.bincount(task.read().training, minlength=task.output_size)
        else:
            seen = answer_counts(task, training_batches(task))
        asked = answer_counts(task, held_out_batches(task, "test"))
        if task.metric.unit == "bit":
            return float(-(asked * np.log2(smoothed(seen))).sum() / asked.sum())
        return float(asked[seen.argmax()] / asked.sum())


def smoothed(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return frequencies `[classes]` without a zero: Witten-Bell over the uniform distribution."""
    num_kinds, total = int((counts > 0).sum()), int(counts.sum())
    return (counts + num_kinds / len(counts)) / (total + num_kinds)


class ShownAnswers(Floor):
    """The most frequent answer of the example, predicted for all of its questions.

    It bounds a model that notices which symbols an example shows but recalls none of their
    positions; its accuracy is 1 / pairs for recall.
    """

    name = "shown_answers"
    label = "guess among shown"
    is_quick = True
    is_fitted = False
    metric = Accuracy

    def suits(self, task: type[Task]) -> bool:
        """Return True if examples show all of their answers."""
        return task.answers_are_shown and super().suits(task)

    def score(self, task: Any) -> float:
        """Return the share of right answers."""
        right = total = 0
        for batch in held_out_batches(task, "test"):
            for row in batch.targets:
                _, counts = row[row != UNSCORED].unique(return_counts=True)
                right += int(counts.max()) if len(counts) else 0
                total += int(counts.sum())
        return right / total


class LikeliestSequence(Floor):
    """The most frequent training target, predicted for every source; the first one in a tie."""

    name = "likeliest_sequence"
    label = "likeliest sequence"
    asks_for = ("sequence",)
    metric = SequenceMetric

    def score(self, task: Any) -> float:
        """Return the task's metric for that sequence."""
        counts = Counter(
            tuple(target.tolist())
            for batch in training_batches(task)
            for target in asked_sequences(batch, task.metric.end)
        )
        ((likeliest, _),) = counts.most_common(1)
        return score_of_written(task, lambda batch: [likeliest] * len(batch.targets))


class MeanPicture(Floor):
    """The mean of the training pictures, pixel by pixel."""

    name = "mean_picture"
    label = "mean picture"
    asks_for = ("image",)

    def score(self, task: Any) -> float:
        """Return the metric of the mean picture."""
        pictures = torch.cat([batch.targets for batch in training_batches(task)])
        mean = pictures.double().mean(dim=0).float()
        return score_of_logits(task, lambda batch: mean.expand(batch.targets.shape))
