"""Read and check the files of `published/`; an invalid row is reported with its line.

Only the standard library is used, so that a command can check the files before anything runs.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parent / "published"
COUNTERPARTS = "counterparts.csv"  # maps published scores to variants
CONDITIONS = "conditions.csv"  # length, batch and hardware of the conditions of speeds
FIGURE_COLUMNS = (
    "system",
    "condition",
    "metric",
    "value",
    "low",
    "high",
    "spread",
    "unit",
    "source",
    "where",
    "checked",
    "note",
)
COUNTERPART_COLUMNS = (
    "ablation",
    "task",
    "metric",
    "variant",
    "against",
    "file",
    "system",
    "condition",
    "rival",
    "rival_condition",
    "published_metric",
    "kind",
    "differs",
)
CONDITION_COLUMNS = (
    "file",
    "condition",
    "length",
    "projected_length",
    "batch",
    "hardware",
    "phase",
)
_COLUMNS = {COUNTERPARTS: COUNTERPART_COLUMNS, CONDITIONS: CONDITION_COLUMNS}
_NUMBERS = ("value", "low", "high", "length", "projected_length", "batch")  # numbers, or empty
_KINDS = ("difference", "bits", "ratio")


class PublishedError(ValueError):
    """Raised for an invalid file of published figures; the message is one sentence."""

    exit_code = 2  # exit code of the command line for wrong usage


def refuse_broken() -> None:
    """Read every file, to check it.

    Raises:
        PublishedError: for the first invalid file, with the line, column and value.
    """
    for path in sorted(FOLDER.glob("*.csv")):
        rows_of(path.name)


def has_counterpart(ablation: str) -> bool:
    """Return True if a published score is compared with a variant of an ablation."""
    return any(row["ablation"] == ablation for row in rows_of(COUNTERPARTS))


@cache
def rows_of(name: str) -> tuple[dict[str, str], ...]:
    """Return the rows of one file, by column.

    Raises:
        PublishedError: if the file cannot be read, lacks a column, or has an invalid row.
    """
    columns = _COLUMNS.get(name, FIGURE_COLUMNS)
    try:
        with (FOLDER / name).open(encoding="utf-8", newline="") as file:
            lines = csv.reader(file, strict=True)
            _refuse_header(name, next(lines, []), columns)
            return tuple(_row(f"{name}, line {lines.line_num}", line, columns) for line in lines)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise PublishedError(f"{FOLDER / name} cannot be read: {error}.") from None


def _refuse_header(name: str, header: Sequence[str], columns: Sequence[str]) -> None:
    missing = [column for column in columns if column not in header]
    if tuple(header) != tuple(columns):
        said = f"lacks the column {missing[0]!r}" if missing else "has other columns"
        raise PublishedError(
            f"{FOLDER / name}, line 1: {said}; the columns are {','.join(columns)}."
        )


def _row(place: str, line: Sequence[str], columns: Sequence[str]) -> dict[str, str]:
    row = dict(zip(columns, line, strict=False))
    wrong = [name for name in _NUMBERS if row.get(name) and not _is_number(row[name])]
    problem = ""
    if len(line) != len(columns):
        problem = f"{len(line)} columns where there must be {len(columns)}"
    elif wrong:
        problem = f"{wrong[0]}={row[wrong[0]]!r} must be a number, or empty"
    elif row.get("kind", _KINDS[0]) not in _KINDS:
        problem = f"kind={row['kind']!r} must be one of {', '.join(_KINDS)}"
    if problem:
        raise PublishedError(f"{FOLDER / place}: {problem}.")
    return row


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False
