"""Prints tables as Markdown, CSV and LaTeX; HTML has a template."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from dataclasses import replace

import pandas as pd

from reports.document import Column, Entry, Row, Table
from reports.escape import csv_text, markdown_text, one_line, slug
from reports.export.latex import latex_text

MAX_ROWS = 300  # of a table that people read; files for programs have every row
_LATEX_NEEDS = "% Needs \\usepackage{booktabs}. Plain ASCII: any engine, any input encoding."


def in_print(table: Table) -> Table:
    """The table as people read it: the first of very many rows, and where the rest stands.

    The baseline and the floors are always among them.
    """
    if len(table.rows) <= MAX_ROWS:
        return table
    kept = table.rows[:MAX_ROWS]
    baseline = [row for row in table.rows[MAX_ROWS:] if row.is_baseline]
    floors = [row for row in table.rows[MAX_ROWS:] if row.is_floor]
    rows = (*baseline, *kept, *floors)
    note = (
        f"Shown are {len(rows):,} of {len(table.rows):,} rows; "
        f"tables/{slug(table.name)}.csv has them all."
    )
    return replace(table, rows=rows, footnotes=(*table.footnotes, note))


def to_markdown(table: Table) -> str:
    """A GitHub-flavoured table, with its footnotes."""
    read = in_print(table)
    lines = [_markdown_row(map(markdown_text, _heads(read))), _markdown_row(_alignment(read))]
    lines += [_markdown_row(map(markdown_text, _texts(read, row))) for row in read.rows]
    notes = [f"\n{markdown_text(note)}" for note in read.footnotes]
    return "\n".join([*lines, *notes])


def to_csv(table: Table) -> str:
    """Exact numbers, in the units of the measurements; text that no spreadsheet computes."""
    has_floors = any(row.is_floor for row in table.rows)
    header = ["task", csv_text(table.row_title), *(["is_baseline"] if table.is_of_variants else [])]
    header += ["is_floor"] if has_floors else []
    for column in table.columns:
        header += _csv_heads(column)
    lines = [[*header, *(["coverage"] if table.has_coverage else [])]]
    for row in table.rows:
        cells: list[object] = [table.task, row.name]
        cells += ["yes" if row.is_baseline else "no"] if table.is_of_variants else []
        cells += ["yes" if row.is_floor else "no"] if has_floors else []
        for column, entry in zip(table.columns, row.entries, strict=True):
            cells += [entry.text] if column.is_text else _numbers(entry)
        cells += [row.coverage] if table.has_coverage else []
        lines.append([_csv_cell(cell) for cell in cells])
    return _csv(lines)


def to_latex(table: Table) -> str:
    r"""A `tabular` for ``\usepackage{booktabs}`` that a paper takes in by ``\input``.

    A head is broken into lines, so that columns are as wide as their numbers.
    """
    read = in_print(table)
    kinds = "".join("l" if column.is_text else "r" for column in read.columns)
    lines = [
        _LATEX_NEEDS,
        rf"\begin{{tabular}}{{l{kinds}{'l' if read.has_coverage else ''}}}",
        r"\toprule",
        _latex_heads(read),
        r"\midrule",
        *_latex_rows(read),
        r"\bottomrule",
        r"\end{tabular}",
        *(rf"\par{{\footnotesize {latex_text(note)}\par}}" for note in read.footnotes),
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
    return "; ".join(filter(None, (_named(column), column.note)))


def _named(column: Column) -> str:
    unit = f"({column.unit})" if column.unit else ""
    return " ".join(filter(None, (column.title, unit, column.arrow)))


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


def _latex_row(cells: Iterable[str]) -> str:
    return " & ".join(cells) + r" \\"


def _latex_rows(table: Table) -> Iterator[str]:
    """The rows, with a rule before the first floor."""
    for before, row in zip((None, *table.rows), table.rows, strict=False):
        if row.is_floor and before is not None and not before.is_floor:
            yield r"\midrule"
        yield _latex_row(map(latex_text, _texts(table, row)))


def _latex_heads(table: Table) -> str:
    last = ["coverage"] if table.has_coverage else []
    heads = [_latex_head(column) for column in table.columns]
    return _latex_row([latex_text(table.row_title), *heads, *map(latex_text, last)])


def _latex_head(column: Column) -> str:
    """Its lines in a `tabular` of their own: name, unit, notes."""
    lines = [latex_text(line) for line in (_named(column), *column.note.split("; ")) if line]
    kind = "l" if column.is_text else "r"
    body = r"\\".join(lines)
    return rf"\begin{{tabular}}[b]{{@{{}}{kind}@{{}}}}{body}\end{{tabular}}"


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
