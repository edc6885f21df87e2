"""Fit logistic regression with an L2 penalty, by scikit-learn."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from models.interface import Outputs
from suite.tasks.batch import joined
from suite.tasks.task import Batch, Task

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
