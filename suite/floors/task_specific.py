"""Floors for one kind of task: environments to act in, and kernel regression.

**Environments.** The random policy starts from the states of the test split, with their noise. The
mean of the data is the mean return of all recorded episodes, which is the return of imitating the
policies that made them, each as often as it acted. It is the same for a task that trains on the
best tenth of the episodes: these were selected by their return, so their mean is higher than the
expected return of the policies that made them.

**Kernel regression** (Nadaraya 1964, "On estimating regression", Theory of Probability and its
Applications 9(1); Watson 1964, "Smooth regression analysis", Sankhya A 26(4)). With points (x_i,
y_i) and a Gaussian kernel of bandwidth h, the value at x is

    m(x) = sum_i w_i y_i,    w = softmax_i(-(x - x_i)^2 / (2 h^2))

which is attention with the query x, keys x_i, values y_i and temperature 1 / (2 h^2). A model is
given the same points. The bandwidth is the one of `BANDWIDTHS` with the least error on the
validation split; an infinite one gives the mean of the y.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from bakeoff.models.interface import Outputs
from bakeoff.suite.floors.floor import Floor, over_batches
from bakeoff.suite.tasks.kernel_regression import KernelRegression, points_of
from bakeoff.suite.tasks.task import Batch, Split, Task
from bakeoff.suite.tasks.worlds.episodes import play_out
from bakeoff.suite.tasks.worlds.world import RANDOM
from bakeoff.suite.tasks.worlds.world_task import WorldTask

BANDWIDTHS: tuple[float, ...] = tuple(0.01 * 2.0 ** (i / 4) for i in range(29))  # up to 1.28


class RandomPlayer(Floor):
    """A policy that takes all actions with the same probability."""

    name = "random_player"
    label = "random player"
    task = WorldTask

    def score(self, task: Any) -> float:
        """Return the task's metric for the returns of the random policy."""

        def sums(batch: Batch) -> Tensor:
            assert batch.chances is not None, "held-out examples are episodes"
            players = np.full(len(batch.targets), RANDOM)
            returns = play_out(task.world, players, batch.chances.numpy()).returns
            found: Tensor = task.metric.sums_of(torch.from_numpy(returns), batch)
            return found

        return over_batches(task, sums)


class MeanOfData(Floor):
    """The mean return of the recorded episodes from which the training data were chosen."""

    name = "mean_of_data"
    label = "mean of all episodes"
    version = 2
    task = WorldTask

    def score(self, task: Any) -> float:
        """Return the task's metric when every episode has that return."""
        mean = float(task.recorded().returns.mean())
        return over_batches(
            task,
            lambda batch: task.metric.sums_of(
                torch.full((len(batch.targets),), mean).double(), batch
            ),
        )


class Mean(Floor):
    """The mean of the y values of the given points."""

    name = "mean"
    label = "mean"
    task = KernelRegression

    def score(self, task: Any) -> float:
        """Return the error of the mean."""
        return _error(task, "test", float("inf"))


class NadarayaWatson(Mean):
    """The mean of the y values, weighted by a Gaussian kernel."""

    name = "nadaraya_watson"
    label = "Nadaraya-Watson"

    def score(self, task: Any) -> float:
        """Return the error at the bandwidth chosen on the validation split."""
        return _error(task, "test", chosen_bandwidth(task))


def chosen_bandwidth(task: Task) -> float:
    """Return the bandwidth with the least error on the validation split."""
    errors = {bandwidth: _error(task, "validation", bandwidth) for bandwidth in BANDWIDTHS}
    return min(BANDWIDTHS, key=errors.__getitem__)


def kernel_regression(x: Tensor, y: Tensor, at: Tensor, bandwidth: float) -> Tensor:
    """Return the values at `at` `[batch]`, from points `x` and `y` `[batch, points]`."""
    weights = torch.softmax(-((at[:, None] - x) ** 2) / (2 * bandwidth**2), dim=1)
    return (weights * y).sum(dim=1)


def _error(task: Task, split: Split, bandwidth: float) -> float:
    def sums(batch: Batch) -> Tensor:
        x, y, at = (part.double() for part in points_of(batch))
        outputs = kernel_regression(x, y, at, bandwidth)[:, None]
        return task.metric.sums(Outputs(outputs), batch)

    return over_batches(task, sums, split)
