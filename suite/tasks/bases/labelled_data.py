"""Draw batches from labelled examples of a data file: shuffled epochs and fixed held-out splits."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from bakeoff.models.interface import Answer
from bakeoff.suite.tasks.data_order import shuffled_indices
from bakeoff.suite.tasks.task import Batch, Split, Task, TaskError


@dataclass(frozen=True, kw_only=True)
class Examples:
    """Some examples and their classes.

    Attributes:
        inputs: `[examples, ...]`, as stored in the file; for texts, one array of integers each.
        labels: `[examples]`.
    """

    inputs: NDArray[Any]
    labels: NDArray[np.int64]

    def __getitem__(self, chosen: slice | NDArray[np.int64]) -> Examples:
        return Examples(inputs=self.inputs[chosen], labels=self.labels[chosen])


@dataclass(frozen=True, kw_only=True)
class LabelledData:
    """The three splits, and the word of each symbol if symbols are words."""

    training: Examples
    held_out: Mapping[Split, Examples]
    vocabulary: tuple[str, ...] = ()


class LabelledTask(Task):
    """Classification of labelled examples."""

    architecture = "classifier"
    asks_for: ClassVar[Answer] = "class"

    @staticmethod
    @abstractmethod
    def data() -> LabelledData:
        """Return the examples of all splits, read once per process.

        Raises:
            TaskError: if the data file is missing, altered or malformed.
        """

    @abstractmethod
    def batch_of(self, examples: Examples) -> Batch:
        """Return the examples as a batch for a model."""

    _kept: NDArray[np.int64] | None = None  # indices of the training examples to use

    def train_on(self, num_examples: int) -> None:
        """Restrict training to the `balanced_subset` of that size."""
        labels = self.data().training.labels
        if not 1 <= num_examples <= len(labels):
            raise TaskError(
                f"{self.name}: num_training_examples must be 1 to {len(labels)}, not {num_examples}"
            )
        self._kept = balanced_subset(labels, num_examples)

    def num_training_examples(self) -> int:
        """Return the number of training examples."""
        return len(self.data().training.labels if self._kept is None else self._kept)

    def training_batch(self, step: int, batch: int, seed: int) -> Batch:
        """Return a batch, drawn without replacement in each epoch, in an order of its own."""
        count = self.num_training_examples()
        chosen = shuffled_indices(seed=seed, step=step, batch=batch, num_examples=count)
        return self.batch_of(
            self.data().training[chosen if self._kept is None else self._kept[chosen]]
        )

    def held_out(self, split: Split, batch: int) -> Iterator[Batch]:
        """Yield the split's examples in the order of the file."""
        examples = self.data().held_out[split]
        for first in range(0, len(examples.labels), batch):
            yield self.batch_of(examples[first : first + batch])


def balanced_subset(labels: NDArray[np.int64], num_examples: int) -> NDArray[np.int64]:
    """Return ascending indices of a subset: the first of each class, then the second, and so on.

    The classes are therefore equally frequent until one runs out, a smaller subset is part of a
    larger one, and the whole set keeps its order. The subset does not depend on a seed.

    Args:
        labels: `[examples]`.
        num_examples: The size of the subset, at most the number of labels.
    """
    by_class = np.argsort(labels, kind="stable")
    firsts = np.searchsorted(labels[by_class], labels[by_class])  # the start of each one's class
    ranks = np.empty_like(labels)
    ranks[by_class] = np.arange(len(labels)) - firsts
    return np.sort(np.lexsort((labels, ranks))[:num_examples])


def examples_of(texts: Sequence[NDArray[Any]], labels: Sequence[int]) -> Examples:
    """Return texts of different lengths, as arrays of integers, with their classes."""
    return Examples(
        inputs=np.fromiter(texts, dtype=object, count=len(texts)),
        labels=np.array(labels, dtype=np.int64),
    )
