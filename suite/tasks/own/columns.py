"""Read columns of CSV, Parquet and JSON lines in parts of bounded size.

Rows are counted from 1, without a header; in JSON lines they are the lines. A part of a CSV file
has at most twice 16 MB, one of Parquet 1,024 rows, one of JSON lines 10,000 lines or 64 MB.
"""

from __future__ import annotations

import codecs
import csv
import json
import math
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as compute
import pyarrow.csv
import pyarrow.parquet
from numpy.typing import NDArray

from bakeoff.models.errors import did_you_mean
from bakeoff.suite.errors import one_line
from bakeoff.suite.tasks.own.reading import text_parts
from bakeoff.suite.tasks.task import TaskError

_CSV_BYTES = 1 << 24
_MOST_OF_A_LINE = 1 << 26  # characters
_PARQUET_ROWS = 1_024
_JSON_ROWS = 10_000
_MOST_SHOWN = 10  # columns in a message
LARGEST = 1e30  # number, so that a standardised one is finite in float32
_NO_NUMBER = frozenset(["", "nan", "na", "n/a", "#n/a", "null", "none", "-", "?"])
_SEPARATORS = {".csv": ",", ".tsv": "\t"}
_OTHER_FORMATS = {
    ".json": "write one JSON object in each line of a .jsonl file",
    ".ndjson": "rename it to .jsonl",
    ".xlsx": "save the sheet as CSV",
    ".xls": "save the sheet as CSV",
    ".gz": "unpack it",
    ".zip": "unpack it",
    ".xz": "unpack it",
    ".bz2": "unpack it",
    ".zst": "unpack it",
}
_KINDS_OF_JSON = {
    str: "a text",
    int: "a whole number",
    float: "a number with a fraction",
    bool: "true or false",
    list: "a list",
    dict: "an object",
}


@dataclass(frozen=True, kw_only=True)
class Part:
    """Some rows of a table, one after the other.

    Attributes:
        columns: The cells of each column, null where one is missing; cells of a CSV file are texts.
        first: The number of the first row.
        row: The word for a row in messages.
        inside: The place of the rows if the data have several, as `` of train``.
        split: The split of all rows, if the data determine it.
    """

    columns: Mapping[str, Any]
    first: int
    row: str = "row"
    inside: str = ""
    split: int | None = None

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def place(self, index: int) -> str:
        """Return the name of a row of the part in messages."""
        return f"{self.row} {self.first + index}{self.inside}"


def column_parts(
    path: Path, names: Sequence[str], separator: str | None = None, encoding: str = "utf-8"
) -> Iterator[Part]:
    """Yield the rows of a table.

    Args:
        path: A ``.csv``, ``.tsv``, ``.parquet`` or ``.jsonl`` file.
        names: The columns to read.
        separator: The character between columns of CSV; by default it depends on the file's name.
        encoding: The encoding of CSV and JSON lines.

    Raises:
        TaskError: if the file is not such a table, or lacks a column.
    """
    suffix = path.suffix.lower()
    if path.stat().st_size == 0:
        raise TaskError(f"{path} is empty")
    if suffix in _SEPARATORS:
        yield from _csv_parts(path, names, separator or _SEPARATORS[suffix], _codec(path, encoding))
    elif suffix == ".parquet":
        yield from _parquet_parts(path, names)
    elif suffix == ".jsonl":
        yield from _json_parts(path, names, _codec(path, encoding))
    else:
        remedy = _OTHER_FORMATS.get(suffix)
        rest = f"; {remedy}" if remedy else ""
        raise TaskError(f"{path} is not a .csv, .tsv, .parquet or .jsonl file{rest}")


def named_columns(path: Path, names: Sequence[str], known: Sequence[str]) -> dict[str, str]:
    """Return the column of the file for each name; they may differ in their Unicode form.

    Raises:
        TaskError: if there is none, or more than one.
    """
    found: dict[str, list[str]] = {}
    for each in known:
        found.setdefault(unicodedata.normalize("NFC", each), []).append(each)
    for name in names:
        columns = found.get(name, ())
        if len(columns) > 1:
            raise TaskError(f"{path} has {len(columns)} columns named {name!r}; rename one")
        if not columns:
            raise TaskError(f"{path} has no column {name!r}{_instead(name, list(found))}")
    return {name: found[name][0] for name in names}


def _instead(name: str, known: Sequence[str]) -> str:
    shown = ", ".join(repr(each[:100]) for each in known[:_MOST_SHOWN])
    more = ", ..." if len(known) > _MOST_SHOWN else ""
    hint = did_you_mean(name, known) or "."
    if len(known) == 1 and name in known[0]:
        return f": its only column is {shown}; give separator= if another one divides columns"
    return f"{hint} Its columns are {shown}{more}"


def _codec(path: Path, encoding: str) -> str:
    """Return the usual name of an encoding."""
    try:
        "".encode(encoding)
    except LookupError:
        raise TaskError(f"{path}: Python has no text encoding {encoding!r}") from None
    return codecs.lookup(encoding).name


def _csv_parts(path: Path, names: Sequence[str], separator: str, encoding: str) -> Iterator[Part]:
    if separator in '"\r\n' or not separator.isascii():
        raise TaskError(
            f"{path}: separator={separator!r} must be an ASCII character, no quotation mark and no "
            "end of a line"
        )
    columns = named_columns(path, names, _header(path, separator, encoding))
    _refuse_open_quotation(path, separator, encoding)
    wrong: list[Any] = []

    def refuse(row: Any) -> str:
        wrong.append(row)
        return "error"

    first = 1
    try:
        with pyarrow.csv.open_csv(
            path,
            read_options=pyarrow.csv.ReadOptions(
                use_threads=False, block_size=_CSV_BYTES, encoding=encoding
            ),
            parse_options=pyarrow.csv.ParseOptions(
                delimiter=separator, newlines_in_values=True, invalid_row_handler=refuse
            ),
            convert_options=pyarrow.csv.ConvertOptions(
                include_columns=list(columns.values()),
                column_types=dict.fromkeys(columns.values(), pa.string()),
                strings_can_be_null=False,
            ),
        ) as reader:
            for batch in reader:
                if len(batch):
                    yield Part(columns=_of_batch(batch, columns), first=first)
                first += len(batch)
    except pa.ArrowInvalid as error:
        if wrong:
            (row,) = wrong
            raise TaskError(
                f"{path}: row {row.number - 1} has {_cells(row.actual_columns)}, and the header "
                f"{_cells(row.expected_columns)}; put a cell that holds {separator!r} in quotation "
                "marks"
            ) from None
        if "straddl" in str(error):
            raise TaskError(
                f"{path}: a row after row {first - 1} is longer than {_CSV_BYTES >> 20} MB"
            ) from None
        if "Empty CSV" not in str(error):  # a header without rows
            raise TaskError(f"{path} is not CSV ({one_line(str(error))})") from None


def _cells(count: int) -> str:
    return f"{count} cell{'s' if count != 1 else ''}"


def _header(path: Path, separator: str, encoding: str) -> list[str]:
    try:
        for row in csv.reader(_lines(path, encoding), delimiter=separator):
            if row:
                return row
    except csv.Error as error:
        raise TaskError(f"{path} has no header of CSV ({error})") from None
    raise TaskError(f"{path} is empty")


def _refuse_open_quotation(path: Path, separator: str, encoding: str) -> None:
    """Raise if the last quotation mark opens a cell that the file does not close.

    pyarrow would take the rest of the file for the content of that cell.
    """
    if sum(part.count('"') for part in text_parts(path, encoding)) % 2 == 0:
        return
    most = csv.field_size_limit(_MOST_OF_A_LINE)
    lines = (f"{line}\n" for line in _lines(path, encoding))
    rows = csv.reader(lines, delimiter=separator, strict=True)
    number = 0  # the header
    try:
        for _ in rows:
            number += 1
    except csv.Error as error:
        if "unexpected end" in str(error) or "field larger" in str(error):
            raise TaskError(
                f"{path}: a quotation mark that opens a cell of row {number} is not closed"
            ) from None
    finally:
        csv.field_size_limit(most)


def _parquet_parts(path: Path, names: Sequence[str]) -> Iterator[Part]:
    try:
        file = pyarrow.parquet.ParquetFile(path, buffer_size=1 << 20, pre_buffer=False)
        with file:
            columns = named_columns(path, names, file.schema_arrow.names)
            first = 1
            for batch in file.iter_batches(
                _PARQUET_ROWS, columns=list(columns.values()), use_threads=False
            ):
                if len(batch):
                    yield Part(columns=_of_batch(batch, columns), first=first)
                first += len(batch)
    except (pa.ArrowException, OSError) as error:
        raise TaskError(f"{path} cannot be read as Parquet ({one_line(str(error))})") from None


def _of_batch(batch: Any, columns: Mapping[str, str]) -> dict[str, Any]:
    return {name: plain(batch.column(column)) for name, column in columns.items()}


def plain(cells: Any) -> Any:
    """Return an array without a dictionary, and with the usual type of texts."""
    if pa.types.is_dictionary(cells.type):
        cells = cells.dictionary_decode()
    if pa.types.is_large_string(cells.type) or pa.types.is_string_view(cells.type):
        cells = cells.cast(pa.string())
    return cells


def _json_parts(path: Path, names: Sequence[str], encoding: str) -> Iterator[Part]:
    first, num_characters = 1, 0
    rows: list[Mapping[str, Any]] = []
    kinds: dict[str, type] = {}
    for number, line in enumerate(_lines(path, encoding), 1):
        rows.append(_object(path, number, line))
        num_characters += len(line)
        if len(rows) == _JSON_ROWS or num_characters > _MOST_OF_A_LINE:
            yield _json_part(path, names, rows, first, kinds)
            first, num_characters, rows = number + 1, 0, []
    if rows:
        yield _json_part(path, names, rows, first, kinds)


def _object(path: Path, number: int, line: str) -> Mapping[str, Any]:
    if not line.strip():
        raise TaskError(f"{path}: line {number} is empty; each line must be a JSON object")
    try:
        found = json.loads(line)
    except RecursionError:
        raise TaskError(f"{path}: line {number} is nested too deeply") from None
    except ValueError as error:
        raise TaskError(f"{path}: line {number} is not JSON ({error})") from None
    if not isinstance(found, dict):
        raise TaskError(
            f"{path}: line {number} is {_KINDS_OF_JSON.get(type(found), 'null')}; each line must "
            'be a JSON object, as {"text": "...", "label": "..."}'
        )
    return found


def _json_part(
    path: Path,
    names: Sequence[str],
    rows: Sequence[Mapping[str, Any]],
    first: int,
    kinds: dict[str, type],
) -> Part:
    """Return lines as columns; `kinds` holds the kind of the values of each column so far."""
    known = list(dict.fromkeys(key for row in rows for key in row)) if first == 1 else names
    columns = named_columns(path, names, known)
    cells: dict[str, Any] = {}
    for name, key in columns.items():
        values = [row.get(key) for row in rows]
        if not set(map(type, values)) <= {kinds.get(name), type(None)}:
            _refuse_mixed(path, name, values, first, kinds)
        if kinds.get(name) is float:
            values = [None if value is None else float(value) for value in values]
        try:
            cells[name] = pa.array(values)
        except (OverflowError, UnicodeEncodeError, pa.ArrowInvalid):
            index = next(i for i, value in enumerate(values) if not _is_storable(value))
            raise TaskError(
                f"{path}: the column {name!r} holds a number beyond 64 bits or half a character "
                f"in line {first + index}"
            ) from None
    return Part(columns=cells, first=first, row="line")


def _is_storable(value: Any) -> bool:
    try:
        pa.array([value])
    except (OverflowError, UnicodeEncodeError, pa.ArrowInvalid):
        return False
    return True


def _refuse_mixed(
    path: Path, name: str, values: Sequence[Any], first: int, kinds: dict[str, type]
) -> None:
    """Raise for a list or an object, or if values are not of one kind; numbers are one kind."""
    for number, value in enumerate(values, first):
        kind, before = type(value), kinds.get(name)
        if value is None or kind is before:
            continue
        if kind in (list, dict):
            raise TaskError(
                f"{path}: the column {name!r} holds {_KINDS_OF_JSON[kind]} in line {number}; "
                "texts and numbers are allowed"
            )
        if {kind, before} == {int, float}:
            kind = float
        elif before is not None:
            raise TaskError(
                f"{path}: the column {name!r} holds {_KINDS_OF_JSON[kind]} in line {number}, and "
                f"{_KINDS_OF_JSON[before]} before; all values must be of one kind"
            )
        kinds[name] = kind


def _lines(path: Path, encoding: str) -> Iterator[str]:
    """Yield the lines of a text file, without their ends."""
    number, rest = 1, ""
    for part in text_parts(path, encoding):
        *lines, rest = (rest + part).split("\n")
        yield from lines
        number += len(lines)
        if len(rest) > _MOST_OF_A_LINE:
            raise TaskError(f"{path}: line {number} has more than {_MOST_OF_A_LINE:,} characters")
    if rest:
        yield rest


def numbers_of(path: Path, name: str, part: Part) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return the numbers of a column, and which of them are missing.

    Raises:
        TaskError: if a cell is not a number, or infinite or nearly so.
    """
    cells = part.columns[name]
    if pa.types.is_string(cells.type):
        found, is_missing = _numbers_of_texts(path, name, part, cells)
    elif pa.types.is_null(cells.type):
        return np.zeros(len(cells)), np.ones(len(cells), dtype=bool)
    elif _is_number(cells.type):
        found = compute.cast(cells, pa.float64(), safe=False).to_numpy(zero_copy_only=False)
        is_missing = np.isnan(found)  # null is NaN here
    else:
        raise TaskError(
            f"{path}: the column {name!r} holds values of type {cells.type}, not numbers"
        )
    is_large = np.abs(found) > LARGEST
    if is_large.any():
        raise TaskError(
            f"{path}: the column {name!r} is infinite or beyond {LARGEST:g} in "
            f"{part.place(int(is_large.argmax()))}; remove such rows, or "
            "scale the column"
        )
    return found, is_missing


def _is_number(kind: Any) -> bool:
    types = pa.types
    return bool(
        types.is_integer(kind)
        or types.is_floating(kind)
        or types.is_decimal(kind)
        or types.is_boolean(kind)
    )


def _numbers_of_texts(
    path: Path, name: str, part: Part, cells: Any
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    try:
        found = compute.cast(cells, pa.float64()).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:  # missing values, spaces, or no numbers
        values = cells.to_pylist()
        found = np.array([_number(value) for value in values])
        if np.isnan(found).any():
            for index in np.flatnonzero(np.isnan(found)).tolist():
                if (values[index] or "").strip().lower() not in _NO_NUMBER:
                    raise TaskError(
                        f"{path}: the column {name!r} holds {values[index][:60]!r} in "
                        f"{part.place(index)}, which is not a number{_why(values[index])}"
                    ) from None
    return found, np.isnan(found)


def _number(text: str | None) -> float:
    """Return the number that a text is, or NaN."""
    try:
        return float(text.strip()) if text and "_" not in text else math.nan
    except ValueError:
        return math.nan


def _why(text: str) -> str:
    plain_text = text.strip().replace(",", "").replace("'", "").replace(" ", "")
    if not math.isnan(_number(plain_text)):
        return "; write numbers as 1234.5, without a separator of thousands or a decimal comma"
    return "; numbers are written as 1234.5 or 1e-3"
