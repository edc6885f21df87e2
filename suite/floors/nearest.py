"""The class of what lies nearest, by squared distance over all numbers of an input.

Nearest centroid: the mean of each class in the training data (Rocchio 1971; Tibshirani et al. 2002,
doi:10.1073/pnas.082099299, without their shrinkage). k nearest neighbours (Cover and Hart 1967,
doi:10.1109/TIT.1967.1053964): the class that most of the k nearest training examples have, of as
many the one whose examples are nearer. k is the one of NUMBERS with the best score on the
validation split.

A picture that is moved by a pixel lies far away: neither knows what a convolution is given.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from models.interface import Outputs
from suite.floors.floor import Floor
from suite.floors.splits import held_out_batches, numbers_of, training_batches
from suite.tasks.batch import joined
from suite.tasks.task import Batch, Split, Task

NUMBERS = (1, 3, 5, 9, 17)
_ROWS_AT_ONCE = 512


class NearestCentroid(Floor):
    """The class whose mean is nearest."""

    name = "nearest_centroid"
    label = "nearest centroid"
    version = 1
    needs = "inputs of numbers, equally many in each example, with a class each"

    def suits(self, task: type[Task]) -> bool:
        """See `Floor.suits`."""
        return task.asks_for == "class" and task.input_kind in {"vectors", "image"}

    def score(self, task: Task) -> float:
        """There is nothing to choose."""
        rows, training = _rows(training_batches(task))
        sums = torch.zeros(task.output_size, rows.shape[1]).index_add_(0, training.targets, rows)
        counts = torch.bincount(training.targets, minlength=task.output_size)
        asked, test = _rows(held_out_batches(task, "test"))
        away = _distances(asked, sums / counts[:, None])
        logits = (-away).nan_to_num(nan=-torch.inf)  # a class that training lacks is nowhere
        return task.metric.value(task.metric.sums(Outputs(logits), test))


class NearestNeighbours(NearestCentroid):
    """The class that most of the k nearest training examples have."""

    name = "nearest_neighbours"
    label = "nearest neighbours"
    version = 1

    def score(self, task: Task) -> float:
        """With the k that is best on the validation split, of equals the smallest."""
        rows, training = _rows(training_batches(task))

        def scores(split: Split, *numbers: int) -> dict[int, float]:
            asked, batch = _rows(held_out_batches(task, split))
            classes = training.targets[nearest(rows, asked, max(numbers))]
            said = {k: Outputs(votes(classes[:, :k], task.output_size)) for k in numbers}
            return {k: task.metric.value(task.metric.sums(said[k], batch)) for k in numbers}

        seen = scores("validation", *(k for k in NUMBERS if k <= len(rows)))
        best = max(seen, key=seen.__getitem__)
        return scores("test", best)[best]


def nearest(rows: Tensor, asked: Tensor, count: int) -> Tensor:
    """`[asked, count]`: which rows are nearest to each, the nearest first.

    Args:
        rows: `[examples, numbers]`.
        asked: `[asked, numbers]`.
        count: At most as many as there are examples.
    """
    firsts = range(0, len(asked), _ROWS_AT_ONCE)
    parts = (_distances(asked[first : first + _ROWS_AT_ONCE], rows) for first in firsts)
    return torch.cat([part.topk(count, largest=False).indices for part in parts])


def votes(classes: Tensor, num_classes: int) -> Tensor:
    """`[asked, classes]`: how many neighbours have each class, the nearer counting a bit more.

    Args:
        classes: `[asked, k]`, of the neighbours, the nearest first.
        num_classes: That there are.
    """
    k = classes.shape[1]
    weights = 1 + 0.5 / (k * torch.arange(1, k + 1))  # what is above 1 is together below a vote
    counted = torch.zeros(len(classes), num_classes)
    return counted.scatter_add_(1, classes, weights.expand(*classes.shape))


def _distances(asked: Tensor, rows: Tensor) -> Tensor:
    """`[asked, rows]`: squared, less what is the same for all rows."""
    return rows.square().sum(dim=1) - 2 * asked @ rows.T


def _rows(batches: Iterable[Batch]) -> tuple[Tensor, Batch]:
    """`[examples, numbers]`, and the examples themselves."""
    found = list(batches)
    return torch.from_numpy(numbers_of(found)), joined(found)
