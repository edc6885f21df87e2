"""Learn the symbols of texts, and encode texts when a batch is made.

    words       as `labelled_texts.words_of` divides a text; the most frequent ones
    characters  those that occur, in the order of their code points
    bytes       of UTF-8, shifted by one
    subwords    by byte-pair encoding; white space counts as one space

Symbol 0 is padding. An unknown word or character has a symbol of its own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bakeoff.suite.tasks.bases.labelled_texts import UNKNOWN, words_of
from bakeoff.suite.tasks.bases.subwords import UNKNOWN as UNKNOWN_SUBWORD
from bakeoff.suite.tasks.bases.subwords import Subwords, learnt
from bakeoff.suite.tasks.bases.text_windows import BYTES_AS_TEXT

MOST_CHARACTERS = 65_000  # distinct ones
_SUBWORDS_LEARNT_FROM = 5_000_000  # characters
_NUM_SPECIAL = 2  # padding and unknown
_SHOWN_SPECIAL = "\0\N{REPLACEMENT CHARACTER}"


class TextSymbols(ABC):
    """A vocabulary.

    Attributes:
        size: The number of symbols.
        characters: The text of each symbol, if each is one character; otherwise empty.
    """

    size: int
    characters: str = ""

    @abstractmethod
    def encoded(self, text: bytes, length: int) -> Sequence[int] | NDArray[Any]:
        """Return the first symbols of a text in UTF-8, at least 1 and at most `length`."""

    def decoded(self, symbols: Sequence[int]) -> str:
        """Return the text of symbols; empty if they do not determine it."""
        return "".join(self.characters[symbol] for symbol in symbols) if self.characters else ""


class WordSymbols(TextSymbols):
    """The most frequent words."""

    def __init__(self, words: Sequence[str]) -> None:
        self.size = _NUM_SPECIAL + len(words)
        self._symbols = {word: symbol for symbol, word in enumerate(words, _NUM_SPECIAL)}

    def encoded(self, text: bytes, length: int) -> Sequence[int]:
        """Return the symbols of the first words."""
        whole = text.decode()
        words = words_of(whole[: 16 * length])  # a long text is not read to its end in vain
        if len(words) <= length:  # the last word may be cut
            words = words_of(whole)
        return [self._symbols.get(word, UNKNOWN) for word in words[:length]] or [UNKNOWN]


class CharacterSymbols(TextSymbols):
    """The characters that occur."""

    def __init__(self, characters: str) -> None:
        self.characters = _SHOWN_SPECIAL + characters
        self.size = len(self.characters)
        self._codes = codes_of(characters)

    def encoded(self, text: bytes, length: int) -> NDArray[Any]:
        """Return the symbols of the first characters."""
        return coded(text.decode()[:length], self._codes, first=_NUM_SPECIAL, unknown=UNKNOWN)


class ByteSymbols(TextSymbols):
    """All bytes."""

    characters = "\0" + BYTES_AS_TEXT
    size = len(characters)

    def encoded(self, text: bytes, length: int) -> NDArray[Any]:
        """Return the symbols of the first bytes."""
        return np.frombuffer(text[:length], dtype=np.uint8) + np.int64(1)


class SubwordSymbols(TextSymbols):
    """Subwords."""

    def __init__(self, subwords: Subwords) -> None:
        self._subwords = subwords
        self.size = len(subwords)

    def encoded(self, text: bytes, length: int) -> Sequence[int]:
        """Return the symbols of the first subwords."""
        whole = text.decode()
        # Subwords do not cross a space, so those of whole words at the beginning are final.
        first, _, _ = whole[: 16 * length].rpartition(" ")
        found = self._subwords.encoded(" ".join(first.split()))
        if len(found) < length:
            found = self._subwords.encoded(" ".join(whole.split()))
        return found[:length] or [UNKNOWN_SUBWORD]

    def decoded(self, symbols: Sequence[int]) -> str:
        """Return the text of the subwords."""
        return self._subwords.decoded(symbols)


def learnt_symbols(kind: str, num_symbols: int, texts: Iterable[str]) -> dict[str, Any]:
    """Return the vocabulary of texts as facts for JSON, from which `symbols_of` builds it.

    Args:
        kind: ``words``, ``characters``, ``bytes`` or ``subwords``.
        num_symbols: The number of words or subwords, with the special symbols.
        texts: Texts of the training part.
    """
    found: dict[str, Any] = {"kind": kind}
    if kind == "words":
        counts = Counter(word for text in texts for word in words_of(text))
        ranked = sorted(counts, key=lambda word: (-counts[word], word))
        found["words"] = ranked[: num_symbols - _NUM_SPECIAL]
    if kind == "characters":
        found["characters"] = "".join(sorted({character for text in texts for character in text}))
    if kind == "subwords":
        some = first_characters(texts, _SUBWORDS_LEARNT_FROM)
        found |= facts_of(learnt((" ".join(text.split()) for text in some), num_symbols))
    return found


def symbols_of(facts: Mapping[str, Any]) -> TextSymbols:
    """Return the vocabulary that `learnt_symbols` has described."""
    if facts["kind"] == "words":
        return WordSymbols(facts["words"])
    if facts["kind"] == "characters":
        return CharacterSymbols(facts["characters"])
    if facts["kind"] == "subwords":
        return SubwordSymbols(subwords_of(facts))
    return ByteSymbols()


def facts_of(subwords: Subwords) -> dict[str, Any]:
    """Return subwords as facts for JSON, from which `subwords_of` builds them."""
    return {"characters": subwords.characters, "merges": subwords.merges}


def subwords_of(facts: Mapping[str, Any]) -> Subwords:
    """Return the subwords that `facts_of` has described."""
    return Subwords(facts["characters"], [(first, second) for first, second in facts["merges"]])


def first_characters(texts: Iterable[str], count: int) -> Iterator[str]:
    """Yield texts up to a number of characters."""
    left = count
    for text in texts:
        yield text[:left]
        left -= len(text)
        if left <= 0:
            return


def coded(text: str, codes: NDArray[np.uint32], *, first: int, unknown: int) -> NDArray[np.int64]:
    """Return the symbols of characters.

    Args:
        text: The characters.
        codes: The code points that have a symbol, ascending.
        first: The symbol of the first of them; those of the others follow.
        unknown: The symbol of all other characters.
    """
    asked = codes_of(text)
    places = np.searchsorted(codes, asked).clip(max=len(codes) - 1)
    return np.where(codes[places] == asked, places + first, unknown)


def codes_of(text: str) -> NDArray[np.uint32]:
    """Return the code points of a text."""
    return np.frombuffer(text.encode("utf-32-le", errors="surrogatepass"), dtype=np.uint32)
