"""How does a table look as Markdown, CSV and LaTeX? The page has a template."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence

import pandas as pd

from reports.columns import Column, Entry
from reports.tables import Row, Table
from reports.text import csv_text, latex_text, markdown_text, one_line


def to_markdown(table: Table) -> str:
    """A GitHub-flavoured table, with its footnotes."""
    lines = [_markdown_row(map(markdown_text, _heads(table))), _markdown_row(_alignment(table))]
    lines += [_markdown_row(map(markdown_text, _texts(table, row))) for row in table.rows]
    notes = [f"\n{markdown_text(note)}" for note in table.footnotes]
    return "\n".join([*lines, *notes])


def to_csv(table: Table) -> str:
    """Exact numbers, in the units of the measurements; text that no spreadsheet computes."""
    header = ["task", csv_text(table.row_title), *(["is_baseline"] if table.is_of_variants else [])]
    for column in table.columns:
        header += _csv_heads(column)
    lines = [[*header, *(["coverage"] if table.has_coverage else [])]]
    for row in table.rows:
        cells: list[object] = [table.task, row.name]
        cells += ["yes" if row.is_baseline else "no"] if table.is_of_variants else []
        for column, entry in zip(table.columns, row.entries, strict=True):
            cells += [entry.text] if column.is_text else _numbers(entry)
        cells += [row.coverage] if table.has_coverage else []
        lines.append([_csv_cell(cell) for cell in cells])
    return _csv(lines)


def to_latex(table: Table) -> str:
    r"""A `tabular` for ``\usepackage{booktabs}``; every name is escaped."""
    body = [_latex_row(_texts(table, row)) for row in table.rows]
    kinds = "".join("l" if column.is_text else "r" for column in table.columns)
    lines = [
        rf"\begin{{tabular}}{{l{kinds}{'l' if table.has_coverage else ''}}}",
        r"\toprule",
        _latex_row(_heads(table)),
        r"\midrule",
        *body,
        r"\bottomrule",
        r"\end{tabular}",
        *(rf"\par\footnotesize {latex_text(note)}" for note in table.footnotes),
    ]
    return "\n".join(lines) + "\n"


def frame_to_csv(frame: pd.DataFrame) -> str:
    """A whole frame: numbers so that they read back exactly, nothing where there is none."""
    columns = [[_csv_cell(value) for value in frame[name].tolist()] for name in frame.columns]
    return _csv([list(frame.columns), *map(list, zip(*columns, strict=True))])


def _heads(table: Table) -> list[str]:
    last = ["coverage"] if table.has_coverage else []
    return [table.row_title, *(_heading(column) for column in table.columns), *last]


def _heading(column: Column) -> str:
    unit = f"({column.unit})" if column.unit else ""
    name = " ".join(filter(None, (column.title, unit, column.arrow)))
    return f"{name}; {column.note}" if column.note else name


def _csv_heads(column: Column) -> list[str]:
    """One column of text; five of a number."""
    if column.is_text:
        return [csv_text(column.key)]
    parts = (f"{column.key}_{part}" for part in ("low", "high", "n", "note"))
    return [csv_text(head) for head in (f"{column.key} ({column.measured_unit})", *parts)]


def _texts(table: Table, row: Row) -> list[str]:
    said = row.note or ("baseline" if row.is_baseline else "")
    name = f"{row.name} ({said})" if said else row.name
    last = [row.coverage] if table.has_coverage else []
    return [name, *map(_entry_text, row.entries), *last]


def _entry_text(entry: Entry) -> str:
    note = f"({entry.note})" if entry.note else ""
    return " ".join(filter(None, (entry.text, entry.interval, note)))


def _alignment(table: Table) -> list[str]:
    last = [":--"] if table.has_coverage else []
    return [":--", *(":--" if column.is_text else "--:" for column in table.columns), *last]


def _markdown_row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _latex_row(cells: Sequence[str]) -> str:
    return " & ".join(map(latex_text, cells)) + r" \\"


def _numbers(entry: Entry) -> list[object]:
    estimate = entry.estimate
    note = one_line(entry.note) or ("" if estimate.point is not None else entry.text)
    return [estimate.point, estimate.low, estimate.high, estimate.n, note]


def _csv_cell(value: object) -> str:
    """Text is made harmless; a number is written as it is, NaN and None as nothing."""
    match value:
        case str():
            return csv_text(value)
        case float():
            return "" if value != value else repr(value)
        case None:
            return ""
        case _:
            return str(value)


def _csv(lines: Iterable[Iterable[str]]) -> str:
    buffer = io.StringIO(newline="")
    csv.writer(buffer, lineterminator="\n").writerows(lines)
    return buffer.getvalue()
