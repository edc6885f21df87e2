"""Define the contract of a floor, a predictor without an architecture, and read tasks for it.

A floor is fitted to the training data of the models, chooses its settings on the validation split,
and reads the test split once, for its score. It opens no file: the task provides all data.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from bakeoff.models.interface import CONTEXT, INPUTS, Input, Outputs
from bakeoff.suite.tasks.metrics import Metric
from bakeoff.suite.tasks.task import UNSCORED, Batch, Split, Task

NUM_DRAWN = 4_096  # the number of examples that are read of a task that draws its examples
_SEED = 0
_TOKENS_AT_ONCE = 16_384


class Floor(ABC):
    """A predictor. The attributes from `task` on restrict the tasks that it suits; empty means any.

    Attributes:
        name: The name in `Task.floors`, a key of `bakeoff.suite.floors.registry.FLOORS`.
        label: The name in tables.
        version: A number that increases whenever a change of the code changes a score.
        task: The class that the task must have.
        metric: The class that the metric must have.
        asks_for: The kinds of answer that the task may ask for.
        input_kinds: The kinds that the first input may have.
        context: The kind that the context must have.
        is_quick: True if its score takes well under a second on every task.
        is_fitted: True if it reads training examples.
    """

    name: ClassVar[str]
    label: ClassVar[str]
    version: ClassVar[int] = 1
    task: ClassVar[type] = Task
    metric: ClassVar[type] = Metric
    asks_for: ClassVar[tuple[str, ...]] = ()
    input_kinds: ClassVar[tuple[str, ...]] = ()
    context: ClassVar[str] = ""
    is_quick: ClassVar[bool] = False
    is_fitted: ClassVar[bool] = True

    def label_on(self, task: type[Task]) -> str:
        """Return the label in the tables of the given task.

        The label names the number of training examples if the floor reads only some of them.
        """
        if task.most_fitted is None or not self.is_fitted:
            return self.label
        return f"{self.label} (fitted to {task.most_fitted:,} examples)"

    def suits(self, task: type[Task]) -> bool:
        """Return True if the task has what the floor needs."""
        if self.context:
            context = context_of(task)
            if context is None or context.kind != self.context:
                return False
        return (
            issubclass(task, self.task)
            and isinstance(task.metric, self.metric)
            and (not self.asks_for or task.asks_for in self.asks_for)
            and (not self.input_kinds or task.input_kind in self.input_kinds)
        )

    @abstractmethod
    def score(self, task: Any) -> float:
        """Return the task's metric on its test split.

        Raises:
            TaskError: if the data are missing or altered.
        """


def over_batches(task: Task, sums: Callable[[Batch], Tensor], split: Split = "test") -> float:
    """Return the task's metric over a split, accumulated from the metric's sums on each batch."""
    return task.metric.over(sums(batch) for batch in held_out_batches(task, split))


def score_of_logits(task: Task, logits: Callable[[Batch], Tensor]) -> float:
    """Return the task's metric on the test split, given a function from a batch to its logits."""
    return over_batches(task, lambda batch: task.metric.sums(Outputs(logits(batch)), batch))


def score_of_written(task: Any, written: Callable[[Batch], Iterable[Any]]) -> float:
    """Return the task's metric on the test split, given a function from a batch to sequences."""
    return over_batches(task, lambda batch: task.metric.sums_of_written(written(batch), batch))


def training_batches(task: Task) -> Iterator[Batch]:
    """Yield an epoch of training examples, or `NUM_DRAWN` examples of a task that draws them.

    A task whose epoch is large yields `Task.most_fitted` of its examples, drawn at random.
    """
    left = task.num_training_examples() or NUM_DRAWN
    left = min(left, task.most_fitted or left)
    size = min(_rows(task), left)
    for step in range(-(-left // size)):
        batch = task.training_batch(step, size, _SEED)
        yield batch if left >= size else batch.rows(slice(left))
        left -= size


def held_out_batches(task: Task, split: Split) -> Iterator[Batch]:
    """Yield the whole split, a few rows at a time."""
    yield from task.held_out(split, _rows(task))


def _rows(task: Task) -> int:
    return max(1, _TOKENS_AT_ONCE // task.length)


def vectors_of(batches: Iterable[Batch], name: str = INPUTS) -> NDArray[np.float32]:
    """Return one input of each example as a flat vector, `[examples, features]`."""
    rows: NDArray[np.float32] = np.concatenate(
        [batch.inputs[name].flatten(1).numpy() for batch in batches]
    )
    return rows


def answer_counts(task: Task, batches: Iterable[Batch]) -> NDArray[np.int64]:
    """Return how often each class is the answer, `[classes]`."""
    counts = np.zeros(task.output_size, dtype=np.int64)
    for batch in batches:
        asked = batch.targets[batch.targets != UNSCORED].numpy()
        counts += np.bincount(asked, minlength=task.output_size)
    return counts


def context_of(task: type[Task]) -> Input | None:
    """Return the second input of the task, or None if it has only one."""
    return task.other_inputs(task.fixed_length or task.lengths[1]).get(CONTEXT)


def texts(batch: Batch, name: str = INPUTS) -> Iterator[NDArray[np.int64]]:
    """Yield the symbols of the named input of each example, without padding."""
    symbols = batch.inputs[name]
    mask = batch.inputs.get("mask" if name == INPUTS else f"{name}_mask")
    is_real = symbols == symbols if mask is None else mask
    for row, real in zip(symbols.numpy(), is_real.numpy(), strict=True):
        yield row[real]


def asked_sequences(batch: Batch, end: int | None) -> Iterator[NDArray[np.int64]]:
    """Yield the symbols of each target, without the end symbol."""
    for row in batch.targets.numpy():
        yield row[(row != UNSCORED) & (row != end)]
