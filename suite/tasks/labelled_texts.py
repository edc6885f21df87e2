"""Classification of short texts by their words: how texts are cut, split and padded.

words       lower-cased; a run of letters and digits with at most one apostrophe inside is one,
            so is every other character that is no space
vocabulary  8,192 symbols: 0 pads, 1 stands for any other word, then the most frequent words of
            the training texts, ties in alphabetical order; closed, so that a held-out word that
            training never showed is unknown
splits      by the SHA-256 of the words: of ten parts one is for validation, two are for test,
            seven for training. The same words are in the same split, however often they come
length      the first `length` words of a text, padded behind; the batch's mask says what is real
"""

from __future__ import annotations

import hashlib
import re
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from models.model_spec import InputKind
from suite.tasks.data_order import shuffled_indices
from suite.tasks.metrics import num_right
from suite.tasks.task import Batch, Metric, Split, Task, TaskError

PADDING, UNKNOWN = 0, 1
NUM_SYMBOLS = 8_192
MAX_LENGTH = 512
NUM_PARTS = 10
_TEST_PARTS, _VALIDATION_PARTS = (0, 1), (2,)
_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)?|[^\w\s]|_")


@dataclass(frozen=True, kw_only=True)
class Texts:
    """Some texts and their classes.

    Attributes:
        words: `[texts, longest]`, padded behind.
        num_words: `[texts]`, at least 1.
        labels: `[texts]`.
    """

    words: NDArray[np.int64]
    num_words: NDArray[np.int64]
    labels: NDArray[np.int64]

    def __getitem__(self, chosen: slice | NDArray[np.int64]) -> Texts:
        return Texts(
            words=self.words[chosen], num_words=self.num_words[chosen], labels=self.labels[chosen]
        )


@dataclass(frozen=True, kw_only=True)
class LabelledTexts:
    """The three splits, and what the symbols stand for."""

    training: Texts
    held_out: Mapping[Split, Texts]
    vocabulary: tuple[str, ...]


class TextClassification(Task):
    """Name the class of a text from its first words."""

    skeleton = "classifier"
    metric = Metric(name="accuracy", unit="1", better="higher")
    floors = ("uniform", "majority", "tf_idf")
    input_kind: ClassVar[InputKind] = "tokens"
    input_size = NUM_SYMBOLS

    def __init__(self, length: int) -> None:
        if not 1 <= length <= MAX_LENGTH:
            raise TaskError(f"{self.name}: length must be 1 to {MAX_LENGTH} words, not {length}")
        super().__init__(length)

    @abstractmethod
    def texts(self) -> LabelledTexts:
        """The texts of all splits, read once per process.

        Raises:
            TaskError: if the data file is missing, altered or malformed.
        """

    def num_training_examples(self) -> int:
        """The texts for training."""
        return len(self.texts().training.labels)

    def training_batch(self, step: int, batch: int, seed: int) -> Batch:
        """Without replacement within an epoch; every epoch in an order of its own."""
        texts = self.texts().training
        chosen = shuffled_indices(seed=seed, step=step, batch=batch, num_examples=len(texts.labels))
        return self._batch(texts[chosen])

    def held_out(self, split: Split, batch: int) -> Iterator[Batch]:
        """The split's texts in the order of the file."""
        texts = self.texts().held_out[split]
        for first in range(0, len(texts.labels), batch):
            yield self._batch(texts[first : first + batch])

    def score(self, outputs: Tensor, batch: Batch) -> tuple[float, int]:
        """Texts whose class has the largest logit, and the number of texts."""
        return num_right(outputs, batch.targets)

    def _batch(self, texts: Texts) -> Batch:
        words = np.full((len(texts.labels), self.length), PADDING, dtype=np.int64)
        width = min(self.length, texts.words.shape[1])
        words[:, :width] = texts.words[:, :width]
        mask = np.arange(self.length) < texts.num_words[:, None]
        return Batch(
            inputs=torch.from_numpy(words), targets=torch.from_numpy(texts.labels.copy()),
            mask=torch.from_numpy(mask),
        )  # fmt: skip


def words_of(text: str) -> list[str]:
    """The words of a text, in order."""
    return _WORD.findall(text.lower())


def split_texts(examples: Sequence[tuple[str, int]]) -> LabelledTexts:
    """Texts and their classes, cut into words and divided; a text needs a word."""
    parts: dict[str, list[tuple[list[str], int]]] = {"training": [], "validation": [], "test": []}
    for text, label in examples:
        words = words_of(text)
        parts[split_of(words)].append((words, label))
    vocabulary = _vocabulary(parts["training"])
    symbols = {word: symbol for symbol, word in enumerate(vocabulary)}
    return LabelledTexts(
        training=_padded(parts["training"], symbols),
        held_out={
            "validation": _padded(parts["validation"], symbols),
            "test": _padded(parts["test"], symbols),
        },
        vocabulary=vocabulary,
    )


def split_of(words: Sequence[str]) -> str:
    """To which split a text of these words belongs."""
    part = int.from_bytes(hashlib.sha256(" ".join(words).encode()).digest()[:8]) % NUM_PARTS
    if part in _TEST_PARTS:
        return "test"
    return "validation" if part in _VALIDATION_PARTS else "training"


def _vocabulary(texts: Sequence[tuple[list[str], int]]) -> tuple[str, ...]:
    counts = Counter(word for words, _ in texts for word in words)
    ranked = sorted(counts, key=lambda word: (-counts[word], word))
    return ("<pad>", "<unknown>", *ranked[: NUM_SYMBOLS - 2])


def _padded(texts: Sequence[tuple[list[str], int]], symbols: Mapping[str, int]) -> Texts:
    longest = max((len(words) for words, _ in texts), default=0)
    rows = np.full((len(texts), longest), PADDING, dtype=np.int64)
    for row, (words, _) in zip(rows, texts, strict=True):
        row[: len(words)] = [symbols.get(word, UNKNOWN) for word in words]
    return Texts(
        words=rows,
        num_words=np.array([len(words) for words, _ in texts], dtype=np.int64),
        labels=np.array([label for _, label in texts], dtype=np.int64),
    )
