"""Translate a sentence into another language, both cut into the same subwords.

    context   the sentence in the source's language
    inputs    1, then the sentence in the target's language; see `bases.subwords` for symbols
    target    at each place the next symbol of that sentence, after the last one 2; nothing is
              asked at fillers
    score     BLEU of what the model writes by itself, by greedy search; by number of words of the
              source

A pair with a side that is not shorter than a trial's length is left out.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from models.decoding import Decoder
from models.interface import Input
from suite.tasks.bases.subwords import END, PADDING, START, Subwords
from suite.tasks.data_order import shuffled_indices
from suite.tasks.sequence_metrics import Bleu
from suite.tasks.task import UNSCORED, Batch, Split, Task, TaskError

NUM_SYMBOLS = 4_000


class Pair(NamedTuple):
    """The symbols of a sentence in two languages."""

    source: list[int]
    target: list[int]


@dataclass(frozen=True)
class Pairs:
    """Sentences in two languages by split, and their subwords."""

    subwords: Subwords
    splits: Mapping[str, tuple[Pair, ...]]


@dataclass(frozen=True)
class Padded:
    """The sentences of a split that are short enough.

    Attributes:
        sources: `[sentences, length - 1]`, filled behind.
        targets: `[sentences, length]`, each with its end, filled behind.
    """

    sources: NDArray[np.int64]
    targets: NDArray[np.int64]

    def batch(self, chosen: slice | NDArray[np.int64]) -> Batch:
        """Some of them, as a model reads them."""
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
    """Write the sentence in the other language.

    Attributes:
        most_scored: How many of a split are scored, its first ones.
        most_words: Up to how many words of the source each part goes, in equal steps; the last
            part has all longer ones too.
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
        """Each task has a metric of its own, since its symbols are other texts."""
        cls.metric = Bleu(decoder=Decoder(max_length=256), end=END, text=cls.written)
        cls.part_titles = _titles(cls.most_words)

    @classmethod
    @abstractmethod
    def pairs(cls) -> Pairs:
        """All sentences, read once per process.

        Raises:
            TaskError: if a data file is missing, altered or malformed.
        """

    @classmethod
    def other_inputs(cls, length: int) -> dict[str, Input]:
        """The source, one shorter than the target with its beginning or end."""
        return {"context": Input(kind="tokens", size=cls.input_size, length=length - 1)}

    @classmethod
    def written(cls, symbols: Sequence[int]) -> str:
        """The text of symbols."""
        return cls.pairs().subwords.decoded(symbols)

    def text(self, tokens: Sequence[int]) -> str:
        """See `Task.text`."""
        return self.written(tokens)

    def words(self, tokens: Sequence[int]) -> list[tuple[str, range]]:
        """See `Task.words`; a mark of punctuation is a word."""
        return self.pairs().subwords.words(tokens)

    def num_training_examples(self) -> int:
        """The sentences for training that are short enough."""
        return len(self._split("training").targets)

    def training_batch(self, step: int, batch: int, seed: int) -> Batch:
        """Without replacement within an epoch; every epoch in an order of its own."""
        count = self.num_training_examples()
        chosen = shuffled_indices(seed=seed, step=step, batch=batch, num_examples=count)
        return self._split("training").batch(chosen)

    def held_out(self, split: Split, batch: int) -> Iterator[Batch]:
        """The split's first sentences."""
        most = min(self.most_scored[split], len(self._split(split).targets))
        for first in range(0, most, batch):
            yield self._split(split).batch(slice(first, min(first + batch, most)))

    def parts(self) -> tuple[str, ...]:
        """Numbers of words of the source, up to which a part goes."""
        return tuple(f"words={most}" for most in self.most_words)

    def in_parts(self, batch: Batch) -> dict[str, Tensor]:
        """By the number of words of the source."""
        begins = torch.tensor(self.pairs().subwords.begin_words)
        context = batch.inputs["context"]
        num_words = begins.to(context.device)[context].sum(dim=1, keepdim=True)
        part = (num_words.clamp(max=self.most_words[-1]) - 1) // self.most_words[0]
        return {
            at: (part == place).expand(batch.targets.shape) for place, at in enumerate(self.parts())
        }

    def _split(self, name: str) -> Padded:
        return _padded(type(self), name, self.length)


@cache
def _padded(task: type[Translation], split: str, length: int) -> Padded:
    short = [
        pair
        for pair in task.pairs().splits[split]
        if len(pair.source) < length and len(pair.target) < length
    ]
    if not short:
        raise TaskError(f"{task.name}: no pair of the {split} is shorter than length={length}")
    sources = np.full((len(short), length - 1), PADDING, dtype=np.int64)
    targets = np.full((len(short), length), PADDING, dtype=np.int64)
    for row, (source, target) in enumerate(short):
        sources[row, : len(source)] = source
        targets[row, : len(target) + 1] = [*target, END]
    return Padded(sources, targets)


def _titles(most_words: Sequence[int]) -> dict[str, str]:
    """Of the parts: ``11 to 20``, and of the last one ``over 30``."""
    found = {"words": "words of the source"}
    for before, most in pairwise((0, *most_words)):
        is_last = most == most_words[-1]
        found[f"words={most}"] = f"over {before}" if is_last else f"{before + 1} to {most}"
    return found
