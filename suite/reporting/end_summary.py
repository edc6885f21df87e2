"""Sums up a sweep in a few lines for the end of a run: the numbers and the words of its report."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from reports.analysis.cost import TRAINING_STEP
from reports.analysis.verdict import verdict
from reports.document import NO_ENTRY, Column, Row, Table
from reports.results.frame import Sweep
from reports.results.series import Series, all_series, compared
from reports.tables.comparison import FOOTNOTE, comparison_table, primary, without_controls
from suite.errors import one_line
from suite.schema import MIXER_ALONE, About

MOST_ROWS = 20  # of all tables together
_FEWEST_ROWS = 5  # of one
_LONGEST_NAME = 60


def summary_lines(sweep: Sweep) -> Iterator[str]:
    """A table for each task, and the verdict on the claim; nothing where there is no result."""
    about = sweep.about
    measured = without_controls(all_series(about, sweep.results))
    tasks = [task for task in about.tasks if task != MIXER_ALONE]
    num_rows = max(_FEWEST_ROWS, MOST_ROWS // max(1, len(tasks)))
    found = [s for s in compared(measured) if any(map(s.values, about.variants))]
    for task in tasks:
        yield from _table(about, found, task, num_rows)
    judged = verdict(about, measured) if about.claim and len(sweep.results) else None
    if judged is not None:
        yield f"verdict:   {one_line(judged.sentence)}"


def _table(about: About, measured: Sequence[Series], task: str, num_rows: int) -> Iterator[str]:
    judged = primary(measured, task)
    if judged is None:
        return
    table = comparison_table(about, measured, task)
    columns = _columns(table, judged)
    variants = [row for row in table.rows if not row.is_floor]
    rows = _chosen(variants, columns[0], judged, num_rows)
    yield from _aligned([
        [f"{about.ablation}, {about.scale}, {task}", *map(_head, columns), "coverage"],
        *([_name(row), *_texts(row, columns), row.coverage] for row in rows),
    ])  # fmt: skip
    if len(variants) > len(rows):
        yield f"... and {len(variants) - len(rows):,} more in the report"
    if any("†" in text for row in rows for text in _texts(row, columns)):
        yield FOOTNOTE


def _aligned(lines: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        cells = (text.ljust(width) for text, width in zip(line, widths, strict=True))
        yield "  ".join(cells).rstrip()


def _columns(table: Table, judged: Series) -> list[Column]:
    """The score, its difference to the baseline, and the step time that most variants have."""
    own = ("_".join(filter(None, (judged.metric, judged.at, judged.environment_id))),
           f"{judged.metric}_difference")  # fmt: skip
    found = [column for column in table.columns if column.key in own]
    times = [column for column in table.columns if column.key.startswith(TRAINING_STEP)]
    times.sort(key=lambda c: -sum(e.estimate.point is not None for e in c.entries.values()))
    return [*found, *(each for each in times[:1] if each not in found)]


def _chosen(rows: Sequence[Row], column: Column, judged: Series, most: int) -> Sequence[Row]:
    """All of a few; of many the best, and the baseline."""
    if len(rows) <= most:
        return rows
    sign = -1.0 if judged.better == "higher" else 1.0

    def rank(row: Row) -> float:
        point = column.entries[row.name].estimate.point
        return math.inf if point is None else sign * point

    best = sorted(rows, key=rank)[:most]
    baseline = [row for row in rows if row.is_baseline and row not in best]
    return [*best[: most - len(baseline)], *baseline]


def _head(column: Column) -> str:
    return f"{column.title} ({column.unit})" if column.unit else column.title


def _name(row: Row) -> str:
    name = one_line(row.name)
    short = name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"
    return f"{short} (baseline)" if row.is_baseline and row.name != "baseline" else short


def _texts(row: Row, columns: Sequence[Column]) -> Iterator[str]:
    """The numbers with their intervals; of a time without, since its note compares it."""
    for column in columns:
        entry = column.entries.get(row.name, NO_ENTRY)
        interval = "" if column.measured_unit == "s" else entry.interval
        note = f"({entry.note})" if entry.note else ""
        yield one_line(" ".join(filter(None, (entry.text, interval, note))))
