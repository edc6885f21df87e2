"""Logistic regression on the numbers of an input, each in its place: what needs no mixing at all.

With an L2 penalty, by scikit-learn, on all numbers of an example as one long vector. A picture is
told by which of its pixels are bright, and by nothing that two pixels say together. The strength C
of the penalty is the one of STRENGTHS with the best score on the validation split. `tf_idf` fits
the same to weighted words.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from models.interface import Outputs
from suite.floors.floor import Floor
from suite.floors.splits import held_out_batches, numbers_of, training_batches
from suite.tasks.batch import joined
from suite.tasks.task import Batch, Task

STRENGTHS = (0.001, 0.01, 0.1)
_MOST_ITERATIONS = 2_000
_LIBRARY = "sklearn"


def why_not_fitted() -> str:
    """Why this machine cannot fit one; empty where it can."""
    return "" if find_spec(_LIBRARY) else "scikit-learn is not installed"


def fitted(rows: Any, labels: NDArray[np.int64], strength: float) -> Any:
    """A classifier of rows, on as many threads as the trial may use: it would take every core.

    Args:
        rows: `[examples, features]`, an array or a sparse matrix.
        labels: `[examples]`.
        strength: The inverse of the penalty, scikit-learn's C.
    """
    from sklearn.linear_model import LogisticRegression
    from threadpoolctl import threadpool_limits

    with threadpool_limits(limits=torch.get_num_threads()):
        return LogisticRegression(C=strength, max_iter=_MOST_ITERATIONS).fit(rows, labels)


def score_of(classifier: Any, rows: Any, task: Task, batches: list[Batch]) -> float:
    """The task's metric on these batches; the classifier's log-probabilities are the logits."""
    known = classifier.predict_log_proba(rows)
    logits = torch.full((len(known), task.output_size), -torch.inf, dtype=torch.float64)
    logits[:, torch.as_tensor(classifier.classes_)] = torch.from_numpy(known).double()
    return task.metric.value(task.metric.sums(Outputs(logits), joined(batches)))


class LogisticRegressionFloor(Floor):
    """Each number of an input votes for each class."""

    name = "logistic_regression"
    label = "logistic regression"
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
        rows, labels = numbers_of(training), joined(training).targets.numpy()
        validation = list(held_out_batches(task, "validation"))
        classifiers = [fitted(rows, labels, strength) for strength in STRENGTHS]
        seen = numbers_of(validation)
        best = max(classifiers, key=lambda each: score_of(each, seen, task, validation))
        test = list(held_out_batches(task, "test"))
        return score_of(best, numbers_of(test), task, test)
