"""A text of the user's own, for a language model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from bakeoff.suite.spec.own_data import TextFile
from bakeoff.suite.tasks.bases.subwords import Subwords, learnt
from bakeoff.suite.tasks.bases.text_windows import BYTES_AS_TEXT, Corpus, TextWindows
from bakeoff.suite.tasks.metrics import Bits
from bakeoff.suite.tasks.own.data import Prepared, Reader
from bakeoff.suite.tasks.own.growing import GrowingArray
from bakeoff.suite.tasks.own.reading import text_parts
from bakeoff.suite.tasks.own.symbols import (
    coded,
    codes_of,
    facts_of,
    first_characters,
    subwords_of,
)
from bakeoff.suite.tasks.task import Split, TaskError

_TRAINING, _VALIDATION = 0.8, 0.1  # shares of the text, in this order; the rest is the test part
_LEAST = 1_000  # symbols of a text
_MOST_SCORED: Mapping[Split, int] = {"validation": 65_536, "test": 131_072}
_MOST_CHARACTERS = 65_535  # distinct ones
_LEARNT_FROM = 5_000_000  # characters of the training part
_SHOWN_UNKNOWN = "\N{REPLACEMENT CHARACTER}"


class _OwnText(TextWindows):
    """Prediction of the next symbol of a text."""

    prepared: ClassVar[Prepared]

    @classmethod
    @cache
    def read(cls) -> Corpus:
        """Return the symbols of all splits, mapped into memory."""
        symbols = cls.prepared.array("symbols")
        first, second = cls.prepared.facts["cuts"]
        held_out: dict[Split, tuple[NDArray[Any], ...]] = {
            "validation": (symbols[first:second],),
            "test": (symbols[second:],),
        }
        return Corpus(training=symbols[:first], held_out=held_out)


class _OwnSubwords(_OwnText):
    """Prediction of the next subword of a text."""

    metric = Bits(name="bits_per_subword")

    @classmethod
    @cache
    def subwords(cls) -> Subwords:
        """Return the subwords."""
        return subwords_of(cls.prepared.facts["subwords"])

    def text(self, tokens: Any) -> str:
        """Return the text of the subwords."""
        return self.subwords().decoded(list(tokens))


class TextFileReader(Reader):
    """The reader of a text file.

    A character that does not occur in the training part is the symbol 0. White space between
    subwords counts as one space.
    """

    data: TextFile

    def prepare(self, path: Path, to: Path) -> dict[str, Any]:
        """Write the symbols of the whole text, and return the vocabulary and where it is cut."""
        if path.stat().st_size == 0:
            raise TaskError(f"{path} is empty")
        kind = self.data.symbols
        facts: dict[str, Any] = {}
        if kind == "bytes":
            num_symbols = path.stat().st_size
            _refuse_short(path, num_symbols, kind)
            np.save(to / "symbols.npy", np.memmap(path, dtype=np.uint8, mode="r"))
        else:
            num_symbols = sum(map(len, text_parts(path)))
            _refuse_short(path, num_symbols, "characters")
            first, _ = _cuts(num_symbols)
            if kind == "characters":
                known = _characters(path, first)
                facts["characters"] = _SHOWN_UNKNOWN + known
                _written(to, _in_characters(path, known))
            else:
                subwords = _learnt(path, min(first, _LEARNT_FROM), self.data.vocabulary)
                facts["subwords"] = facts_of(subwords)
                num_symbols = _written(to, _in_subwords(path, subwords))
                _refuse_short(path, num_symbols, kind)
        first, second = facts["cuts"] = _cuts(num_symbols)
        rest = num_symbols - second
        facts["summary"] = (
            f"{num_symbols:,} {kind}, the first {first:,} for training, the next "
            f"{second - first:,} for validation, the last {rest:,} for the test"
        )
        return facts

    def task(self, prepared: Prepared) -> dict[str, Any]:
        """Return the task with its vocabulary and the numbers of scored symbols."""
        facts, num_symbols = prepared.facts, len(prepared.array("symbols"))
        first, second = facts["cuts"]
        sizes: Mapping[Split, int] = {"validation": second - first, "test": num_symbols - second}
        scored = {split: min(size - 1, _MOST_SCORED[split]) for split, size in sizes.items()}
        found: dict[str, Any] = {
            "base": _OwnText,
            "num_scored": scored,
            "lengths": (1, min(scored.values())),
        }
        if self.data.symbols == "bytes":
            return {**found, "characters": BYTES_AS_TEXT}
        if self.data.symbols == "subwords":
            size = len(subwords_of(facts["subwords"]))
            return {**found, "base": _OwnSubwords, "input_size": size, "output_size": size} | {
                "characters": ""
            }
        characters = facts["characters"]
        size = len(characters)
        return {
            **found,
            "metric": Bits(name="bits_per_character"),
            "characters": characters,
            "input_size": size,
            "output_size": size,
        }


def _refuse_short(path: Path, num_symbols: int, kind: str) -> None:
    if num_symbols < _LEAST:
        raise TaskError(f"{path} has {num_symbols} {kind}; at least {_LEAST:,} are needed")


def _cuts(num_symbols: int) -> list[int]:
    """Return where validation begins, and where the test begins."""
    return [int(num_symbols * _TRAINING), int(num_symbols * (_TRAINING + _VALIDATION))]


def _characters(path: Path, num_training: int) -> str:
    """Return the characters of the training part, in the order of their code points."""
    known = np.zeros(0, np.uint32)
    for part in first_characters(text_parts(path), num_training):
        known = np.union1d(known, codes_of(part))
    if len(known) > _MOST_CHARACTERS:
        raise TaskError(f"{path} has {len(known):,} different characters; use symbols='subwords'")
    return known.astype("<u4").tobytes().decode("utf-32-le")


def _in_characters(path: Path, known: str) -> Iterator[NDArray[np.int64]]:
    """Yield the symbols of a text: 0 for an unknown character, else its number from 1 on."""
    codes = codes_of(known)
    for part in text_parts(path):
        yield coded(part, codes, first=1, unknown=0)


def _written(to: Path, parts: Iterable[NDArray[np.int64]]) -> int:
    """Write the symbols of all parts, and return their number."""
    with GrowingArray(to / "symbols.npy", np.uint16) as array:
        for part in parts:
            array.append(part)
    return len(array)


def _learnt(path: Path, num_characters: int, num_symbols: int) -> Subwords:
    """Return subwords that are learnt from the first characters of a text."""
    text = "".join(first_characters(text_parts(path), num_characters))
    return learnt((" ".join(line.split()) for line in text.splitlines()), num_symbols)


def _in_subwords(path: Path, subwords: Subwords) -> Iterator[NDArray[np.int64]]:
    """Yield the subwords of a text; a line is not divided between two parts."""
    rest = ""
    for part in text_parts(path):
        head, line_end, rest_of_part = (rest + part).rpartition("\n")
        rest = rest_of_part
        if line_end:
            yield np.array(subwords.encoded(" ".join(head.split())), dtype=np.int64)
    yield np.array(subwords.encoded(" ".join(rest.split())), dtype=np.int64)
