"""Define the contract of a task: data with fixed splits, a loss, and one number to judge by.

A task file holds one subclass and nothing about mixers. Data order is a pure function of
(seed, step): any batch can be asked for at any time, in any process, and is the same, so that
a resumed trial sees what the uninterrupted one saw, and all variants of a seed see the same.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor
from torch.nn import functional

from models.interface import INPUTS, Answer, Input, InputKind, Interface
from suite.errors import UsageError

Split = Literal["validation", "test"]
UNSCORED = -100  # the target that no loss and no score counts; what `cross_entropy` leaves out


@dataclass(frozen=True, kw_only=True)
class Metric:
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


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Inputs and targets of one step.

    Attributes:
        inputs: `[batch, time]` integers, or `[batch, time, features]` floats.
        targets: `[batch, time]` (one per token) or `[batch]` (one per sequence), integers, or
            floats where a task asks for numbers; `UNSCORED` where nothing is asked.
        mask: `[batch, time]`, True for real tokens, False for padding; None where all are real.
    """

    inputs: Tensor
    targets: Tensor
    mask: Tensor | None = None

    def through(self, model: Callable[..., Tensor]) -> Tensor:
        """The outputs of the model; it is given a mask only where there is one."""
        return model(self.inputs) if self.mask is None else model(self.inputs, mask=self.mask)

    def to(self, device: str) -> Batch:
        """The batch on `device`; itself where it already is there."""
        if self.inputs.device.type == torch.device(device).type:
            return self
        return self.mapped(lambda tensor: tensor.to(device, non_blocking=True))

    def rows(self, chosen: slice) -> Batch:
        """A copy of some examples."""
        return self.mapped(lambda tensor: tensor[chosen].clone())

    def mapped(self, change: Callable[[Tensor], Tensor]) -> Batch:
        """The batch with each of its tensors changed."""
        mask = None if self.mask is None else change(self.mask)
        return Batch(inputs=change(self.inputs), targets=change(self.targets), mask=mask)


@dataclass(frozen=True, kw_only=True)
class DataSource:
    """Where a task's data came from, for reports and `bakeoff data list`.

    Attributes:
        sha256: Of the file; of generated data, of the definition that they are drawn by.
        file: Its name in the folder of shipped data, or in that of fetched data; empty where data
            are generated.
        is_fetched: Whether `bakeoff data fetch` brings the file, since it does not ship.
    """

    name: str
    title: str
    licence: str
    origin: str
    sha256: str
    file: str
    is_fetched: bool = False


class Task(ABC):
    """Data and metric. Constructed with the sequence length in tokens; loads data on first use.

    Without a metric of its own, a task is judged by its accuracy.

    Raises:
        TaskError: from the constructor, if the length does not suit the task; from the first
            batch, if the data file is missing, altered or malformed.
    """

    name: ClassVar[str]
    version: ClassVar[int] = 1  # goes up whenever a change here moves a number
    architecture: ClassVar[str]  # that it takes where a model names none
    asks_for: ClassVar[Answer]
    metric: ClassVar[Metric] = Metric(name="accuracy", unit="1", better="higher")
    lengths: ClassVar[tuple[int, int]] = (1, 1_048_576)  # the least and the most tokens
    token_name: ClassVar[str] = "tokens"  # in the plural, as in the refusal of a length
    fixed_length: ClassVar[int | None] = None  # tokens, where the data dictate them
    is_padded: ClassVar[bool] = False  # its sequences differ in length: batches have a mask
    source: ClassVar[DataSource]
    floors: ClassVar[tuple[str, ...]] = ("uniform", "majority")  # keys of suite.floors.FLOORS

    input_kind: ClassVar[InputKind] = "tokens"  # of the first input; others: see `other_inputs`
    input_size: ClassVar[int]
    grid: ClassVar[tuple[int, int] | None] = None  # rows and columns, where inputs are images
    output_size: ClassVar[int]
    characters: ClassVar[str] = ""  # how a person reads each token; empty where they are no text

    def __init__(self, length: int) -> None:
        least, most = self.lengths
        if self.fixed_length and length != self.fixed_length:
            raise TaskError(
                f"{self.name}: an example is {self.fixed_length} tokens, so length must be"
                f" {self.fixed_length}, not {length}"
            )
        if not least <= length <= most:
            raise TaskError(
                f"{self.name}: length must be {least} to {most} {self.token_name}, not {length}"
            )
        self.length = length

    @classmethod
    def interface(cls, length: int) -> Interface:
        """What a model is given, at most `length` tokens long, and what it is asked for."""
        first = Input(kind=cls.input_kind, size=cls.input_size, length=length, grid=cls.grid)
        return Interface(
            inputs={INPUTS: first, **cls.other_inputs(length)}, asks_for=cls.asks_for,
            output_size=cls.output_size, is_padded=cls.is_padded,
        )  # fmt: skip

    @classmethod
    def other_inputs(cls, length: int) -> dict[str, Input]:
        """Inputs beside the first, by the parameters of the model's `forward`; mostly none."""
        return {}

    @abstractmethod
    def training_batch(self, step: int, batch: int, seed: int) -> Batch:
        """The batch of one training step: a pure function of its arguments."""

    @abstractmethod
    def held_out(self, split: Split, batch: int) -> Iterator[Batch]:
        """The whole split, in a fixed order, each example once; the last batch may be smaller."""

    def loss(self, outputs: Tensor, batch: Batch, label_smoothing: float = 0.0) -> Tensor:
        """Mean training loss, a scalar that carries gradient: cross-entropy per scored target.

        Args:
            outputs: Logits `[..., classes]`, where targets are `[...]`.
            batch: With the targets.
            label_smoothing: Share of a target's probability that is spread evenly over all classes
                (Szegedy et al. 2016, arXiv:1512.00567, section 7). Scores know nothing of it.
        """
        return functional.cross_entropy(
            outputs.flatten(0, -2), batch.targets.flatten(), ignore_index=UNSCORED,
            label_smoothing=label_smoothing,
        )  # fmt: skip

    def num_training_examples(self) -> int | None:
        """Examples of an epoch; None where they are drawn, and no epoch ends."""
        return None

    def parts(self) -> tuple[str, ...]:
        """Coordinates at which the score is also given, as ``pairs=8``; most tasks have none."""
        return ()

    def in_parts(self, batch: Batch) -> dict[str, Tensor]:
        """For each of `parts`, which targets belong to it: booleans in the shape of the targets.

        A target may belong to none.
        """
        return {}

    def score(self, outputs: Tensor, batch: Batch) -> tuple[float, int]:
        """Sum of the metric over the batch, and the number of things summed.

        The metric of a split is the sum of the sums over the sum of the counts. Here: the scored
        targets that have the largest logit, and the number of scored targets.
        """
        is_scored = batch.targets != UNSCORED
        logits, asked = outputs[is_scored], batch.targets[is_scored]
        if logits.isnan().any():  # `argmax` would name a class all the same
            return math.nan, len(asked)
        return float((logits.argmax(dim=-1) == asked).sum()), len(asked)

    def text(self, tokens: Sequence[int]) -> str:
        """Tokens as a person reads them; empty where they are no text."""
        return "".join(self.characters[token] for token in tokens) if self.characters else ""


class TaskError(UsageError):
    """A task that cannot be had as asked, or whose data are missing or altered: one sentence."""
