"""Retrieval: whether two passages, read byte by byte, are the same one in two languages.

The task follows "Retrieval" of the Long Range Arena (Tay et al. 2020, arXiv:2011.04006, section
2.2.3): two long documents pass through one encoder each, and a model predicts from the two vectors
alone whether they belong together. The Arena asks whether one article cites the other (AAN). This
task does not use the Arena's texts, because nobody has recorded a digest of its archive, and a task
reads verified data only. Here passages are from the Bible, in English and in German, so accuracies
compare only with each other.

    passages  as many bytes as the length of a trial, from the beginning of a verse on, inside a
              chapter; chapters that are shorter in either language are left out
    class     1: the German passage begins at the same verse as the English one. 0: it is from
              another chapter of the same book, so that subject and names of a book do not reveal
              the class; both are equally frequent
    splits    whole chapters, by the SHA-256 of book and number: of ten parts one is for validation,
              two are for test, seven for training; of a held-out chapter four passages, evenly
              spaced, each with either class
    input     `[batch, 2, length]` bytes, English first; none are padded, so lengths carry no
              information

``length=4000`` is the Arena's, for which a third of the chapters are long enough. Names are
helpful, since they are similar in both languages: a count of shared strings is right about three
times in four (the floor `shared_substrings`). Higher accuracy requires the meaning of words. The
module `bible` describes the translations.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

import numpy as np
import torch
from numpy.typing import NDArray

from bakeoff.suite.tasks.bases.text_windows import BYTES_AS_TEXT
from bakeoff.suite.tasks.data_order import RandomStream
from bakeoff.suite.tasks.sequence_to_sequence.bible import SOURCE, read_parts
from bakeoff.suite.tasks.task import Batch, Split, Task, TaskError

NUM_PARTS, TEST_PARTS, VALIDATION_PARTS = 10, (0, 1), (2,)
PASSAGES_PER_CHAPTER = 4  # number of passages per held-out chapter
PLACES, ENGLISH, GERMAN = 2, 3, 4  # indices of the parts of the file


@dataclass(frozen=True, kw_only=True)
class Chapter:
    """A chapter in both languages.

    Attributes:
        book: The number of the book, as a text.
        texts: English and German bytes, the verses joined by spaces.
        begins: `[2, verses]`, the offset of each verse in either language.
    """

    book: str
    texts: tuple[NDArray[np.uint8], NDArray[np.uint8]]
    begins: NDArray[np.int64]

    def num_starts(self, length: int) -> int:
        """Return the number of verses from which on both languages have `length` bytes."""
        sizes = np.array([[len(text)] for text in self.texts])
        return int((self.begins + length <= sizes).all(axis=0).sum())

    def passage(self, language: int, verse: int, length: int) -> NDArray[np.uint8]:
        """Return `length` bytes from the beginning of a verse on."""
        begin = self.begins[language, verse]
        return self.texts[language][begin : begin + length]


class Retrieval(Task):
    """Classification of two passages: 1 if both begin with the same verse, else 0."""

    name = "retrieval"
    architecture = "pair_classifier"
    floors = ("uniform", "majority", "shared_substrings")
    asks_for = "pair"
    source = SOURCE
    lengths = (32, 4_096)
    token_name = "bytes"
    input_size = 256
    output_size = 2
    characters = BYTES_AS_TEXT

    def training_batch(self, step: int, batch: int, seed: int) -> Batch:
        """Draw the chapter, the class, the verse and the other passage, all uniformly."""
        stream, chapters = RandomStream(seed, step), long_chapters("training", self.length)
        of_chapter = stream.integers(batch, low=0, high=len(chapters))
        labels = stream.integers(batch, low=0, high=2)
        drawn = (stream.bits(3 * batch) >> np.uint64(1)).astype(np.int64).reshape(batch, 3)
        return self._batch("training", of_chapter, labels, drawn)

    def held_out(self, split: Split, batch: int) -> Iterator[Batch]:
        """Yield the pairs chapter by chapter, passage by passage, class 1 first."""
        chapters = long_chapters(split, self.length)
        per_chapter = 2 * PASSAGES_PER_CHAPTER
        total = len(chapters) * per_chapter
        for first in range(0, total, batch):
            chosen = np.arange(first, min(first + batch, total))
            of_chapter, index = chosen // per_chapter, chosen % per_chapter // 2
            starts = np.array([chapters[at].num_starts(self.length) for at in of_chapter])
            verse = (starts - 1) * index // (PASSAGES_PER_CHAPTER - 1)
            drawn = np.stack([verse, index, index], axis=1)
            yield self._batch(split, of_chapter, 1 - chosen % 2, drawn)

    def _batch(
        self,
        split: str,
        of_chapter: NDArray[np.int64],
        labels: NDArray[np.int64],
        drawn: NDArray[np.int64],
    ) -> Batch:
        """Return the pairs of passages.

        Args:
            split: The split of the chapters.
            of_chapter: `[batch]`, the index of each chapter.
            labels: `[batch]`, the classes.
            drawn: `[batch, 3]`: the verse, the other chapter and its verse, each modulo their
                number.
        """
        chapters = long_chapters(split, self.length)
        pairs = np.empty((len(labels), 2, self.length), dtype=np.int64)
        for pair, at, label, (verse, which, other_verse) in zip(
            pairs, of_chapter, labels, drawn, strict=True
        ):
            chapter = chapters[at]
            verse %= chapter.num_starts(self.length)
            pair[0] = chapter.passage(0, verse, self.length)
            if not label:
                others = [
                    each
                    for each in _same_book(split, self.length, chapter.book)
                    if each is not chapter
                ]
                chapter = others[which % len(others)]
                verse = other_verse % chapter.num_starts(self.length)
            pair[1] = chapter.passage(1, verse, self.length)
        return Batch(
            inputs={"inputs": torch.from_numpy(pairs)}, targets=torch.from_numpy(labels.copy())
        )


def split_of(chapter: str) -> str:
    """Return the split of a chapter, such as ``1.2``: the second chapter of the first book."""
    part = int.from_bytes(hashlib.sha256(chapter.encode()).digest()[:8]) % NUM_PARTS
    if part in TEST_PARTS:
        return "test"
    return "validation" if part in VALIDATION_PARTS else "training"


@cache
def read_chapters() -> dict[str, Chapter]:
    """Return all chapters by book and number, in their order, read once per process.

    Raises:
        TaskError: if the data file is missing, altered or malformed.
    """
    parts = read_parts()
    verses: dict[str, list[tuple[str, str]]] = {}
    for place, *both in zip(parts[PLACES], parts[ENGLISH], parts[GERMAN], strict=True):
        verses.setdefault(place.rpartition(".")[0], []).append((both[0], both[1]))
    return {name: _chapter(name, some) for name, some in verses.items()}


def _chapter(name: str, verses: Sequence[tuple[str, str]]) -> Chapter:
    found = [[f"{verse} ".encode() for verse in language] for language in zip(*verses, strict=True)]
    english, german = (np.frombuffer(b"".join(each), dtype=np.uint8) for each in found)
    ends = np.cumsum([[len(verse) for verse in each] for each in found], axis=1)
    begins = np.concatenate([np.zeros((2, 1), dtype=np.int64), ends[:, :-1]], axis=1)
    return Chapter(book=name.partition(".")[0], texts=(english, german), begins=begins)


@lru_cache(maxsize=16)
def long_chapters(split: str, length: int) -> tuple[Chapter, ...]:
    """Return the chapters of a split that are long enough, if their book has at least two.

    Raises:
        TaskError: if there are none, or the data cannot be read.
    """
    found = [
        chapter
        for name, chapter in read_chapters().items()
        if split_of(name) == split and chapter.num_starts(length)
    ]
    books = [chapter.book for chapter in found]
    kept = tuple(chapter for chapter in found if books.count(chapter.book) > 1)
    if not kept:
        raise TaskError(f"retrieval: no chapter of the {split} is as long as length={length}")
    return kept


@lru_cache(maxsize=1_024)
def _same_book(split: str, length: int, book: str) -> tuple[Chapter, ...]:
    return tuple(each for each in long_chapters(split, length) if each.book == book)
