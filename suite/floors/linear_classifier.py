"""A linear classifier of the numbers of an input, each in its place: what needs no mixing at all.

Logistic regression with an L2 penalty on all numbers of an example as one long vector. A picture
is told by which of its pixels are bright, and by nothing that two pixels say together. The strength
C of the penalty is the one of STRENGTHS with the best score on the validation split.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from models.interface import INPUTS
from suite.floors.floor import Floor
from suite.floors.logistic_regression import fitted, score_of, why_not_fitted
from suite.floors.splits import held_out_batches, training_batches
from suite.tasks.batch import joined
from suite.tasks.task import Batch, Task

STRENGTHS = (0.001, 0.01, 0.1)


class LinearClassifier(Floor):
    """Each number of an input votes for each class."""

    name = "linear_classifier"
    label = "linear classifier"
    version = 1
    needs = "inputs of numbers, equally many in each example, with a class each; scikit-learn"

    def why_not(self) -> str:
        """See `Floor.why_not`."""
        return why_not_fitted()

    def suits(self, task: type[Task]) -> bool:
        """See `Floor.suits`."""
        return task.asks_for == "class" and task.input_kind in {"vectors", "image"}

    def score(self, task: Task) -> float:
        """Of the classifier that is best on the validation split."""
        training = list(training_batches(task))
        rows, labels = _rows(training), joined(training).targets.numpy()
        validation = list(held_out_batches(task, "validation"))
        classifiers = [fitted(rows, labels, strength) for strength in STRENGTHS]
        seen = _rows(validation)
        best = max(classifiers, key=lambda each: score_of(each, seen, task, validation))
        test = list(held_out_batches(task, "test"))
        return score_of(best, _rows(test), task, test)


def _rows(batches: Iterable[Batch]) -> NDArray[np.float32]:
    """`[examples, numbers]`."""
    found: NDArray[np.float32] = np.concatenate(
        [batch.inputs[INPUTS].flatten(1).numpy() for batch in batches]
    )
    return found
