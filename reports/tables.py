"""What does the comparison table of a task hold? One row a variant, whatever became of it.

One typed table; the page, Markdown, CSV and LaTeX all print from it, and say the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from reports.columns import Column, Entry, columns
from reports.readings import Coverage, Reading, coverage
from reports.series import Series, belongs, num_expected
from suite.schema import About

FOOTNOTE = "† Mean over the seeds that ended well; the coverage says what became of the others."


@dataclass(frozen=True, kw_only=True)
class Row:
    """One variant; one entry a column of the table."""

    variant: str
    is_baseline: bool
    entries: tuple[Entry, ...]
    coverage: str


@dataclass(frozen=True, kw_only=True)
class Table:
    """The comparison on one task."""

    task: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    footnotes: tuple[str, ...]


def comparison_table(about: About, measured: Sequence[Series], task: str) -> Table:
    """The table of one task: every variant of the ablation that meets it."""
    variants = [variant for variant in about.variants if belongs(variant, task)]
    here = [series for series in measured if series.task == task]
    filled = tuple(column for series in here for column in columns(about, series, variants))
    judged = primary(measured, task)
    rows = tuple(
        Row(
            variant=variant,
            is_baseline=variant == about.baseline,
            entries=tuple(column.entries[variant] for column in filled),
            coverage=str(variant_coverage(about, judged, variant)),
        )
        for variant in variants
    )
    is_partial = any("†" in entry.text for row in rows for entry in row.entries)
    return Table(task=task, columns=filled, rows=rows, footnotes=(FOOTNOTE,) if is_partial else ())


def primary(measured: Sequence[Series], task: str) -> Series | None:
    """What a task is judged by: its first score, else what is measured first."""
    here = [series for series in measured if series.task == task]
    return next((series for series in here if series.is_score), here[0] if here else None)


def variant_coverage(about: About, judged: Series | None, variant: str) -> Coverage:
    """Coverage of the number that the task is judged by."""
    if judged is None:
        return coverage((), about.num_seeds)
    return coverage(judged.of(variant), num_expected(judged, about))


def whole_coverage(about: About, measured: Sequence[Series]) -> Coverage:
    """Coverage of every cell of the sweep: task, variant, probe, seed."""
    readings: list[Reading] = []
    total = 0
    for series in measured:
        for variant in about.variants:
            if belongs(variant, series.task):
                readings.extend(series.of(variant))
                total += max(num_expected(series, about), len(series.of(variant)))
    found = coverage(readings, total)
    return Coverage(num_ok=found.num_ok, num_total=found.num_total, others=found.others)
