"""Tasks on rows: a text or numbers in, a class or a number out.

A reader yields the rows in parts. Texts and numbers are written to disk as they come; in memory
stay 16 bytes per row or fewer, one part, and what the vocabulary is learnt from. A training batch
reads its rows from mapped arrays, and a text is divided into symbols then.
"""

from __future__ import annotations

import unicodedata
from abc import abstractmethod
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as compute
import torch
from numpy.typing import NDArray

from bakeoff.models.interface import InputKind
from bakeoff.suite.spec.own_data import SavedDataset, Table
from bakeoff.suite.tasks.bases.images import IMAGE_FLOORS
from bakeoff.suite.tasks.bases.labelled_data import Examples, LabelledData
from bakeoff.suite.tasks.bases.labelled_texts import PADDING, TextClassification
from bakeoff.suite.tasks.data_order import HELD_OUT_SEED, RandomStream, Whole
from bakeoff.suite.tasks.own.columns import Part, numbers_of
from bakeoff.suite.tasks.own.data import Prepared, Reader
from bakeoff.suite.tasks.own.growing import GrowingArray
from bakeoff.suite.tasks.own.labelled import (
    MOST_CLASSES,
    MOST_FITTED,
    NumberAnswers,
    OwnExamples,
    classes_in_words,
    mean_and_deviation,
)
from bakeoff.suite.tasks.own.reading import (
    TRAINING,
    VALIDATION,
    digests_of,
    num_repeated,
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
from bakeoff.suite.tasks.own.symbols import (
    MOST_CHARACTERS,
    TextSymbols,
    learnt_symbols,
    symbols_of,
)
from bakeoff.suite.tasks.task import Batch, TaskError
from bakeoff.suite.text import number_of, some_of

MOST_CHARACTERS_OF_A_TEXT = 100_000
MOST_CHARACTERS_OF_A_LABEL = 200
MOST_SCORED: Mapping[str, int] = {"validation": 10_000, "test": 25_000}
_LEARNT_FROM, _CHARACTERS_LEARNT_FROM = 100_000, 20_000_000  # texts for a vocabulary
_ROWS_AT_ONCE = 65_536
_MOST_SHOWN = 10  # columns in the summary
_MOST_NUMBERED_CLASSES = 20  # more labels that are numbers are probably to be predicted as numbers
_NAMES = {split: name for name, split in SPLITS.items()}


class OwnRows(OwnExamples):
    """A class or a number for each row."""

    @classmethod
    @cache
    def data(cls) -> LabelledData:
        """Return the rows of all splits, whose inputs are read when they are needed."""
        training, validation, test = (
            Examples(
                inputs=cls.inputs_of(cls.prepared.array(f"{part}_rows")),
                labels=np.asarray(cls.prepared.array(f"{part}_answers")),
            )
            for part in SPLITS
        )
        return LabelledData(training=training, held_out={"validation": validation, "test": test})

    @classmethod
    @abstractmethod
    def inputs_of(cls, rows: Whole) -> Any:
        """Return the inputs of these rows, for `Examples`."""


class _Texts:
    """Texts as UTF-8, read from the disk when they are asked for.

    Args:
        prepared: The folder of the texts.
        rows: The row of each text, `[texts]`.
    """

    def __init__(self, prepared: Prepared, rows: Whole) -> None:
        self._bytes, self._offsets = prepared.array("text"), prepared.array("offsets")
        self._rows = rows

    def __getitem__(self, chosen: slice | Whole) -> NDArray[Any]:
        rows = self._rows[chosen]
        places = zip(self._offsets[rows], self._offsets[rows + 1], strict=True)
        found = (self._bytes[first:end].tobytes() for first, end in places)
        return np.fromiter(found, dtype=object, count=len(rows))


class OwnTexts(OwnRows, TextClassification):
    """A class for each text."""

    lengths = (1, 65_536)

    @classmethod
    @cache
    def symbols(cls) -> TextSymbols:
        """Return the vocabulary."""
        return symbols_of(cls.prepared.facts["symbols"])

    @classmethod
    def inputs_of(cls, rows: Whole) -> Any:
        """Return texts as UTF-8."""
        return _Texts(cls.prepared, rows)

    def batch_of(self, examples: Examples) -> Batch:
        """Return the texts as symbols, cut to `length` and padded at the end."""
        symbols = self.symbols()
        tokens = np.full((len(examples.labels), self.length), PADDING, dtype=np.int64)
        for row, text in zip(tokens, examples.inputs, strict=True):
            shown = symbols.encoded(text, self.length)
            row[: len(shown)] = shown
        inputs = torch.from_numpy(tokens)
        return Batch(
            inputs={"inputs": inputs, "mask": inputs != PADDING},
            targets=torch.from_numpy(examples.labels.copy()),
        )

    def text(self, tokens: Sequence[int]) -> str:
        """Return the text of the symbols; empty if they are words."""
        return self.symbols().decoded(tokens)


class _Vectors:
    """Standardised numbers, read from the disk when they are asked for.

    Args:
        prepared: The folder of the numbers.
        rows: The row of each example, `[examples]`.
    """

    def __init__(self, prepared: Prepared, rows: Whole) -> None:
        self._values, self._rows = prepared.array("values"), rows
        self._mean = np.array(prepared.facts["means"])
        self._deviation = np.array(prepared.facts["deviations"])

    def __getitem__(self, chosen: slice | Whole) -> NDArray[Any]:
        found = (self._values[self._rows[chosen]] - self._mean) / self._deviation
        vectors: NDArray[Any] = found.astype(np.float32)[..., None]
        return vectors


class OwnFeatures(OwnRows):
    """A class for each row of numbers, one token per number."""

    input_kind: ClassVar[InputKind] = "vectors"
    input_size = 1
    floors: ClassVar[tuple[str, ...]] = IMAGE_FLOORS
    token_name = "features"

    @classmethod
    def inputs_of(cls, rows: Whole) -> Any:
        """Return standardised features, `[examples, features, 1]`."""
        return _Vectors(cls.prepared, rows)


class OwnTextNumbers(NumberAnswers, OwnTexts):
    """A standardised number for each text."""


class OwnFeatureNumbers(NumberAnswers, OwnFeatures):
    """A standardised number for each row of numbers."""


class RowsReader(Reader):
    """A reader of rows.

    A text is cut after 100,000 characters. Labels and splits are read without white space around
    them. A cell that is needed must not be empty. At most 10,000 validation rows and 25,000 test
    rows are scored, drawn at random. If the data determine the splits, but no row is for
    validation, one in ten of the training rows is, by a hash. Floors are fitted to at most 20,000
    training rows.
    """

    data: Table | SavedDataset
    version = 2

    @abstractmethod
    def parts(self, path: Path, names: Sequence[str]) -> Iterator[Part]:
        """Yield the named columns of all rows."""

    def prepare(self, path: Path, to: Path) -> dict[str, Any]:
        """Write texts or numbers, the rows of each split and their answers."""
        rows = _Gathered(self.data, path)
        columns = [*rows.inputs, rows.answer, *([self.data.split] if self.data.split else [])]
        with ExitStack() as files:
            rows.open(to, files)
            for some in self.parts(path, columns):
                rows.add(some)
        rows.refuse_incomplete()
        prepared = Prepared(to)
        splits = rows.splits(prepared)
        facts: dict[str, Any] = {}
        sentences = [f"{len(splits):,} rows: {shares(counts_of(splits))}, {rows.how_divided}"]
        if rows.num_repeated:
            sentences.append(f"{rows.num_repeated:,} rows of test equal a training row")
        for part, split in SPLITS.items():
            chosen = np.flatnonzero(splits == split)
            most = MOST_SCORED.get(part, len(chosen))
            if len(chosen) > most:
                chosen = chosen[_drawn(len(chosen), most, split)]
                sentences.append(f"{most:,} random rows of {part} are scored")
            np.save(to / f"{part}_rows.npy", chosen)
        training = prepared.array("training_rows")
        facts["num_training"] = len(training)
        if self.data.label:
            facts["classes"], sentence = rows.write_classes(prepared, splits)
        else:
            sentence = rows.write_targets(prepared)
        sentences.append(sentence)
        if self.data.text:
            facts["symbols"], sentence = self._learn(prepared, path)
            cut = rows.num_cut
            if cut:
                sentence += f"; {cut:,} were cut after {MOST_CHARACTERS_OF_A_TEXT:,} characters"
        else:
            means, deviations = mean_and_deviation(
                _chunks(prepared.array("values"), training), axes=(0,)
            )
            constant = [n for n, each in zip(rows.inputs, deviations, strict=True) if not each]
            facts["means"] = means.tolist()
            facts["deviations"] = [each or 1.0 for each in deviations.tolist()]
            sentence = number_of(len(means), "standardised feature")
            if constant:
                names = some_of([*map(repr, constant)], _MOST_SHOWN, ", ")
                sentence += f"; the same number everywhere: {names}"
        facts["summary"] = "; ".join([*sentences, sentence])
        return facts

    def task(self, prepared: Prepared) -> dict[str, Any]:
        """Return the task with its sizes."""
        facts, data = prepared.facts, self.data
        found: dict[str, Any] = {}
        if facts["num_training"] > MOST_FITTED:
            found["most_fitted"] = MOST_FITTED
        if data.label:
            found["output_size"] = len(facts["classes"])
        if data.text is None:
            assert data.features is not None, "a row has a text or features"
            base: type = OwnFeatures if data.label else OwnFeatureNumbers
            return {**found, "base": base, "fixed_length": len(data.features)}
        base = OwnTexts if data.label else OwnTextNumbers
        symbols = symbols_of(facts["symbols"])
        found |= {"input_size": symbols.size, "characters": symbols.characters}
        return {**found, "base": base, "token_name": data.symbols}

    def _learn(self, prepared: Prepared, path: Path) -> tuple[dict[str, Any], str]:
        """Return the vocabulary, and a clause on the lengths of texts."""
        kind, rows = self.data.symbols, prepared.array("training_rows")
        stream, chosen = RandomStream(HELD_OUT_SEED, 2 + TRAINING), np.arange(len(rows))
        if len(rows) > _LEARNT_FROM:  # some are drawn twice and count once
            chosen = np.unique(stream.integers(_LEARNT_FROM, low=0, high=len(rows)))
        # In random order, because a file may be sorted and only its first texts are read if long.
        chosen = chosen[np.argsort(stream.bits(len(chosen)))]
        texts = _first_texts(_Texts(prepared, np.asarray(rows[chosen])), len(chosen))
        learnt = learnt_symbols(kind, self.data.vocabulary, texts)
        if kind == "characters" and len(learnt["characters"]) > MOST_CHARACTERS:
            raise TaskError(
                f"{path} has more than {MOST_CHARACTERS:,} different characters in the column "
                f"{self.data.text!r}; use symbols='subwords'"
            )
        symbols = symbols_of(learnt)
        some = _Texts(prepared, np.asarray(rows[chosen[:2_000]]))[:]
        lengths = [len(symbols.encoded(text, MOST_CHARACTERS_OF_A_TEXT * 4)) for text in some]
        median, most = np.percentile(lengths, [50, 95])
        return learnt, (
            f"texts have {median:,.0f} {kind} in the median and at most {most:,.0f} in 95 of 100; "
            f"{symbols.size:,} symbols"
        )


class _Gathered:
    """The content of the rows that were read so far.

    Attributes:
        inputs: The names of the columns of the inputs.
        answer: The name of the column of the answers.
        num_cut: The number of texts that were cut.
        num_repeated: The number of test rows whose input is that of a training row.
        how_divided: A clause that says what determines the splits.
    """

    def __init__(self, data: Table | SavedDataset, path: Path) -> None:
        self.data, self.path = data, path
        self.inputs = [data.text] if data.text else list(data.features or ())
        self.answer = str(data.label or data.target)
        self.num_cut = self.num_repeated = 0
        self.how_divided = ""
        self._splits: list[NDArray[np.uint8]] = []
        self._codes: list[NDArray[np.int32]] = []
        self._targets: list[NDArray[np.float64]] = []
        self._labels: dict[str, int] = {}
        self._missing: dict[str, tuple[int, str]] = {}
        self._starts: list[int] = []
        self._parts: list[Part] = []  # without their columns
        self._num_rows = self._num_bytes = 0

    def open(self, to: Path, files: ExitStack) -> None:
        """Open the files that grow as rows are added."""
        if self.data.text:
            self._text = files.enter_context(GrowingArray(to / "text.npy", np.uint8))
            self._offsets = files.enter_context(GrowingArray(to / "offsets.npy", np.int64))
            self._offsets.append(np.zeros(1, np.int64))
        else:
            values = GrowingArray(to / "values.npy", np.float64, (len(self.inputs),))
            self._values = files.enter_context(values)

    def add(self, part: Part) -> None:
        """Add the rows of a part, unless a cell that is needed is empty there or was before."""
        self._starts.append(self._num_rows)
        self._parts.append(
            Part(columns={}, first=part.first, row=part.row, inside=part.inside, split=part.split)
        )
        self._num_rows += len(part)
        texts = self._texts(part) if self.data.text else None
        values = None if self.data.text else [self._numbers(part, each) for each in self.inputs]
        codes = self._coded(part) if self.data.label else None
        targets = self._numbers(part, self.answer) if self.data.target else None
        splits = self._split(part)
        if self._missing:
            return
        if texts is not None:
            self._add_texts(texts)
        if values is not None:
            self._values.append(np.column_stack(values) + 0.0)  # -0 becomes 0, for the hash
        if codes is not None:
            self._codes.append(codes)
        if targets is not None:
            self._targets.append(targets)
        if splits is not None:
            self._splits.append(splits)

    def refuse_incomplete(self) -> None:
        """Raise if there are no rows, or cells are empty."""
        if not self._num_rows:
            raise TaskError(f"{self.path} has no rows")
        for name, (count, place) in self._missing.items():
            where = place if count == 1 else f"{count:,} rows, the first is {place}"
            raise TaskError(
                f"{self.path}: the column {name!r} is empty in {where}; fill or remove what is "
                "empty"
            )

    def splits(self, prepared: Prepared) -> NDArray[np.uint8]:
        """Return the split of each row.

        Raises:
            TaskError: if a split has too few rows.
        """
        contents = _contents(prepared, self._num_rows, bool(self.data.text))
        digests = digests_of(contents, self._num_rows)
        if self._splits:
            found = np.concatenate(self._splits)
            self.how_divided = (
                f"by the column {self.data.split!r}" if self.data.split else "as saved"
            )
            if not (found == VALIDATION).any():
                found = with_validation(found, digests)
                self.how_divided += ", one in ten of the training rows for validation by a hash"
            self.num_repeated = num_repeated(found, digests)
        else:
            found = splits_of(digests)
            inputs = "text" if self.data.text else "features"
            self.how_divided = f"by a hash of the {inputs}"
        refuse_few(self.path, counts_of(found), "rows")
        return found

    def write_classes(self, prepared: Prepared, splits: NDArray[np.uint8]) -> tuple[list[str], str]:
        """Write the class of each row of each split; return the names of classes, and a clause.

        Raises:
            TaskError: if there is one class only, or one that no training row has.
        """
        names = list(self._labels)
        if len(names) == 1:
            raise TaskError(
                f"{self.path}: all rows have the label {names[0]!r} in the column {self.answer!r}; "
                "at least two are needed"
            )
        are_numbers = all(name.removeprefix("-").isdecimal() for name in names)
        order = sorted(range(len(names)), key=lambda i: int(names[i]) if are_numbers else names[i])
        codes = np.argsort(order).astype(np.int32)[np.concatenate(self._codes)]
        known = np.bincount(codes[splits == TRAINING], minlength=len(names))
        if not known.all():
            index = int(np.isin(codes, np.flatnonzero(known == 0)).argmax())
            remedy = "remove its rows, or give a column split= that has some for training"
            if len(names) > _MOST_NUMBERED_CLASSES and all(map(_is_number, names)):
                remedy = f"if a number is to be predicted, write target={self.answer!r}"
            raise TaskError(
                f"{self.path}: the label {names[order[codes[index]]]!r} of {self._place(index)} "
                f"({_NAMES[int(splits[index])]}) occurs in no training row; {remedy}"
            )
        for part in SPLITS:
            np.save(
                prepared.folder / f"{part}_answers.npy",
                codes[prepared.array(f"{part}_rows")].astype(np.int64),
            )
        classes = [names[i] for i in order]
        return classes, classes_in_words(codes, classes)

    def write_targets(self, prepared: Prepared) -> str:
        """Write the standardised number of each row of each split; return a clause.

        Raises:
            TaskError: if the number is the same in all training rows.
        """
        targets = np.concatenate(self._targets)
        training = prepared.array("training_rows")
        (mean,), (deviation,) = mean_and_deviation(_chunks(targets, training), axes=(0,))
        if not deviation:
            raise TaskError(
                f"{self.path}: the column {self.answer!r} is {mean:g} in all training rows, so "
                "nothing is to be predicted"
            )
        for part in SPLITS:
            answers = (targets[prepared.array(f"{part}_rows")] - mean) / deviation
            np.save(prepared.folder / f"{part}_answers.npy", answers.astype(np.float32))
        return (
            f"{self.answer} has mean {mean:.4g} and deviation {deviation:.4g} in training; the "
            "mean squared error is in units of their variance, so the mean scores about 1"
        )

    def _place(self, index: int) -> str:
        number = bisect_right(self._starts, index) - 1
        return self._parts[number].place(index - self._starts[number])

    def _note_missing(self, name: str, is_missing: NDArray[np.bool_], part: Part) -> None:
        if is_missing.any():
            count, place = self._missing.get(name, (0, part.place(int(is_missing.argmax()))))
            self._missing[name] = count + int(is_missing.sum()), place

    def _numbers(self, part: Part, name: str) -> NDArray[np.float64]:
        found, is_missing = numbers_of(self.path, name, part)
        self._note_missing(name, is_missing, part)
        return found

    def _as_texts(self, part: Part, name: str) -> Any:
        """Return texts without white space around them; missing ones are noted, and empty."""
        cells = part.columns[name]
        if pa.types.is_integer(cells.type) or pa.types.is_boolean(cells.type):
            cells = compute.cast(cells, pa.string())
        elif pa.types.is_null(cells.type):
            cells = cells.cast(pa.string())
        elif not pa.types.is_string(cells.type):
            remedy = "; a number to predict is target=" if name == self.data.label else ""
            if remedy and pa.types.is_floating(cells.type):
                remedy = "; convert classes to whole numbers, or write target= to predict a number"
            raise TaskError(
                f"{self.path}: the column {name!r} holds values of type {cells.type}, not texts or "
                f"whole numbers{remedy}"
            )
        cells = compute.utf8_trim_whitespace(compute.fill_null(cells, ""))
        self._note_missing(name, np.asarray(compute.equal(cells, "")), part)
        return cells

    def _texts(self, part: Part) -> Any:
        """Return texts that are not too long."""
        name = self.inputs[0]
        cells = part.columns[name]
        if pa.types.is_null(cells.type):
            cells = cells.cast(pa.string())
        if not pa.types.is_string(cells.type):
            raise TaskError(
                f"{self.path}: the column {name!r} holds values of type {cells.type}, not texts; "
                "numbers are features=[...]"
            )
        cells = compute.fill_null(cells, "")
        is_blank = compute.equal(compute.utf8_trim_whitespace(cells), "")
        self._note_missing(name, np.asarray(is_blank), part)
        num_long = compute.sum(
            compute.greater(compute.utf8_length(cells), MOST_CHARACTERS_OF_A_TEXT)
        ).as_py()
        if num_long:
            self.num_cut += num_long
            cells = compute.utf8_slice_codeunits(cells, 0, MOST_CHARACTERS_OF_A_TEXT)
        return cells

    def _add_texts(self, texts: Any) -> None:
        _, places, content = texts.buffers()
        first = texts.offset
        ends = np.frombuffer(places, dtype=np.int32)[first : first + len(texts) + 1]
        self._text.append(np.frombuffer(content, dtype=np.uint8)[ends[0] : ends[-1]])
        self._offsets.append(self._num_bytes + (ends[1:] - ends[0]).astype(np.int64))
        self._num_bytes += int(ends[-1] - ends[0])

    def _coded(self, part: Part) -> NDArray[np.int32]:
        """Return numbers for labels, in the order in which the labels occur first.

        Labels are in NFC, so that those which look the same are the same.
        """
        cells = compute.dictionary_encode(self._as_texts(part, self.answer))
        labels = [unicodedata.normalize("NFC", each) for each in cells.dictionary.to_pylist()]
        for label in labels:
            if len(label) > MOST_CHARACTERS_OF_A_LABEL:
                raise TaskError(
                    f"{self.path}: a label in the column {self.answer!r} has {len(label):,} "
                    f"characters, as {label[:40]!r}...; at most {MOST_CHARACTERS_OF_A_LABEL} are "
                    "allowed"
                )
            if label:
                self._labels.setdefault(label, len(self._labels))
        if len(self._labels) > MOST_CLASSES:
            raise TaskError(
                f"{self.path}: the column {self.answer!r} has more than {MOST_CLASSES:,} different "
                "labels; a number to predict is target="
            )
        known = [self._labels.get(label, -1) for label in labels]
        codes: NDArray[np.int32] = np.array(known, dtype=np.int32)[cells.indices.to_numpy()]
        return codes

    def _split(self, part: Part) -> NDArray[np.uint8] | None:
        name = self.data.split
        if name is None:
            if part.split is None:
                return None
            return np.full(len(part), part.split, dtype=np.uint8)
        cells = compute.dictionary_encode(self._as_texts(part, name))
        known, indices = cells.dictionary.to_pylist(), cells.indices.to_numpy()
        for number, each in enumerate(known):
            if each and split_named(each) is None:
                place = part.place(int((indices == number).argmax()))
                raise TaskError(
                    f"{self.path}: the column {name!r} holds {each[:60]!r} in {place}; allowed are "
                    f"{ALLOWED}"
                )
        found: NDArray[np.uint8] = np.array(
            [split_named(each) or TRAINING for each in known], dtype=np.uint8
        )[indices]
        return found


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _drawn(total: int, count: int, stream: int) -> Whole:
    """Return ascending indices of random rows; fewer are part of more."""
    order = np.argsort(RandomStream(HELD_OUT_SEED, 2 + stream).bits(total), kind="stable")
    return np.sort(order[:count])


def _contents(prepared: Prepared, num_rows: int, are_texts: bool) -> Iterator[bytes]:
    """Yield what a hash of the input of each row depends on: numbers, or the words of a text."""
    for first in range(0, num_rows, _ROWS_AT_ONCE):
        chosen = np.arange(first, min(first + _ROWS_AT_ONCE, num_rows))
        if are_texts:
            yield from (b" ".join(text.split()) for text in _Texts(prepared, chosen)[:])
        else:
            yield from (row.tobytes() for row in prepared.array("values")[chosen])


def _first_texts(texts: _Texts, count: int) -> Iterator[str]:
    """Yield texts until they are enough for a vocabulary."""
    left = _CHARACTERS_LEARNT_FROM
    for first in range(0, count, 1_000):
        for text in texts[first : first + 1_000]:
            yield text.decode()
            left -= len(text)
        if left <= 0:
            return


def _chunks(values: NDArray[np.float64], rows: Whole) -> Iterator[NDArray[np.float64]]:
    """Yield values of these rows, some rows at a time."""
    firsts = range(0, len(rows), _ROWS_AT_ONCE)
    yield from (values[rows[first : first + _ROWS_AT_ONCE]] for first in firsts)
