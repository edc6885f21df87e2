"""Metrics: sums that add up over batches, workers and parts, and a function of the sums.

A mean of the values of batches is right for no metric whose batches differ in size, and for BLEU
never. So only sums are added, and the value is taken of them once, at the end.
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

from models.interface import Outputs
from suite.tasks.batch import UNSCORED, Batch

Acting = Callable[..., Tensor | Outputs]  # a model, called with ``**inputs``


@dataclass(frozen=True, kw_only=True)
class Metric(ABC):
    """The number that a task is judged by.

    Attributes:
        name: Column value in every table, as ``bits_per_character``.
        unit: Never empty; ``1`` for a pure number.
        better: Which direction is good.
        num_symbols: Answers that must all be right for the metric to count one; 1 where each counts
            by itself, None where the number differs from example to example.
    """

    name: str
    unit: str
    better: Literal["higher", "lower", "none"]
    num_symbols: int | None = 1

    @property
    def signature(self) -> str:
        """Sacrebleu's, where that computes it; else empty."""
        return ""

    @abstractmethod
    def sums(self, outputs: Outputs, batch: Batch) -> Tensor:
        """`[k]` in float64 on the CPU, of the scored targets; k depends on the metric alone.

        Where a logit that counts is NaN, so is a sum: `argmax` would name a class all the same.
        """

    def value(self, sums: Tensor) -> float:
        """The metric, of the sums of all batches added up. Here: the first over the second."""
        total, count = sums.tolist()
        return float(total / count)

    def over(self, sums: Iterable[Tensor]) -> float:
        """The metric of several batches together, of the sums of each."""
        return self.value(reduce(torch.add, sums))


@dataclass(frozen=True, kw_only=True)
class Accuracy(Metric):
    """The share of scored targets that have the largest logit; of probabilities, the likeliest."""

    name: str = "accuracy"
    unit: str = "1"
    better: Literal["higher", "lower", "none"] = "higher"

    def sums(self, outputs: Outputs, batch: Batch) -> Tensor:
        """Right answers, and answers."""
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

    A candidate whose logit equals that of the target stands before it, so that a model that finds
    all alike recalls nothing.
    """

    num_kept: int
    unit: str = "1"
    better: Literal["higher", "lower", "none"] = "higher"

    def sums(self, outputs: Outputs, batch: Batch) -> Tensor:
        """Targets that are kept, and targets."""
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
        """Bits, and symbols predicted."""
        targets, logits = batch.targets.flatten(), outputs.logits.flatten(0, -2).float()
        nats = cross_entropy(logits, targets, reduction="none", ignore_index=UNSCORED)
        bits = nats.double().sum().item() / math.log(2)
        return as_sums(bits, int((targets != UNSCORED).sum()))


@dataclass(frozen=True, kw_only=True)
class MeanSquaredError(Metric):
    """Of the first output, against targets that are numbers."""

    name: str = "mean_squared_error"
    unit: str = "1"
    better: Literal["higher", "lower", "none"] = "lower"

    def sums(self, outputs: Outputs, batch: Batch) -> Tensor:
        """Squared errors, and numbers predicted."""
        errors = squared_errors(outputs.map(Tensor.double), batch)
        return as_sums(errors.sum().item(), len(errors))


@dataclass(frozen=True, kw_only=True)
class PictureMetric(Metric):
    """Compares pictures with the targets, which are pictures.

    Attributes:
        is_drawn: Whether the model draws them, given its inputs without the picture; else it
            returns them in place of logits.
    """

    is_drawn: bool = False

    @abstractmethod
    def sums_of(self, pictures: Tensor, batch: Batch) -> Tensor:
        """As `Metric.sums`, of pictures in the shape of the targets."""

    def sums(self, outputs: Outputs, batch: Batch) -> Tensor:
        """Of what stands in place of logits."""
        return self.sums_of(outputs.logits, batch)


@dataclass(frozen=True, kw_only=True)
class PlayedMetric(Metric):
    """Judges the returns that a model gets in episodes that it plays."""

    @abstractmethod
    def played(self, model: Acting, batch: Batch) -> Tensor:
        """The return of each row, `[batch]` on the CPU; the model is in evaluation mode."""

    @abstractmethod
    def sums_of(self, returns: Tensor, batch: Batch) -> Tensor:
        """As `Metric.sums`, of the return of each row `[batch]`."""

    def sums(self, outputs: Outputs, batch: Batch) -> Tensor:
        """Of returns `[batch, 1]` that stand in place of logits."""
        return self.sums_of(outputs.logits[:, 0], batch)


def squared_errors(outputs: Outputs, batch: Batch) -> Tensor:
    """`[targets]`, of those that are asked for."""
    is_scored = batch.is_scored(outputs.logits)
    errors: Tensor = (outputs.logits[..., 0] - batch.targets)[is_scored] ** 2
    return errors


def as_sums(*numbers: float) -> Tensor:
    """`[k]` in float64, in which whole numbers up to 2**53 stay whole."""
    return torch.tensor(numbers, dtype=torch.float64)
