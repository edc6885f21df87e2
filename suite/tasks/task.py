"""Define the contract of a task: data with fixed splits, a loss, and a metric to judge by.

A task file holds one subclass and nothing about mixers. Data order is a pure function of
(seed, step): any batch can be asked for at any time, in any process, and is the same, so that
a resumed trial sees what the uninterrupted one saw, and all variants of a seed see the same.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from torch import Tensor
from torch.nn import functional

from models.interface import INPUTS, Answer, Input, InputKind, Interface, Outputs
from suite.errors import UsageError
from suite.tasks.batch import UNSCORED as UNSCORED
from suite.tasks.batch import Batch as Batch
from suite.tasks.metrics import Accuracy
from suite.tasks.metrics import Metric as Metric

Split = Literal["validation", "test"]


@dataclass(frozen=True, kw_only=True)
class DataSource:
    """Where a task's data came from, for reports and `bakeoff data list`.

    Attributes:
        sha256: Of the file; of generated data, of the definition that they are drawn by. Empty
            where others recorded an MD5 only.
        file: Its name in the folder of shipped data, or in that of fetched data; empty where data
            are generated.
        is_fetched: Whether `bakeoff data fetch` brings the file, since it does not ship.
        beside: Further files of the set, or those that generated data are composed of, each as a
            set of one.
        md5: Of the file, where there is no `sha256`: it shows damage, but no forgery.
    """

    name: str
    title: str
    licence: str
    origin: str
    sha256: str
    file: str
    is_fetched: bool = False
    beside: tuple[DataSource, ...] = ()
    md5: str = ""

    @property
    def files(self) -> tuple[DataSource, ...]:
        """All of them, each as a set of one."""
        return (replace(self, beside=()), *self.beside)

    @property
    def digest(self) -> str:
        """Of all files: that of one, or of several ones' digests in a row."""
        digests = "".join(each.sha256 or each.md5 for each in self.files)
        return hashlib.sha256(digests.encode()).hexdigest() if self.beside else digests


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
    metric: ClassVar[Metric] = Accuracy()
    also_scored: ClassVar[tuple[Metric, ...]] = ()  # on the test split, once trained
    compares_examples: ClassVar[bool] = False  # its loss is of a whole batch, not a mean over rows
    lengths: ClassVar[tuple[int, int]] = (1, 1_048_576)  # the least and the most tokens
    token_name: ClassVar[str] = "tokens"  # in the plural, as in the refusal of a length
    fixed_length: ClassVar[int | None] = None  # tokens, where the data dictate them
    is_padded: ClassVar[bool] = False  # its sequences differ in length: batches have a mask
    # How a page names an axis of `parts` and its places: {"words": "words", "words=10": "1 to 10"}
    part_titles: ClassVar[Mapping[str, str]] = {}
    aimed_at: ClassVar[str] = ""  # the coordinate that says what the score of its part should be
    has_boxes: ClassVar[bool] = False  # batches say where what a target names is in the picture
    answers_are_shown: ClassVar[bool] = False  # an example's input holds all that it is asked for
    reads_answers: ClassVar[bool] = False  # an input is what the place before it was asked for
    source: ClassVar[DataSource]
    floors: ClassVar[tuple[str, ...]] = (
        "uniform",
        "majority",
    )  # keys of floors.registry.FLOORS

    input_kind: ClassVar[InputKind] = "tokens"  # of the first input; others: see `other_inputs`
    input_size: ClassVar[int]
    grid: ClassVar[tuple[int, int] | None] = None  # rows and columns, where inputs are images
    # Of the channels of images, on a scale from 0 to 1: what batches subtract, and divide by.
    pixel_mean: ClassVar[tuple[float, ...]] = ()
    pixel_standard_deviation: ClassVar[tuple[float, ...]] = ()
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
            inputs={INPUTS: first, **cls.other_inputs(length)},
            asks_for=cls.asks_for,
            output_size=cls.output_size,
            is_padded=cls.is_padded,
        )

    @classmethod
    def other_inputs(cls, length: int) -> dict[str, Input]:
        """Inputs beside the first, by the parameters of the model's `forward`; mostly none."""
        return {}

    @abstractmethod
    def training_batch(self, step: int, batch: int, seed: int) -> Batch:
        """The batch of one training step: a pure function of its arguments."""

    @classmethod
    def num_test_examples(cls) -> int | None:
        """Return how many examples the test split has; None where only its data say."""
        return None

    @classmethod
    def num_actions_taken(cls, num_evaluations: int) -> int:
        """Return the number of forward passes in which a model acts, over a whole training.

        The estimate of the time counts them. It is 0 for tasks without an environment.
        """
        return 0

    @abstractmethod
    def held_out(self, split: Split, batch: int) -> Iterator[Batch]:
        """The whole split, in a fixed order, each example once; the last batch may be smaller."""

    def loss(self, outputs: Outputs, batch: Batch, label_smoothing: float = 0.0) -> Tensor:
        """Mean training loss, a scalar that carries gradient: cross-entropy per scored target.

        Args:
            outputs: With logits `[..., classes]`, and what auxiliary tensors the model returns.
            batch: With the targets, `[...]` classes or `[..., classes]` probabilities.
            label_smoothing: Share of a target's probability that is spread evenly over all classes
                (Szegedy et al. 2016, arXiv:1512.00567, section 7). Scores know nothing of it.
        """
        logits, targets = outputs.logits, batch.targets
        if batch.is_soft(logits):
            return _loss_of_probabilities(logits, targets, batch.is_scored(logits), label_smoothing)
        return functional.cross_entropy(
            logits.flatten(0, -2),
            targets.flatten(),
            ignore_index=UNSCORED,
            label_smoothing=label_smoothing,
        )

    def train_on(self, num_examples: int) -> None:
        """Train on so few of its examples from now on.

        Raises:
            TaskError: if it has none to choose from, or not so many, or the data cannot be read.
        """
        raise TaskError(
            f"{self.name}: num_training_examples={num_examples} is for tasks on labelled examples"
            " from a file"
        )

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

    def text(self, tokens: Sequence[int]) -> str:
        """Tokens as a person reads them; empty where they are no text."""
        return "".join(self.characters[token] for token in tokens) if self.characters else ""

    def words(self, tokens: Sequence[int]) -> list[tuple[str, range]]:
        """The words of such a text, each with the places of its tokens, in their order."""
        raise TaskError(f"{self.name}: its tokens are no words")

    @classmethod
    def has_words(cls) -> bool:
        """Whether it defines `words`."""
        return cls.words is not Task.words


class TaskError(UsageError):
    """A task that cannot be had as asked, or whose data are missing or altered: one sentence."""


def _loss_of_probabilities(
    logits: Tensor, targets: Tensor, is_scored: Tensor, label_smoothing: float
) -> Tensor:
    """Mean cross-entropy over the rows that are scored, of which torch leaves out none.

    A row that is not scored gets the target zero, in place of being cut out by a mask: the shape of
    what is left would depend on data, for which a GPU would have to be waited for.
    """
    smoothed = targets * (1 - label_smoothing) + label_smoothing / targets.shape[-1]
    kept = (smoothed if label_smoothing else targets).where(is_scored.unsqueeze(-1), 0.0)
    total = functional.cross_entropy(logits.flatten(0, -2), kept.flatten(0, -2), reduction="sum")
    return total / is_scored.sum()
