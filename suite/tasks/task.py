"""Define the contract of a task: data with fixed splits, a loss, and a metric.

A task file holds one subclass and nothing about mixers. The order of the data is a pure function of
(seed, step): any process can compute any batch at any time and gets the same one. A resumed trial
therefore reads the same batches as an uninterrupted one, and all variants read the same batches for
a given seed.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from torch import Tensor
from torch.nn import functional

from bakeoff.models.interface import INPUTS, Answer, Input, InputKind, Interface, Outputs
from bakeoff.suite.errors import UsageError
from bakeoff.suite.tasks.batch import UNSCORED as UNSCORED
from bakeoff.suite.tasks.batch import Batch as Batch
from bakeoff.suite.tasks.metrics import Accuracy
from bakeoff.suite.tasks.metrics import Metric as Metric

Split = Literal["validation", "test"]


@dataclass(frozen=True, kw_only=True)
class DataSource:
    """The origin of a task's data, for reports and `bakeoff data list`.

    Attributes:
        name: The name of the data set.
        title: A short description.
        licence: The licence of the data.
        origin: The publication, package or page that the data come from.
        sha256: The SHA-256 of the file or, for generated data, of the definition of their
            distribution. Empty if the publisher recorded only an MD5.
        file: The file name in the folder of shipped data or of fetched data; empty for generated
            data.
        is_fetched: Whether `bakeoff data fetch` downloads the file, because it does not ship.
        beside: Further files of the set, or the files that generated data are composed of, each as
            a data source with one file.
        md5: The MD5 of the file if there is no `sha256`: it reveals damage, but not forgery.
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
        """The data sources of all files, each with one file."""
        return (replace(self, beside=()), *self.beside)

    @property
    def digest(self) -> str:
        """The digest of the only file, or of the concatenated digests of several files."""
        digests = "".join(each.sha256 or each.md5 for each in self.files)
        return hashlib.sha256(digests.encode()).hexdigest() if self.beside else digests


class Task(ABC):
    """The data and the metric of a task.

    The constructor takes the sequence length in tokens; the data are loaded on first use. The
    default metric is the accuracy.

    Raises:
        TaskError: from the constructor, if the length does not suit the task; from the first batch,
            if the data file is missing, altered or malformed.
    """

    name: ClassVar[str]
    version: ClassVar[int] = 1  # increased whenever a change here alters a result
    architecture: ClassVar[str]  # for models that do not name one
    asks_for: ClassVar[Answer]
    metric: ClassVar[Metric] = Accuracy()
    also_scored: ClassVar[tuple[Metric, ...]] = ()  # on the test split, after training
    compares_examples: ClassVar[bool] = False  # the loss is of a whole batch, not a mean over rows
    lengths: ClassVar[tuple[int, int]] = (1, 1_048_576)  # the minimum and the maximum in tokens
    token_name: ClassVar[str] = "tokens"  # in the plural, for error messages
    fixed_length: ClassVar[int | None] = None  # in tokens, if the data determine it
    is_padded: ClassVar[bool] = False  # its sequences differ in length, so batches have a mask
    # Titles of an axis of `parts` and its values: {"words": "words", "words=10": "1 to 10"}
    part_titles: ClassVar[Mapping[str, str]] = {}
    aimed_at: ClassVar[str] = ""  # coordinate whose value is the target score of its part
    has_boxes: ClassVar[bool] = False  # batches hold the boxes of the objects that targets name
    answers_are_shown: ClassVar[bool] = False  # an example's input holds all of its targets
    reads_answers: ClassVar[bool] = False  # inputs are previous targets (teacher forcing)
    source: ClassVar[DataSource]
    floors: ClassVar[tuple[str, ...]] = (
        "uniform",
        "majority",
    )  # keys of floors.registry.FLOORS
    most_fitted: ClassVar[int | None] = None  # training examples that floors read, if not all

    input_kind: ClassVar[InputKind] = "tokens"  # kind of the first input, see `other_inputs`
    input_size: ClassVar[int]
    grid: ClassVar[tuple[int, int] | None] = None  # rows and columns, if inputs are images
    # Per channel of images scaled to 0..1; batches subtract the mean and divide by the deviation.
    pixel_mean: ClassVar[tuple[float, ...]] = ()
    pixel_standard_deviation: ClassVar[tuple[float, ...]] = ()
    output_size: ClassVar[int]
    characters: ClassVar[str] = ""  # the text of each token; empty if tokens are not text

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
        """Return what a model is given, at most `length` tokens long, and the kind of answer."""
        first = Input(kind=cls.input_kind, size=cls.input_size, length=length, grid=cls.grid)
        return Interface(
            inputs={INPUTS: first, **cls.other_inputs(length)},
            asks_for=cls.asks_for,
            output_size=cls.output_size,
            is_padded=cls.is_padded,
        )

    @classmethod
    def other_inputs(cls, length: int) -> dict[str, Input]:
        """Return the inputs besides the first, by parameter of the model's `forward`."""
        return {}

    @abstractmethod
    def training_batch(self, step: int, batch: int, seed: int) -> Batch:
        """Return the batch of one training step: a pure function of its arguments."""

    @classmethod
    def num_test_examples(cls) -> int | None:
        """Return the number of examples of the test split, or None if it depends on the data."""
        return None

    @classmethod
    def num_actions_taken(cls, num_evaluations: int) -> int:
        """Return the number of forward passes in which a model acts during a whole training.

        The time estimate counts them. The number is 0 for tasks without an environment.
        """
        return 0

    @abstractmethod
    def held_out(self, split: Split, batch: int) -> Iterator[Batch]:
        """Yield the split in a fixed order, each example once; the last batch may be smaller."""

    def loss(self, outputs: Outputs, batch: Batch, label_smoothing: float = 0.0) -> Tensor:
        """Return the mean training loss, a scalar with gradient: cross-entropy per scored target.

        Args:
            outputs: The logits `[..., classes]` and any auxiliary tensors of the model.
            batch: The batch with the targets, `[...]` classes or `[..., classes]` probabilities.
            label_smoothing: The share of a target's probability that is spread evenly over all
                classes (Szegedy et al. 2016, arXiv:1512.00567, section 7). It does not affect
                scores.
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
        """Restrict training to `num_examples` of the examples from now on.

        Raises:
            TaskError: if the task has no labelled examples to choose from, or fewer than that, or
                if the data cannot be read.
        """
        raise TaskError(
            f"{self.name}: num_training_examples={num_examples} is for tasks on labelled examples"
            " from a file"
        )

    def num_training_examples(self) -> int | None:
        """Return the number of examples per epoch, or None if they are drawn without end."""
        return None

    def parts(self) -> tuple[str, ...]:
        """Return the coordinates at which the score is also given, such as ``pairs=8``."""
        return ()

    def in_parts(self, batch: Batch) -> dict[str, Tensor]:
        """Return for each of `parts` a boolean mask of its targets, in the shape of the targets.

        A target may belong to no part.
        """
        return {}

    def text(self, tokens: Sequence[int]) -> str:
        """Return the tokens as readable text; empty if they are not text."""
        return "".join(self.characters[token] for token in tokens) if self.characters else ""

    def words(self, tokens: Sequence[int]) -> list[tuple[str, range]]:
        """Return the words of the tokens' text in order, each with the positions of its tokens.

        Raises:
            TaskError: if the tokens are not words.
        """
        raise TaskError(f"{self.name}: its tokens are not words")

    @classmethod
    def has_words(cls) -> bool:
        """Return True if the task defines `words`."""
        return cls.words is not Task.words


class TaskError(UsageError):
    """Raised for an impossible task setting, or for missing or altered data.

    The message is one sentence.
    """


def _loss_of_probabilities(
    logits: Tensor, targets: Tensor, is_scored: Tensor, label_smoothing: float
) -> Tensor:
    """Return the mean cross-entropy over the scored rows, which torch cannot select by itself.

    A row that is not scored gets a zero target instead of being removed with a mask: the shape of
    the remainder would depend on the data, and a GPU would have to synchronise.
    """
    smoothed = targets * (1 - label_smoothing) + label_smoothing / targets.shape[-1]
    kept = (smoothed if label_smoothing else targets).where(is_scored.unsqueeze(-1), 0.0)
    total = functional.cross_entropy(logits.flatten(0, -2), kept.flatten(0, -2), reduction="sum")
    return total / is_scored.sum()
