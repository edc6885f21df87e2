"""Pairs of sentences of the user's own, for translation."""

from __future__ import annotations

import hashlib
import unicodedata
from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, overload

import numpy as np
from numpy.typing import NDArray

from bakeoff.suite.spec.own_data import Pairs
from bakeoff.suite.tasks.bases.subwords import Subwords, learnt
from bakeoff.suite.tasks.bases.translation import (
    Bitext,
    Pair,
    ShortPairs,
    Translation,
    none_short,
    padded,
)
from bakeoff.suite.tasks.own.columns import column_parts
from bakeoff.suite.tasks.own.data import Prepared, Reader
from bakeoff.suite.tasks.own.growing import GrowingArray
from bakeoff.suite.tasks.own.labelled import MOST_FITTED
from bakeoff.suite.tasks.own.reading import (
    TRAINING,
    VALIDATION,
    digests_of,
    splits_of,
    with_validation,
)
from bakeoff.suite.tasks.own.split_names import (
    ALLOWED,
    SPLITS,
    counts_of,
    refuse_few,
    shares,
    split_named,
)
from bakeoff.suite.tasks.own.symbols import facts_of, subwords_of
from bakeoff.suite.tasks.task import Batch, TaskError

_ROWS_AT_ONCE = 10_000
_LEARNT_PAIRS, _LEARNT_CHARACTERS = 100_000, 50_000_000  # subwords are learnt from so many
_MOST_CHARACTERS = 20_000  # that a sentence may have
_MOST_SYMBOLS = Translation.lengths[1] - 1  # that a sentence may have
_MOST_SCORED: Mapping[str, int] = {"validation": 500, "test": 1_000}
_MOST_IN_DICTIONARY = 8_192  # subwords; `word_by_word` counts all pairs of two of them
_STEPS = (2, 5, 10, 20, 50, 100, 200, 500)  # words between the parts of the score
_NUM_PARTS = 3


class _OwnTranslation(Translation):
    """Translation of sentences of the user's own."""

    prepared: ClassVar[Prepared]
    most_scored: ClassVar[Mapping[str, int]] = _MOST_SCORED
    most_words: ClassVar[tuple[int, ...]] = (10, 20, 30)

    @classmethod
    @cache
    def pairs(cls) -> Bitext:
        """Return all pairs by split, mapped into memory."""
        array = cls.prepared.array
        symbols, starts, sizes = array("symbols"), array("starts"), array("sizes")
        splits = {name: MappedPairs(symbols, starts, sizes, array(name)) for name in SPLITS}
        return Bitext(subwords_of(cls.prepared.facts["subwords"]), splits)

    def _split(self, name: str) -> ShortPairs:
        return _short(type(self), name, self.length)


class MappedPairs(Sequence[Pair]):
    """The pairs of a split, read from arrays when they are asked for.

    Args:
        symbols: The symbols of all sentences, `[symbols]`; a source is followed by its target.
        starts: The place of the first symbol of each pair, `[all pairs]`.
        sizes: The number of symbols of each source and target, `[all pairs, 2]`.
        rows: The rows of the pairs of this split, `[pairs]`.
    """

    def __init__(
        self,
        symbols: NDArray[np.uint16],
        starts: NDArray[np.int64],
        sizes: NDArray[np.uint16],
        rows: NDArray[np.int64],
    ) -> None:
        self._symbols, self._starts, self._sizes, self._rows = symbols, starts, sizes, rows

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, index: int) -> Pair: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Pair]: ...

    def __getitem__(self, index: int | slice) -> Pair | Sequence[Pair]:
        if isinstance(index, slice):
            return MappedPairs(self._symbols, self._starts, self._sizes, self._rows[index])
        row = self._rows[index]
        start, (source, target) = int(self._starts[row]), map(int, self._sizes[row])
        both = self._symbols[start : start + source + target].tolist()
        return Pair(both[:source], both[source:])

    def shorter_than(self, length: int) -> NDArray[np.int64]:
        """Return the indices of the pairs with two shorter sides."""
        return np.flatnonzero((self._sizes[self._rows] < length).all(axis=1))


@dataclass(frozen=True)
class _Short:
    """The pairs of a split that are short enough, padded when a batch asks for them."""

    pairs: Sequence[Pair]
    indices: NDArray[np.int64]
    length: int

    def __len__(self) -> int:
        return len(self.indices)

    def batch(self, chosen: slice | NDArray[np.int64]) -> Batch:
        """Return the chosen sentences as a batch for a model."""
        found = [self.pairs[index] for index in self.indices[chosen].tolist()]
        return padded(found, self.length).batch(slice(None))


@cache
def _short(task: type[_OwnTranslation], split: str, length: int) -> _Short:
    pairs = task.pairs().splits[split]
    assert isinstance(pairs, MappedPairs), "`pairs` makes these"
    indices = pairs.shorter_than(length)
    if not len(indices):
        raise none_short(task, split, length)
    return _Short(pairs, indices, length)


@dataclass
class _Problems:
    """The cells that cannot be used: their number, and the first one by row and column."""

    num_empty: int = 0
    first_empty: tuple[str, str] = ("", "")
    num_long: int = 0
    lengths: NDArray[np.int64] = field(
        default_factory=lambda: np.zeros((2, _MOST_SYMBOLS + 1), dtype=np.int64)
    )  # how many training sources, and targets, have each length


class PairsReader(Reader):
    """The reader of pairs of sentences.

    Sentences are normalized to NFC, with one space between words. The subwords are learnt from at
    most the first 100,000 training pairs (and 50 million characters of them), by which memory is
    bounded; besides them, memory holds 17 bytes for each pair. A pair is left out if a side has
    more than 20,000 characters or 1,023 subwords, and the summary says how many were. Models are
    scored on 500 pairs of the validation part and 1,000 of the test part, those whose sources have
    the smallest hashes.
    """

    data: Pairs

    def prepare(self, path: Path, to: Path) -> dict[str, Any]:
        """Write the symbols of all pairs, and return the subwords."""
        problems = _Problems()
        parts = _texts(path, self.data, problems)
        first, counted = _enough_to_learn(parts)
        subwords = self._learnt(path, first)
        splits, keys = _written(to, chain(first, parts), subwords, problems)
        _refuse_empty(path, problems)
        counts = counts_of(splits)
        refuse_few(path, counts, "pairs")
        for name, split in SPLITS.items():
            rows = np.flatnonzero(splits == split)
            if split != TRAINING:
                rows = rows[np.argsort(keys[rows], kind="stable")]
            np.save(to / f"{name}.npy", rows)
        return {
            "subwords": facts_of(subwords),
            "num_symbols": len(subwords),
            "step": _step(counted.words),
            "counts": counts,
            "summary": _summary(counts, problems, len(subwords)),
        }

    def task(self, prepared: Prepared) -> dict[str, Any]:
        """Return the task with its vocabulary and the parts of its score."""
        facts = prepared.facts
        step, size = facts["step"], facts["num_symbols"]
        floors = ["copied_source", "word_by_word", "likeliest_sequence"]
        if size > _MOST_IN_DICTIONARY:
            floors.remove("word_by_word")
        return {
            "base": _OwnTranslation,
            "input_size": size,
            "output_size": size,
            "floors": tuple(floors),
            "most_words": tuple(step * part for part in range(1, _NUM_PARTS + 1)),
            "most_fitted": MOST_FITTED if facts["counts"][TRAINING] > MOST_FITTED else None,
        }

    def _learnt(self, path: Path, parts: Sequence[_Part]) -> Subwords:
        found = learnt((text for part in parts for text in part.texts()), self.data.vocabulary)
        if len(found) > self.data.vocabulary:
            raise TaskError(
                f"{path} has {len(found.characters):,} different characters in its training part, "
                f"more than vocabulary={self.data.vocabulary} can hold; it should be twice that"
            )
        return found


def _refuse_empty(path: Path, problems: _Problems) -> None:
    if problems.num_empty:
        place, column = problems.first_empty
        rest = f", as in {problems.num_empty - 1:,} more rows" if problems.num_empty > 1 else ""
        raise TaskError(
            f"{path}, {place}: the cell of column {column!r} is empty{rest}; remove such rows"
        )


@dataclass
class _Part:
    """Some pairs of sentences, with their splits."""

    sources: list[str] = field(default_factory=list)
    targets: list[str] = field(default_factory=list)
    splits: list[int] = field(default_factory=list)

    def add(self, source: str, target: str, split: int) -> None:
        """Add a pair."""
        self.sources.append(source)
        self.targets.append(target)
        self.splits.append(split)

    def texts(self) -> Iterator[str]:
        """Yield the sentences of the training pairs."""
        for source, target, split in zip(self.sources, self.targets, self.splits, strict=True):
            if split == TRAINING:
                yield source
                yield target


@dataclass
class _LearntFrom:
    """The number of training pairs that were read, and the number of words of their sources."""

    num_training: int = 0
    num_characters: int = 0
    words: list[int] = field(default_factory=list)


def _enough_to_learn(parts: Iterator[_Part]) -> tuple[list[_Part], _LearntFrom]:
    """Return the first parts, which hold enough training pairs to learn subwords from."""
    found, counted = [], _LearntFrom()
    for part in parts:
        found.append(part)
        both = zip(part.sources, part.splits, strict=True)
        counted.words += [text.count(" ") + 1 for text, split in both if split == TRAINING]
        counted.num_training += part.splits.count(TRAINING)
        counted.num_characters += sum(map(len, part.sources)) + sum(map(len, part.targets))
        if counted.num_training >= _LEARNT_PAIRS or counted.num_characters >= _LEARNT_CHARACTERS:
            break
    return found, counted


def _texts(path: Path, data: Pairs, problems: _Problems) -> Iterator[_Part]:
    """Yield parts of the pairs; empty cells and very long ones are counted and left out."""
    columns = [data.source, data.target, *([data.split] if data.split else [])]
    part, has_validation = _Part(), _has_validation(path, data)
    for place, cells in _rows(path, data, columns):
        source, target = (_plain(cell) if isinstance(cell, str) else cell for cell in cells[:2])
        split = split_named(cells[2]) if data.split else TRAINING
        if split is None:
            raise TaskError(
                f"{path}, {place}: the column {data.split!r} has {cells[2]!r:.60}; allowed are "
                f"{ALLOWED}"
            )
        for column, cell in zip(columns, (source, target), strict=False):
            if not cell and (cell is None or isinstance(cell, str)):
                if not problems.num_empty:
                    problems.first_empty = (place, column)
                problems.num_empty += 1
                break
            if not isinstance(cell, str):
                raise TaskError(
                    f"{path}, {place}: the column {column!r} has {cell!r:.60}; a text is needed"
                )
            if len(cell) > _MOST_CHARACTERS:
                problems.num_long += 1
                break
        else:
            part.add(source, target, split)  # type: ignore[arg-type]
            if len(part.sources) == _ROWS_AT_ONCE:
                yield _divided(part, data, has_validation=has_validation)
                part = _Part()
    yield _divided(part, data, has_validation=has_validation)


def _rows(
    path: Path, data: Pairs, columns: Sequence[str]
) -> Iterator[tuple[str, Sequence[object]]]:
    """Yield the place of each row and its cells, a None where one is missing."""
    for part in column_parts(path, columns, data.separator, data.encoding):
        cells = (part.columns[name].to_pylist() for name in columns)
        for index, row in enumerate(zip(*cells, strict=True)):
            yield part.place(index), row


def _divided(part: _Part, data: Pairs, *, has_validation: bool) -> _Part:
    """Return the part with the splits that a hash of the source gives, unless they are given."""
    if data.split and has_validation:
        return part
    digests = digests_of(source.encode() for source in part.sources)
    given = np.array(part.splits, dtype=np.uint8)
    part.splits = (with_validation(given, digests) if data.split else splits_of(digests)).tolist()
    return part


def _has_validation(path: Path, data: Pairs) -> bool:
    """Return True if the column of splits has rows for validation."""
    if not data.split:
        return False
    return any(split_named(cell) == VALIDATION for _, (cell,) in _rows(path, data, [data.split]))


def _plain(text: str) -> str:
    """Return the text in NFC, with single spaces."""
    return " ".join(unicodedata.normalize("NFC", text).split())


def _written(
    to: Path, parts: Iterator[_Part], subwords: Subwords, problems: _Problems
) -> tuple[NDArray[np.uint8], NDArray[np.uint64]]:
    """Write the symbols of pairs; return the split and the hash of the source of each pair."""
    all_splits, keys = [], []
    with ExitStack() as stack:
        symbols, starts, sizes = (
            stack.enter_context(GrowingArray(to / f"{name}.npy", dtype, row))
            for name, dtype, row in (
                ("symbols", np.uint16, ()),
                ("starts", np.int64, ()),
                ("sizes", np.uint16, (2,)),
            )
        )
        for part in parts:
            flat, lengths, splits, kept = array("H"), list[int](), list[int](), list[str]()
            pairs = zip(part.sources, part.targets, part.splits, strict=True)
            for source, target, split in pairs:
                first, second = subwords.encoded(source), subwords.encoded(target)
                if len(first) > _MOST_SYMBOLS or len(second) > _MOST_SYMBOLS:
                    problems.num_long += 1
                    continue
                flat.extend(first)
                flat.extend(second)
                lengths += (len(first), len(second))
                splits.append(split)
                kept.append(source)
            counts = np.array(lengths, dtype=np.int64).reshape(-1, 2)
            ends = counts.sum(axis=1).cumsum()
            starts.append(len(symbols) + ends - counts.sum(axis=1))
            sizes.append(counts)
            symbols.append(np.frombuffer(flat, dtype=np.uint16))
            all_splits.append(np.array(splits, dtype=np.uint8))
            keys.append(_keys(kept, splits))
            for side in (0, 1):
                training = counts[all_splits[-1] == TRAINING, side]
                problems.lengths[side] += np.bincount(training, minlength=_MOST_SYMBOLS + 1)
    return np.concatenate(all_splits), np.concatenate(keys)


def _keys(sources: Sequence[str], splits: Sequence[int]) -> NDArray[np.uint64]:
    """Return a hash of each source that is not for training, by which these are ordered."""
    found = (
        0
        if split == TRAINING
        else int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8, key=b"order").digest())
        for text, split in zip(sources, splits, strict=True)
    )
    return np.fromiter(found, dtype=np.uint64, count=len(sources))


def _step(words: Sequence[int]) -> int:
    """Return the number of words between the parts, such that few sources are beyond the last."""
    most = np.percentile(words, 95) / _NUM_PARTS if words else 0
    return next((step for step in _STEPS if step >= most), _STEPS[-1])


def _summary(counts: Sequence[int], problems: _Problems, num_symbols: int) -> str:
    middle, most = ([_percentile(side, q) for side in problems.lengths] for q in (50, 95))
    left_out = (
        f"; {problems.num_long:,} pairs are left out, because a side has more than "
        f"{_MOST_CHARACTERS:,} characters or {_MOST_SYMBOLS:,} subwords"
        if problems.num_long
        else ""
    )
    return (
        f"{sum(counts):,} pairs, {shares(counts)}, in {num_symbols:,} subwords; half of the "
        f"training sources have at most {middle[0]} subwords and half of the targets {middle[1]}, "
        f"95 % at most {most[0]} and {most[1]}{left_out}"
    )


def _percentile(counts: NDArray[np.int64], percent: float) -> int:
    """Return the smallest length that at least so many percent do not exceed."""
    return int(np.searchsorted(counts.cumsum(), counts.sum() * percent / 100))
