"""Translate a sentence into another language, both split into the same subwords.

    context   the sentence in the source language
    inputs    1, then the sentence in the target language; `bases.subwords` lists the symbols
    target    at each position the next symbol of that sentence, after the last one 2; padding is
              not scored
    score     BLEU of the translations that the model generates by greedy search; by number of
              words of the source

A pair is left out unless both sides are shorter than a trial's length.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import ClassVar, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bakeoff.models.decoding import Decoder
from bakeoff.models.interface import Input
from bakeoff.suite.tasks.bases.subwords import END, PADDING, START, Subwords
from bakeoff.suite.tasks.data_order import shuffled_indices
from bakeoff.suite.tasks.sequence_metrics import Bleu
from bakeoff.suite.tasks.task import UNSCORED, Batch, Split, Task, TaskError

NUM_SYMBOLS = 4_000


class Pair(NamedTuple):
    """The symbols of a sentence in two languages."""

    source: list[int]
    target: list[int]


@dataclass(frozen=True)
class Bitext:
    """Sentences in two languages by split, and their subwords."""

    subwords: Subwords
    splits: Mapping[str, Sequence[Pair]]


class ShortPairs(Protocol):
    """The sentences of a split that are short enough for a trial's length."""

    def __len__(self) -> int:
        """Return their number."""

    def batch(self, chosen: slice | NDArray[np.int64]) -> Batch:
        """Return the chosen sentences as a batch for a model."""


@dataclass(frozen=True)
class Padded:
    """The sentences of a split that are short enough.

    Attributes:
        sources: `[sentences, length - 1]`, padded at the end.
        targets: `[sentences, length]`, each with its end symbol, padded at the end.
    """

    sources: NDArray[np.int64]
    targets: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.targets)

    def batch(self, chosen: slice | NDArray[np.int64]) -> Batch:
        """Return the chosen sentences as a batch for a model."""
        both = (self.sources[chosen].copy(), self.targets[chosen].copy())
        context, targets = map(torch.from_numpy, both)
        begun = torch.full_like(targets[:, :1], START)
        inputs = torch.cat([begun, targets[:, :-1]], dim=1)
        inputs = inputs.masked_fill(inputs == END, PADDING)
        named = {"inputs": inputs, "context": context}
        masks = {"mask": inputs != PADDING, "context_mask": context != PADDING}
        asked = targets.masked_fill(targets == PADDING, UNSCORED)
        return Batch(inputs=named | masks, targets=asked)


class Translation(Task):
    """Translation of a sentence into the other language.

    Attributes:
        most_scored: The number of sentences of a split that are scored, from its beginning.
        most_words: The largest number of words of the source in each part, in equal steps; the last
            part also has all longer ones.
    """

    architecture = "translator"
    asks_for = "sequence"
    reads_answers = True
    is_padded = True
    lengths = (8, 1_024)
    token_name = "subwords"
    input_size = NUM_SYMBOLS
    output_size = NUM_SYMBOLS
    floors = ("copied_source", "word_by_word", "likeliest_sequence")
    most_scored: ClassVar[Mapping[str, int]]
    most_words: ClassVar[tuple[int, ...]]

    def __init_subclass__(cls) -> None:
        """Give each task a metric of its own, since its symbols stand for other texts."""
        cls.metric = Bleu(decoder=Decoder(max_length=256), end=END, text=cls.written)
        cls.part_titles = _titles(cls.most_words)

    @classmethod
    @abstractmethod
    def pairs(cls) -> Bitext:
        """Return all sentences, read once per process.

        Raises:
            TaskError: if a data file is missing, altered or malformed.
        """

    @classmethod
    def other_inputs(cls, length: int) -> dict[str, Input]:
        """Return the source, one token shorter than the target with its start or end symbol."""
        return {"context": Input(kind="tokens", size=cls.input_size, length=length - 1)}

    @classmethod
    def written(cls, symbols: Sequence[int]) -> str:
        """Return the text of the symbols."""
        return cls.pairs().subwords.decoded(symbols)

    def text(self, tokens: Sequence[int]) -> str:
        """Return the tokens as readable text."""
        return self.written(tokens)

    def words(self, tokens: Sequence[int]) -> list[tuple[str, range]]:
        """Return the words of the text with their positions; a punctuation mark is a word."""
        return self.pairs().subwords.words(tokens)

    def num_training_examples(self) -> int:
        """Return the number of training sentences that are short enough."""
        return len(self._split("training"))

    def training_batch(self, step: int, batch: int, seed: int) -> Batch:
        """Return a batch, drawn without replacement in each epoch, in an order of its own."""
        count = self.num_training_examples()
        chosen = shuffled_indices(seed=seed, step=step, batch=batch, num_examples=count)
        return self._split("training").batch(chosen)

    def held_out(self, split: Split, batch: int) -> Iterator[Batch]:
        """Yield the first sentences of the split."""
        most = min(self.most_scored[split], len(self._split(split)))
        for first in range(0, most, batch):
            yield self._split(split).batch(slice(first, min(first + batch, most)))

    def parts(self) -> tuple[str, ...]:
        """Return one part for each largest number of words of the source."""
        return tuple(f"words={most}" for most in self.most_words)

    def in_parts(self, batch: Batch) -> dict[str, Tensor]:
        """Return the parts by the number of words of the source."""
        begins = torch.tensor(self.pairs().subwords.begin_words)
        context = batch.inputs["context"]
        num_words = begins.to(context.device)[context].sum(dim=1, keepdim=True)
        part = (num_words.clamp(max=self.most_words[-1]) - 1) // self.most_words[0]
        return {
            at: (part == place).expand(batch.targets.shape) for place, at in enumerate(self.parts())
        }

    def _split(self, name: str) -> ShortPairs:
        return _padded(type(self), name, self.length)


@cache
def _padded(task: type[Translation], split: str, length: int) -> Padded:
    short = [
        pair
        for pair in task.pairs().splits[split]
        if len(pair.source) < length and len(pair.target) < length
    ]
    if not short:
        raise none_short(task, split, length)
    return padded(short, length)


def none_short(task: type[Translation], split: str, length: int) -> TaskError:
    """Return the error of a length that no pair of the split fits."""
    return TaskError(f"{task.name}: no pair of the {split} is shorter than length={length}")


def padded(pairs: Sequence[Pair], length: int) -> Padded:
    """Return pairs whose sides are all shorter than the length."""
    sources = np.full((len(pairs), length - 1), PADDING, dtype=np.int64)
    targets = np.full((len(pairs), length), PADDING, dtype=np.int64)
    for row, (source, target) in enumerate(pairs):
        sources[row, : len(source)] = source
        targets[row, : len(target) + 1] = [*target, END]
    return Padded(sources, targets)


def _titles(most_words: Sequence[int]) -> dict[str, str]:
    """Return the titles of the parts: ``11 to 20``, and of the last one ``over 30``."""
    found = {"words": "words of the source"}
    for before, most in pairwise((0, *most_words)):
        is_last = most == most_words[-1]
        found[f"words={most}"] = f"over {before}" if is_last else f"{before + 1} to {most}"
    return found
