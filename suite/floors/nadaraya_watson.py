"""Kernel regression: a mean of what was seen, weighted by a kernel that nobody trained.

Nadaraya 1964 ("On estimating regression", Theory of Probability and its Applications 9(1)) and
Watson 1964 ("Smooth regression analysis", Sankhya A 26(4)): with points (x_i, y_i) and a Gaussian
kernel of bandwidth h, the value at x is

    m(x) = sum_i w_i y_i,    w = softmax_i(-(x - x_i)^2 / (2 h^2))

which is attention with the query x, keys x_i and values y_i, and 1 / (2 h^2) for its temperature. A
model sees the same points. The bandwidth is the one of BANDWIDTHS with the least error on the
validation split; an infinite one gives the mean of the y.
"""

from __future__ import annotations

import torch
from torch import Tensor

from models.interface import Outputs
from suite.floors.floor import Floor
from suite.floors.splits import held_out_batches
from suite.tasks.kernel_regression import KernelRegression, points_of
from suite.tasks.task import Split, Task

BANDWIDTHS: tuple[float, ...] = tuple(0.01 * 2.0 ** (i / 4) for i in range(29))  # to 1.28


class Mean(Floor):
    """The mean of the y of the same points."""

    name = "mean"
    label = "mean"
    version = 1
    needs = "points (suite.tasks.kernel_regression)"

    def suits(self, task: type[Task]) -> bool:
        """See `Floor.suits`."""
        return issubclass(task, KernelRegression)

    def score(self, task: Task) -> float:
        """There is nothing to choose."""
        return _error(task, "test", float("inf"))


class NadarayaWatson(Mean):
    """Weighted by the kernel."""

    name = "nadaraya_watson"
    label = "Nadaraya-Watson"
    version = 1

    def score(self, task: Task) -> float:
        """With the bandwidth that is best on the validation split."""
        return _error(task, "test", chosen_bandwidth(task))


def chosen_bandwidth(task: Task) -> float:
    """The one with the least error on the validation split."""
    errors = {bandwidth: _error(task, "validation", bandwidth) for bandwidth in BANDWIDTHS}
    return min(BANDWIDTHS, key=errors.__getitem__)


def kernel_regression(x: Tensor, y: Tensor, at: Tensor, bandwidth: float) -> Tensor:
    """`[batch]`: the value at `at` `[batch]`, of points `x` and `y` `[batch, points]`."""
    weights = torch.softmax(-((at[:, None] - x) ** 2) / (2 * bandwidth**2), dim=1)
    return (weights * y).sum(dim=1)


def _error(task: Task, split: Split, bandwidth: float) -> float:
    sums = []
    for batch in held_out_batches(task, split):
        x, y, at = (part.double() for part in points_of(batch))
        outputs = kernel_regression(x, y, at, bandwidth)[:, None]
        sums.append(task.metric.sums(Outputs(outputs), batch))
    return task.metric.over(sums)
