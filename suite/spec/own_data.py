"""Data of the user's own, named by their file: text, tables, pairs, arrays, images.

An object of these classes stands wherever the name of a shipped task stands. A trial records it as
the text that makes it, its spelling, so that every process can make the same task from the same
file. `bakeoff.suite.tasks.own` reads the files.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from bakeoff.suite.errors import unknown_name
from bakeoff.suite.schema.task_names import data_call, data_label, is_own_data, task_label
from bakeoff.suite.spec.fields import FrozenSpec, RecordName, SpecError, printed

Symbols = Literal["words", "characters", "bytes", "subwords"]
_FilePath = Annotated[str, Field(min_length=1, max_length=1000), AfterValidator(printed)]
_Column = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(printed)]
_Columns = Annotated[
    Sequence[_Column],
    Field(min_length=1, max_length=4096),
    AfterValidator(lambda names: tuple(dict.fromkeys(names))),
]
_Vocabulary = Annotated[int, Field(ge=16, le=65_536)]


class OwnData(FrozenSpec):
    """Data of the user's own, as a task.

    Attributes:
        path: The file or folder. A relative path is looked for in the folder of the ablation's file
            first, then in the current folder.
        name: The name in tables and records: lower-case letters, digits and underscores; by default
            it is made from the name of the file.
    """

    path: _FilePath
    name: RecordName | None = None

    def __init__(self, path: object, **fields: Any) -> None:
        super().__init__(**{"path": str(path) if isinstance(path, PurePath) else path, **fields})

    @property
    def short_name(self) -> str:
        """The name in tables and records."""
        return data_label(self.path, self.name)

    @property
    def definition(self) -> dict[str, Any]:
        """The fields that determine the task, besides the content of the file."""
        return self.model_dump(exclude={"path", "name"})

    def __str__(self) -> str:
        """Return the text that makes an equal object, with the fields that are set."""
        given = self.model_dump(exclude={"path"}, exclude_defaults=True)
        several = {k: list(v) if isinstance(v, tuple) else v for k, v in given.items()}
        fields = (f", {name}={_quoted(value)}" for name, value in several.items())
        return f"{type(self).__name__}({_quoted(self.path)}{''.join(fields)})"


def _quoted(value: object) -> str:
    if isinstance(value, str | list):
        return json.dumps(value, ensure_ascii=False)
    return repr(value)


class TextFile(OwnData):
    """A text whose next symbol is predicted; the task of a language model.

    The first 80 % of the text are for training, the next 10 % for validation, the last 10 % for
    the test. At most the first 65,536 symbols of the validation part and the first 131,072 of the
    test part are scored.

    Attributes:
        symbols: The unit that is predicted: ``characters``, ``bytes``, or ``subwords``, which are
            learnt by byte-pair encoding from the training part.
        vocabulary: The number of subwords, with single characters.
    """

    symbols: Literal["characters", "bytes", "subwords"] = "characters"
    vocabulary: _Vocabulary = 4_000


class _TableFile(OwnData):
    """A file of CSV (``.csv``, ``.tsv``), Parquet (``.parquet``) or JSON lines (``.jsonl``).

    Attributes:
        separator: The character between the columns of a CSV file; by default a tab in ``.tsv``
            and a comma in others.
        encoding: The encoding of a CSV file or of JSON lines.
    """

    separator: Annotated[str, Field(min_length=1, max_length=1)] | None = None
    encoding: Annotated[str, Field(min_length=1, max_length=32)] = "utf-8"


class _Rows(OwnData):
    """Rows with named columns.

    A cell of a named column must not be empty, and each split needs ten rows. Texts are cut after
    100,000 characters. Numbers are standardised by the mean and the standard deviation of the
    training part, a `target` too, so that its mean has a squared error of about 1. At most 10,000
    validation rows and 25,000 test rows are scored, drawn at random.

    Attributes:
        text: The column with the text to classify.
        label: The column with the class.
        features: The columns with numbers, in place of `text`.
        target: The column with the number to predict, in place of `label`.
        split: The column that says for each row ``train``, ``validation`` or ``test``; if no row is
            for validation, one of ten training rows is. By default 7 of 10 rows are for training,
            1 for validation and 2 for the test, by a hash of the text or the features, so that
            equal rows are on one side.
        symbols: The symbols of a text: ``words``, ``characters``, ``bytes`` or ``subwords``.
        vocabulary: The number of words or subwords, the most frequent of 100,000 training texts.
    """

    text: _Column | None = None
    label: _Column | None = None
    features: _Columns | None = None
    target: _Column | None = None
    split: _Column | None = None
    symbols: Symbols = "words"
    vocabulary: _Vocabulary = 8_192

    @model_validator(mode="after")
    def _has_input_and_answer(self) -> _Rows:
        if (self.text is None) == (self.features is None):
            raise ValueError("give either text=COLUMN or features=[COLUMN, ...]")
        if (self.label is None) == (self.target is None):
            raise ValueError("give either label=COLUMN, a class, or target=COLUMN, a number")
        named = [self.text, *(self.features or ()), self.label, self.target, self.split]
        _refuse_repeated("column", *named)
        return self


def _refuse_repeated(kind: str, *names: str | None) -> None:
    given = [name for name in names if name is not None]
    for name in given:
        if given.count(name) > 1:
            raise ValueError(f"the {kind} {name!r} has two parts")


class Table(_Rows, _TableFile):
    """A table with a text or numbers, and a class or a number to predict, in each row.

    The file is CSV (``.csv``, ``.tsv``), Parquet (``.parquet``) or JSON lines (``.jsonl``).
    """


class SavedDataset(_Rows):
    """A folder that `save_to_disk` of Hugging Face `datasets` wrote, read as a table.

    That package need not be installed. The splits of a `DatasetDict` are used if they are named
    ``train``, ``validation`` and ``test``; others are ignored, unless there is only one. The names
    of a `ClassLabel` are the classes, and -1 is an empty cell.
    """


class Pairs(_TableFile):
    """Pairs of sentences to translate, one pair in each row of a CSV, TSV, Parquet or JSON file.

    The subwords are learnt from the first 100,000 training pairs. Models are scored on 500 pairs of
    the validation part and 1,000 of the test part, chosen by a hash.

    Attributes:
        source: The column with the sentence to translate.
        target: The column with its translation.
        split: The column that says for each row ``train``, ``validation`` or ``test``; by default
            by a hash of the source, as for `Table`.
        vocabulary: The number of subwords of both languages together.
    """

    source: _Column
    target: _Column
    split: _Column | None = None
    vocabulary: _Vocabulary = 4_000

    @model_validator(mode="after")
    def _has_different_columns(self) -> Pairs:
        _refuse_repeated("column", self.source, self.target, self.split)
        return self


class Arrays(OwnData):
    """Arrays in an ``.npz`` file: sequences or images, and a class, number or symbols for each.

    All sequences have one length. Vectors are standardised by the mean and the standard deviation
    of each feature over the training part.

    Attributes:
        inputs: The array of the inputs: whole numbers `[examples, time]` are tokens, floats
            `[examples, time]` or `[examples, time, size]` are vectors; whole numbers from 0 to 255
            `[examples, rows, columns]` or `[examples, rows, columns, channels]` with 1 or 3
            channels are images.
        targets: The array of the answers: whole numbers `[examples]` are classes, floats
            `[examples]` are numbers to predict, whole numbers `[examples, time]` are a symbol for
            each token, -100 where none is asked for. Classes may have any numbers. Numbers to
            predict are standardised by the training part, so that 1 is the error of its mean.
        split: The array with 0 for training, 1 for validation, 2 for the test; by default by a hash
            of the input, as for `Table`.
    """

    inputs: _Column = "inputs"
    targets: _Column = "targets"
    split: _Column | None = None

    @model_validator(mode="after")
    def _has_different_arrays(self) -> Arrays:
        _refuse_repeated("array", self.inputs, self.targets, self.split)
        return self


class ImageFolder(OwnData):
    """A folder with one folder of images for each class.

    If all folders in it are named ``train``, ``test`` and ``validation`` (or ``val``) and hold the
    folders of the classes, they are the splits; without one for validation, one of ten training
    images is for it. Otherwise the splits are by a hash of the pixels, as for `Table`. Images may
    be in nested folders; hidden files and files of other kinds are ignored. An image is turned as
    its EXIF data say, and put on white where it is transparent; of several frames the first is
    read.

    Attributes:
        size: The number of rows and columns that each image is scaled to; the ratio of its sides is
            not kept.
        is_grey: Whether images are read with one channel in place of three.
    """

    size: Annotated[int, Field(ge=4, le=512)] = 32
    is_grey: bool = False


KINDS: Mapping[str, type[OwnData]] = {
    kind.__name__: kind for kind in (TextFile, Table, SavedDataset, Pairs, Arrays, ImageFolder)
}


def own_data(spelling: str) -> OwnData:
    """Return the object that a text makes, as ``Table("my.csv", text="review", label="stars")``.

    Raises:
        SpecError: If the text is not such a call, or a field has a value that is not allowed.
    """
    try:
        call = data_call(spelling)
    except ValueError:
        raise SpecError(
            f"{spelling}: write the path and the fields as in Python, with texts in quotes: "
            'Table("my.csv", text="review", label="stars").'
        ) from None
    if call.kind not in KINDS:
        raise SpecError(unknown_name("kind of data", call.kind, KINDS))
    return KINDS[call.kind](call.path, **call.fields)


def task_spelled(task: object) -> object:
    """Return the text that stands for a task in a trial; a value that is not a task unchanged.

    Equal data have one text, however it was written.
    """
    if isinstance(task, str) and is_own_data(task):
        return str(own_data(task))
    if isinstance(task, type):
        raise SpecError(
            f"the task {task.__qualname__} is a class; name it by its import path, "
            f"'{task.__module__}:{task.__qualname__}'."
        )
    if isinstance(task, OwnData):
        return str(task)
    if not isinstance(task, str | int | float | None):
        kind = type(task)
        raise SpecError(
            f"{kind.__qualname__}(...) is not the name of a task; name a class by its import path, "
            f"'{kind.__module__}:{kind.__qualname__}'."
        )
    return task


def _label_of(task: object) -> object:
    spelled = task_spelled(task)
    return task_label(spelled) if isinstance(spelled, str) else spelled


TaskName = Annotated[
    str,
    Field(min_length=1, max_length=8000),
    AfterValidator(printed),
    BeforeValidator(task_spelled),
]
Tasks = Annotated[
    Sequence[TaskName],
    Field(min_length=1, max_length=1000),
    AfterValidator(lambda names: tuple(dict.fromkeys(names))),
]
TaskLabel = Annotated[
    str, BeforeValidator(_label_of), Field(min_length=1, max_length=200), AfterValidator(printed)
]
