"""Texts without their labels, as words, and their common vocabulary.

    wikipedia     articles, without markup, tables, notes and lines of less than 60 characters: 0.5
                  million words for training
    plays         acts I, III and V of Shakespeare's plays for training: 0.7 million
    definitions   definitions of WordNet: 0.4 million
    sentences     sentences of film reviews: 0.1 million

Words are those of `bakeoff.suite.tasks.bases.labelled_texts`. Splits are those of the tasks with
these
texts: `wikipedia_bytes`, `shakespeare_plays`, `wordnet_glosses`, `movie_reviews`. Texts that are
held out with their labels are therefore never used for training without them.

    symbols   0 is padding, 1 is any other word, 2 replaces a hidden word, 3 begins and 4 ends a
              text, then the 8,185 most frequent words of all training texts, ties in alphabetical
              order; the last two state whether a text follows another
"""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from sys import intern
from typing import Literal

import numpy as np

from bakeoff.suite.tasks import (
    movie_reviews,
    shakespeare_characters,
    shakespeare_plays,
    wikipedia_bytes,
    wordnet_glosses,
)
from bakeoff.suite.tasks.bases.generated import definition_source
from bakeoff.suite.tasks.bases.labelled_texts import UNKNOWN, split_of, words_of
from bakeoff.suite.tasks.data_order import Whole

HIDDEN, BEGIN, END = 2, 3, 4
FIRST_WORD = 5
NUM_SYMBOLS = 8_192
DOES_NOT_FOLLOW, FOLLOWS = NUM_SYMBOLS - 2, NUM_SYMBOLS - 1
Part = Literal["training", "validation", "test"]
PARTS: tuple[Part, ...] = ("training", "validation", "test")
Words = Sequence[str]  # the words of one text
Corpus = Mapping[Part, Sequence[Words]]
SOURCE = definition_source(
    name="english_texts",
    title="English texts without labels: Wikipedia, plays, definitions, sentences of film reviews",
    origin="this project, of the data sets beside it",
    definition={"symbols": NUM_SYMBOLS},
    version=1,
    beside=(
        wikipedia_bytes.SOURCE,
        shakespeare_characters.SOURCE,
        wordnet_glosses.SOURCE,
        movie_reviews.SOURCE,
    ),
)

_CONTENT = re.compile(rb"<text[^>]*>(.*?)</text>", re.DOTALL)
_DROPPED = re.compile(
    r"<!--.*?-->|<ref[^>]*/>|<(ref|math|gallery|timeline)\b.*?</\1>|<[^>]{1,200}>", re.DOTALL
)
_TEMPLATE_OR_TABLE = re.compile(r"\{\{[^{}]*\}\}|\{\|[^{}]*?\|\}")
_FILE_OR_LANGUAGE = re.compile(
    r"\[\[(?:File|Image|Category|[a-z-]{2,12}):(?:[^\[\]]|\[\[[^\[\]]*\]\])*\]\]"
)
_LINK = re.compile(r"\[\[(?:[^\[\]|]*\|)?([^\[\]|]*)\]\]")
_ADDRESS = re.compile(r"\[(?:https?:)?//\S*\s?([^\]]*)\]")
_QUOTES = re.compile(r"'{2,}")
_LEAST_CHARACTERS = 60  # minimum length of a line of prose in an article


@dataclass(frozen=True, kw_only=True)
class Passages:
    """Concatenated texts, each followed by `END`.

    Attributes:
        symbols: `[symbols]`.
        starts: Ascending positions at which a sentence begins.
    """

    symbols: Whole
    starts: Whole

    def windows(self, starts: Whole, length: int) -> Whole:
        """Return `[starts, length]`: the symbols from each start on, wrapping around at the end."""
        places = starts[:, None] + np.arange(length)
        found: Whole = self.symbols.take(places, mode="wrap")
        return found


@cache
def passages(names: tuple[str, ...], part: Part) -> Passages:
    """Return the passages of some corpora, in the order of their names."""
    texts = [encoded(words) for name in names for words in corpora()[name][part]]
    symbols = np.concatenate([np.append(text, END) for text in texts])
    begins = np.isin(np.roll(symbols, 1), [*encoded([".", "!", "?"]), END])
    return Passages(symbols=symbols, starts=np.flatnonzero(begins & (symbols != END)))


@cache
def vocabulary() -> tuple[str, ...]:
    """Return the text of each symbol, in the order of the symbols."""
    texts = (words for corpus in corpora().values() for words in corpus["training"])
    counts = Counter(word for words in texts for word in words)
    ranked = sorted(counts, key=lambda word: (-counts[word], word))
    special = ("<pad>", "<unknown>", "<hidden>", "<begin>", "<end>")
    return (*special, *ranked[: DOES_NOT_FOLLOW - FIRST_WORD], "<does not follow>", "<follows>")


def encoded(words: Iterable[str]) -> Whole:
    """Return the symbols of the words, `[words]`."""
    symbols = _symbols()
    return np.array([symbols.get(word, UNKNOWN) for word in words], dtype=np.int64)


@cache
def corpora() -> dict[str, Corpus]:
    """Return the texts of each corpus as words: whole acts of plays, else paragraphs or sentences.

    Raises:
        TaskError: if a data file is missing, altered or malformed.
    """
    return {
        "wikipedia": _wikipedia(),
        "plays": _plays(),
        "definitions": split_words(gloss for _, gloss in wordnet_glosses.read_glosses()),
        "sentences": split_words(text for _, text in movie_reviews.read_sentences()),
    }


def plain_text(article: bytes) -> list[str]:
    """Return the paragraphs of a Wikipedia article in XML, without markup."""
    content = _CONTENT.search(article)
    text = html.unescape(html.unescape(content[1].decode())) if content else ""
    text = _DROPPED.sub(" ", text)
    while (shorter := _TEMPLATE_OR_TABLE.sub(" ", text)) != text:  # from the innermost outwards
        text = shorter
    text = _ADDRESS.sub(r"\1", _LINK.sub(r"\1", _FILE_OR_LANGUAGE.sub(" ", text)))
    lines = (line.strip(" *#:;") for line in _QUOTES.sub("", text).split("\n"))
    return [x for x in lines if len(x) >= _LEAST_CHARACTERS and x[0] not in "=|!{}<"]


def _wikipedia() -> Corpus:
    articles = wikipedia_bytes.split_articles()
    return {part: [_words(x) for xml in articles[part] for x in plain_text(xml)] for part in PARTS}


def _plays() -> Corpus:
    chosen: dict[str, tuple[int, ...]] = {"training": shakespeare_plays.TRAINING_ACTS}
    chosen |= {part: (act,) for part, act in shakespeare_plays.HELD_OUT_ACT.items()}
    return {
        part: [
            _words(play[act].tobytes().decode())
            for play in shakespeare_plays.acts()
            for act in chosen[part]
        ]
        for part in PARTS
    }


def split_words(texts: Iterable[str]) -> Corpus:
    """Return texts of one line as words, divided into splits by `split_of`."""
    found: dict[str, list[Words]] = {part: [] for part in PARTS}
    for text in texts:
        words = _words(text)
        found[split_of(words)].append(words)
    return {part: found[part] for part in PARTS}


def _words(text: str) -> Words:
    """Return the words of a text, interned so that each is in memory once."""
    return [intern(word) for word in words_of(text)]


@cache
def _symbols() -> dict[str, int]:
    return {word: symbol for symbol, word in enumerate(vocabulary())}
