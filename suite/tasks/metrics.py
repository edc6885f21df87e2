"""Metrics: sums that add up over batches, workers and parts, and a function of the sums.

The mean of the values of batches is wrong for every metric if batches differ in size, and always
wrong for BLEU. Therefore only sums are added, and the value is computed from them once, at the end.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import reduce
from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from bakeoff.models.interface import Outputs
from bakeoff.suite.tasks.batch import UNSCORED, Batch

Acting = Callable[..., Tensor | Outputs]  # a model, called with ``**inputs``


@dataclass(frozen=True, kw_only=True)
class Metric(ABC):
    """The number that a task is judged by.

    Attributes:
        name: The column value in every table, such as ``bits_per_character``.
        unit: The unit, never empty; ``1`` for a pure number.
        better: The direction that is good.
        num_symbols: The number of answers that must all be right to count one; 1 if each counts by
            itself, None if the number differs between examples.
    """

    name: str
    unit: str
    better: Literal["higher", "lower", "none"]
    num_symbols: int | None = 1

    @property
    def signature(self) -> str:
        """The signature of sacrebleu for metrics that it computes; otherwise empty."""
        return ""

    @abstractmethod
    def sums(self, outputs: Outputs, batch: Batch) -> Tensor:
        """Return `[k]` in float64 on the CPU, for the scored targets; k depends only on the metric.

        If a scored logit is NaN, so is a sum, because `argmax` would return a class all the same.
        """

    def value(self, sums: Tensor) -> float:
        """Return the metric from the total sums of all batches; here the first over the second."""
        total, count = sums.tolist()
        return float(total / count)

    def over(self, sums: Iterable[Tensor]) -> float:
        """Return the metric of several batches together, from the sums of each."""
        return self.value(reduce(torch.add, sums))


@dataclass(frozen=True, kw_only=True)
class Accuracy(Metric):
    """The share of scored targets with the largest logit; of soft targets, the likeliest class."""

    name: str = "accuracy"
    unit: str = "1"
    better: Literal["higher", "lower", "none"] = "higher"

    def sums(self, outputs: Outputs, batch: Batch) -> Tensor:
        """Return the numbers of right answers and of answers."""
        is_scored = batch.is_scored(outputs.logits)
        logits, asked = outputs.logits[is_scored], batch.targets[is_scored]
        if batch.is_soft(outputs.logits):
            asked = asked.argmax(dim=-1)
        is_nan = bool(logits.isnan().any())
        right = math.nan if is_nan else float((logits.argmax(dim=-1) == asked).sum())
        return as_sums(right, len(asked))


@dataclass(frozen=True, kw_only=True)
class Recall(Metric):
    """The share of targets that are among the `num_kept` candidates with the largest logits.

    A candidate whose logit equals that of the target ranks before it, so the recall is 0 if all
    logits are equal.
    """

    num_kept: int
    unit: str = "1"
    better: Literal["higher", "lower", "none"] = "higher"

    def sums(self, outputs: Outputs, batch: Batch) -> Tensor:
        """Return the numbers of kept targets and of targets."""
        is_scored = batch.is_scored(outputs.logits)
        logits, asked = outputs.logits[is_scored], batch.targets[is_scored]
        own = logits.gather(1, asked[:, None])
        num_before = (logits >= own).sum(dim=1) - 1
        kept = math.nan if bool(logits.isnan().any()) else float((num_before < self.num_kept).sum())
        return as_sums(kept, len(asked))


@dataclass(frozen=True, kw_only=True)
class Bits(Metric):
    """The mean of -log2 of the probability of each scored target."""

    unit: str = "bit"
    better: Literal["higher", "lower", "none"] = "lower"

    def sums(self, outputs: Outputs, batch: Batch) -> Tensor:
        """Return the bits and the number of predicted symbols."""
        targets, logits = batch.targets.flatten(), outputs.logits.flatten(0, -2).float()
        nats = cross_entropy(logits, targets, reduction="none", ignore_index=UNSCORED)
        bits = nats.double().sum().item() / math.log(2)
        return as_sums(bits, int((targets != UNSCORED).sum()))


@dataclass(frozen=True, kw_only=True)
class MeanSquaredError(Metric):
    """The mean squared error of the first output, for targets that are numbers."""

    name: str = "mean_squared_error"
    unit: str = "1"
    better: Literal["higher", "lower", "none"] = "lower"

    def sums(self, outputs: Outputs, batch: Batch) -> Tensor:
        """Return the sum of squared errors and the number of predicted values."""
        errors = squared_errors(outputs.map(Tensor.double), batch)
        return as_sums(errors.sum().item(), len(errors))


@dataclass(frozen=True, kw_only=True)
class PictureMetric(Metric):
    """A metric that compares pictures with the targets, which are pictures.

    Attributes:
        is_drawn: Whether the model generates the pictures, given its inputs without the picture;
            otherwise it returns them in place of logits.
    """

    is_drawn: bool = False

    @abstractmethod
    def sums_of(self, pictures: Tensor, batch: Batch) -> Tensor:
        """Return the sums of `Metric.sums` for pictures in the shape of the targets."""

    def sums(self, outputs: Outputs, batch: Batch) -> Tensor:
        """Return the sums for the pictures that are returned in place of logits."""
        return self.sums_of(outputs.logits, batch)


@dataclass(frozen=True, kw_only=True)
class PlayedMetric(Metric):
    """A metric of the returns that a model gets in episodes that it plays."""

    @abstractmethod
    def played(self, model: Acting, batch: Batch) -> Tensor:
        """Return the return of each row, `[batch]` on the CPU; the model is in evaluation mode."""

    @abstractmethod
    def sums_of(self, returns: Tensor, batch: Batch) -> Tensor:
        """Return the sums of `Metric.sums` for the return of each row, `[batch]`."""

    def sums(self, outputs: Outputs, batch: Batch) -> Tensor:
        """Return the sums for returns `[batch, 1]` in place of logits."""
        return self.sums_of(outputs.logits[:, 0], batch)


def squared_errors(outputs: Outputs, batch: Batch) -> Tensor:
    """Return the squared errors `[targets]` of the scored targets."""
    is_scored = batch.is_scored(outputs.logits)
    errors: Tensor = (outputs.logits[..., 0] - batch.targets)[is_scored] ** 2
    return errors


def mean_of_squares(outputs: Outputs, batch: Batch) -> Tensor:
    """Return the mean squared error of the first output, a scalar with gradient.

    Selecting by the mask would give a shape that depends on data, so a GPU would synchronise.
    """
    is_scored = batch.is_scored(outputs.logits)
    errors: Tensor = outputs.logits[..., 0] - batch.targets
    return errors.masked_fill(~is_scored, 0.0).square().sum() / is_scored.sum()


def as_sums(*numbers: float) -> Tensor:
    """Return `[k]` in float64, which represents integers up to 2**53 exactly."""
    return torch.tensor(numbers, dtype=torch.float64)
