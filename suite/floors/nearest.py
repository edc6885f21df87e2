"""The class of what lies nearest, by squared distance over all numbers of an input.

Nearest centroid: the mean of each class in the training data (Rocchio 1971; Tibshirani et al. 2002,
doi:10.1073/pnas.082099299, without their shrinkage). k nearest neighbours (Cover and Hart 1967,
doi:10.1109/TIT.1967.1053964): the class that most of the k nearest training examples have, of as
many the one whose examples are nearer. k is the one of NUMBERS with the best score on the
validation split.

A picture that is moved by a pixel lies far away: neither knows what a convolution is given.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from models.interface import Outputs
from suite.floors.floor import Floor
from suite.floors.splits import held_out_batches, numbers_of, training_batches
from suite.tasks.batch import joined
from suite.tasks.task import Split, Task

NUMBERS = (1, 3, 5, 9, 17)


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
        rows, labels = _training(task)
        sums = torch.zeros(task.output_size, rows.shape[1]).index_add_(0, labels, rows)
        counts = torch.bincount(labels, minlength=task.output_size)
        means = sums / counts[:, None]  # a class that training lacks is nowhere

        def logits(asked: Tensor) -> Tensor:
            return (-_distances(asked, means)).nan_to_num(nan=-torch.inf)

        return _score(task, "test", logits)


class NearestNeighbours(NearestCentroid):
    """The class that most of the k nearest training examples have."""

    name = "nearest_neighbours"
    label = "nearest neighbours"
    version = 1

    def score(self, task: Task) -> float:
        """With the k that is best on the validation split, of equals the smallest."""
        rows, labels = _training(task)

        def scored(split: Split, k: int) -> float:
            return _score(task, split, lambda asked: votes(rows, labels, asked, k, task.output_size))

        possible = [k for k in NUMBERS if k <= len(rows)]
        return scored("test", max(possible, key=lambda k: scored("validation", k)))


def votes(rows: Tensor, labels: Tensor, asked: Tensor, k: int, num_classes: int) -> Tensor:
    """`[asked, classes]`: how many of the k nearest rows have each class, the nearer a bit more.

    Args:
        rows: `[examples, numbers]`.
        labels: `[examples]`, their classes.
        asked: `[asked, numbers]`.
        k: At most as many as there are examples.
        num_classes: That there are.
    """
    nearest = _distances(asked, rows).topk(k, largest=False).indices  # in order
    bonus = 0.5 / (k * torch.arange(1, k + 1))  # all together less than a vote
    counted = torch.zeros(len(asked), num_classes)
    return counted.scatter_add_(1, labels[nearest], (1 + bonus).expand(len(asked), k))


def _distances(asked: Tensor, rows: Tensor) -> Tensor:
    """`[asked, rows]`: squared, less what is the same for all rows."""
    return rows.square().sum(dim=1) - 2 * asked @ rows.T


def _training(task: Task) -> tuple[Tensor, Tensor]:
    batches = list(training_batches(task))
    return torch.from_numpy(numbers_of(batches)), joined(batches).targets


def _score(task: Task, split: Split, logits: Callable[[Tensor], Tensor]) -> float:
    return task.metric.over(
        task.metric.sums(Outputs(logits(torch.from_numpy(numbers_of([batch])))), batch)
        for batch in held_out_batches(task, split)
    )
