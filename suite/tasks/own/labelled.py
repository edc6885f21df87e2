"""Tasks on labelled arrays of the user's own: their splits in files, and the classes of tasks."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bakeoff.models.interface import Answer, InputKind, Outputs
from bakeoff.suite.tasks.bases.images import IMAGE_FLOORS, ImageTask
from bakeoff.suite.tasks.bases.labelled_data import Examples, LabelledData, LabelledTask
from bakeoff.suite.tasks.data_order import RandomStream
from bakeoff.suite.tasks.metrics import MeanSquaredError, mean_of_squares
from bakeoff.suite.tasks.own.data import Prepared
from bakeoff.suite.tasks.own.reading import TRAINING, VALIDATION
from bakeoff.suite.tasks.own.split_names import SPLITS, counts_of, refuse_few
from bakeoff.suite.tasks.task import Batch, Metric, TaskError

MOST_CLASSES = 10_000
MOST_FITTED = 20_000  # training examples that floors read
_MOST_NUMBERS = 1 << 22  # numbers that these examples may have together
# Numbers of an input, for floors that compare whole inputs and for those that fit a weight to each.
_MOST_COMPARED, _MOST_WEIGHED = 3 << 12, 3 << 10
_MOST_SCORED = {VALIDATION: 10_000}  # examples of each model's validations
_BYTES_AT_ONCE = 1 << 22
_SHOWN_CLASSES = 10
_ROUNDING = 1e-12  # relative to a mean; a smaller deviation is rounding

Array = NDArray[Any]


class OwnExamples(LabelledTask):
    """A task on arrays of the user's own, of which a batch reads the rows that it needs."""

    prepared: ClassVar[Prepared]
    architecture = "classifier"

    @classmethod
    @cache
    def data(cls) -> LabelledData:
        """Return the examples of all splits, mapped into memory."""
        training, validation, test = (
            Examples(
                inputs=cls.prepared.array(f"{name}_inputs"),
                labels=cls.prepared.array(f"{name}_targets"),
            )
            for name in SPLITS
        )
        return LabelledData(training=training, held_out={"validation": validation, "test": test})

    @classmethod
    def num_test_examples(cls) -> int | None:
        """Return the number of test examples."""
        return len(cls.data().held_out["test"].labels)

    def train_on(self, num_examples: int) -> None:
        """Restrict training to that many examples: a balanced subset, or random without classes.

        A smaller random subset is part of a larger one, and none depends on a seed.
        """
        super().train_on(num_examples)
        if self.asks_for != "class":
            drawn = RandomStream(0, 0).bits(len(self.data().training.labels))
            self._kept = np.sort(np.argsort(drawn, kind="stable")[:num_examples])

    def batch_of(self, examples: Examples) -> Batch:
        """Return the examples as a batch for a model."""
        kinds = (
            np.int64 if self.input_kind == "tokens" else np.float32,
            np.float32 if self.asks_for == "number" else np.int64,
        )
        both = zip((examples.inputs, examples.labels), kinds, strict=True)
        inputs, targets = (torch.from_numpy(each.astype(kind)) for each, kind in both)
        return Batch(inputs={"inputs": inputs}, targets=targets)


class OwnSymbols(OwnExamples):
    """Prediction of a symbol for each token."""

    architecture = "tagger"
    asks_for: ClassVar[Answer] = "symbols"


class NumberAnswers:
    """The metric, the loss and the floors of tasks that ask for a number."""

    asks_for: ClassVar[Answer] = "number"
    output_size: ClassVar[int] = 1
    metric: ClassVar[Metric] = MeanSquaredError()
    floors: ClassVar[tuple[str, ...]] = ("mean_answer", "ridge_regression")

    def loss(self, outputs: Outputs, batch: Batch, label_smoothing: float = 0.0) -> Tensor:
        """Return the mean squared error; label smoothing does not apply to numbers."""
        return mean_of_squares(outputs, batch)


class OwnNumbers(NumberAnswers, OwnExamples):
    """Prediction of a number."""


class OwnImages(ImageTask, OwnExamples):
    """Classification of images."""

    architecture = "vit"


class OwnNumbersOfImages(NumberAnswers, OwnImages):
    """Prediction of a number for an image."""

    architecture = "perceiver"


def write_splits(to: Path, inputs: Array, targets: Array, splits: NDArray[np.uint8]) -> list[int]:
    """Write the inputs and targets of each split into arrays; return the numbers of examples.

    If there are more than 10,000 validation examples, only those with the smallest hashes are kept,
    because each model is validated many times. Memory holds a few megabytes.
    """
    for name, split in SPLITS.items():
        rows = np.flatnonzero(splits == split)
        most = _MOST_SCORED.get(split, len(rows))
        if len(rows) > most:
            keys = np.array([_key(inputs[row]) for row in rows.tolist()], dtype=np.uint64)
            rows = np.sort(rows[np.argsort(keys, kind="stable")[:most]])
        for kind, values in (("inputs", inputs), ("targets", targets)):
            path, shape = to / f"{name}_{kind}.npy", (len(rows), *values.shape[1:])
            found = np.lib.format.open_memmap(path, mode="w+", dtype=values.dtype, shape=shape)
            for part in parts_of(len(rows), values):
                found[part] = values[rows[part]]
    return counts_of(splits)


def _key(row: Array) -> int:
    return int.from_bytes(hashlib.blake2b(row.tobytes(), digest_size=8, key=b"order").digest())


def parts_of(num_rows: int, values: Array) -> Iterator[slice]:
    """Yield slices of rows, each of which holds a few megabytes of the array's rows."""
    step = max(1, _BYTES_AT_ONCE // max(1, values.dtype.itemsize * math.prod(values.shape[1:])))
    yield from (slice(first, first + step) for first in range(0, num_rows, step))


def training_parts(values: Array, splits: NDArray[np.uint8]) -> Iterator[Array]:
    """Yield the rows of the training part, a few megabytes at a time."""
    for part in parts_of(len(values), values):
        found = values[part][splits[part] == TRAINING]
        if len(found):
            yield found


def refuse_bad_classes(
    path: Path, labels: NDArray[np.int64], splits: NDArray[np.uint8], names: Sequence[object]
) -> None:
    """Raise if splits are too small, there is one class, or the training part lacks one.

    Args:
        path: The file or folder, for the message.
        labels: The class of each example.
        splits: The split of each example.
        names: The names of the classes, for the message.
    """
    refuse_few(path, counts_of(splits), "examples")
    if len(names) < 2:
        raise TaskError(f"{path} has one class, {names[0]!r}; at least two are needed")
    known = np.bincount(labels[splits == TRAINING], minlength=len(names))
    if (known == 0).any():
        missing = int(np.flatnonzero(known == 0)[0])
        rest = f" (and {int((known == 0).sum()) - 1:,} more)" if (known == 0).sum() > 1 else ""
        raise TaskError(
            f"{path}: the class {names[missing]!r}{rest} has no example in the training part, but "
            f"{int((labels == missing).sum())} in others"
        )


def classes_in_words(labels: NDArray[np.integer[Any]], names: Sequence[object]) -> str:
    """Return the number of classes, and the first ones with their numbers of examples."""
    counts = np.bincount(labels, minlength=len(names)).tolist()
    shown = [
        f"{name} ({count:,})"
        for name, count in list(zip(names, counts, strict=True))[:_SHOWN_CLASSES]
    ]
    more = ", ..." if len(names) > _SHOWN_CLASSES else ""
    return f"{len(names):,} classes: {', '.join(shown)}{more}"


def validated_in_words(counts: Sequence[int]) -> str:
    """Return a clause if not all validation examples are used; else an empty text."""
    most = _MOST_SCORED[VALIDATION]
    return f"; {most:,} of those for validation are used" if counts[VALIDATION] > most else ""


def floors_of(kind: InputKind, asks_for: Answer, num_numbers: int) -> tuple[str, ...]:
    """Return the floors of a task.

    Args:
        kind: The kind of its inputs.
        asks_for: The kind of its answers.
        num_numbers: The number of numbers of an input; floors that would take minutes with so many
            are left out.
    """
    if asks_for == "symbols":
        return ("uniform", "majority")
    if asks_for == "number":
        is_weighed = kind != "tokens" and num_numbers <= _MOST_COMPARED
        return ("mean_answer", *(["ridge_regression"] if is_weighed else []))
    if kind == "tokens":
        return ("uniform", "majority", "tf_idf")
    if num_numbers > _MOST_COMPARED:
        return ("uniform", "majority")
    is_weighed = num_numbers <= _MOST_WEIGHED
    return tuple(name for name in IMAGE_FLOORS if is_weighed or name != "logistic_regression")


def most_fitted(num_training: int, num_numbers: int) -> int | None:
    """Return how many training examples floors read, or None if they read all.

    They read at most 20,000, with at most 4 million numbers together.
    """
    most = max(1, min(MOST_FITTED, _MOST_NUMBERS // num_numbers))
    return most if num_training > most else None


def moments(parts: Iterator[Array], axes: tuple[int, ...]) -> Mapping[str, list[float]]:
    """Return the mean and the standard deviation over axes, from parts of the rows.

    The deviation of a constant is 1, so that it becomes 0 if it is standardised.
    """
    mean, deviation = mean_and_deviation(parts, axes)
    return {"mean": mean.tolist(), "deviation": np.where(deviation, deviation, 1.0).tolist()}


def mean_and_deviation(
    parts: Iterator[Array], axes: tuple[int, ...]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the mean and the standard deviation over axes; the deviation of a constant is 0."""
    count: int = 0
    mean: Any = 0.0
    squares: Any = 0.0
    for part in parts:  # Chan et al. 1979, the pairwise algorithm
        found = part.astype(np.float64)
        size = math.prod(found.shape[axis] for axis in axes)
        own = found.mean(axis=axes)
        difference = own - mean
        total = count + size
        squares = squares + found.var(axis=axes) * size + difference**2 * count * size / total
        mean, count = mean + difference * size / total, total
    mean, deviation = np.atleast_1d(mean), np.atleast_1d(np.sqrt(squares / count))
    is_constant = deviation <= _ROUNDING * np.abs(mean)
    return mean, np.where(is_constant, 0.0, deviation)
