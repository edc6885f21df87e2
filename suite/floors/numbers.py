"""Floors for tasks that ask for a number: the mean of the training answers, and ridge regression.

**Ridge regression** (Hoerl and Kennard 1970, doi:10.1080/00401706.1970.10488634) is a linear map of
all numbers of an input, with an L2 penalty. Its strength is the one of `STRENGTHS` with the least
error on the validation split, in a tie the first.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bakeoff.models.interface import Outputs
from bakeoff.suite.floors.floor import (
    Floor,
    held_out_batches,
    score_of_logits,
    training_batches,
    vectors_of,
)
from bakeoff.suite.tasks.metrics import MeanSquaredError
from bakeoff.suite.tasks.task import Batch, Split

STRENGTHS = (0.1, 1.0, 10.0, 100.0, 1_000.0, 10_000.0)


class MeanAnswer(Floor):
    """The mean of the training answers."""

    name = "mean_answer"
    label = "mean answer"
    asks_for = ("number",)
    metric = MeanSquaredError

    def score(self, task: Any) -> float:
        """Return the error of the mean."""
        answers = torch.cat([batch.targets for batch in training_batches(task)])
        mean = answers.double().mean().float()
        return score_of_logits(task, lambda batch: mean.expand(len(batch.targets), 1))


class RidgeRegression(Floor):
    """A linear map of the input, with an L2 penalty."""

    name = "ridge_regression"
    label = "ridge regression"
    asks_for = ("number",)
    input_kinds = ("vectors", "image")
    metric = MeanSquaredError

    def score(self, task: Any) -> float:
        """Return the error at the best strength."""
        from sklearn.linear_model import Ridge
        from threadpoolctl import threadpool_limits

        training = list(training_batches(task))
        rows: NDArray[np.float32] = vectors_of(training)
        answers = torch.cat([batch.targets for batch in training]).numpy()
        with threadpool_limits(limits=torch.get_num_threads()):
            models = [Ridge(alpha=strength).fit(rows, answers) for strength in STRENGTHS]

        def sums(batch: Batch, model: Any) -> Tensor:
            found = torch.from_numpy(np.asarray(model.predict(vectors_of([batch])))).float()
            total: Tensor = task.metric.sums(Outputs(found[:, None]), batch)
            return total

        def error(model: Any, split: Split) -> float:
            batches = held_out_batches(task, split)
            return float(task.metric.over(sums(batch, model) for batch in batches))

        return error(min(models, key=lambda model: error(model, "validation")), "test")
