"""The comparison table of one task: one row a variant, then the floors.

One typed table; the page, Markdown, CSV and LaTeX all print from it, and say the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from reports.analysis.cost import cost_column
from reports.document import Column, Entry, Row, Table
from reports.results.floors import FOOTNOTE as FLOORS_FOOTNOTE
from reports.results.floors import NOTE as FLOOR
from reports.results.floors import beside_scores, floors_of
from reports.results.readings import Coverage, Reading, coverage
from reports.results.series import Series, belongs, num_expected
from reports.results.variant_labels import what_baseline_is
from reports.stats.intervals import Estimate
from reports.tables.columns import columns
from suite.schema import CONTROLS, About

FOOTNOTE = "† Mean over the seeds that ended well; the coverage says what became of the others."


def comparison_table(about: About, measured: Sequence[Series], task: str) -> Table:
    """The table of one task: every variant of the ablation that meets it, then its floors."""
    variants = [variant for variant in about.variants if belongs(variant, task)]
    here = [series for series in without_controls(measured) if series.task == task]
    filled = tuple(column for series in here for column in columns(about, series, variants))
    judged = primary(here, task)
    if judged is not None and judged.is_score:
        cost = cost_column(about, here, task, variants)
        filled += (cost,) if cost else ()
    rows = tuple(
        Row(
            name=variant,
            is_baseline=variant == about.baseline,
            note=what_baseline_is(about) if variant == about.baseline else "",
            entries=tuple(column.entries[variant] for column in filled),
            coverage=str(variant_coverage(about, judged, variant)),
        )
        for variant in variants
    )
    floors = () if judged is None else tuple(_floor_rows(about, judged, filled))
    is_partial = any("†" in entry.text for row in rows for entry in row.entries)
    notes = {FOOTNOTE: is_partial, FLOORS_FOOTNOTE: bool(floors)}
    return Table(
        name=task, title=task.replace("_", " "), task=task, columns=filled, rows=(*rows, *floors),
        footnotes=tuple(note for note, is_due in notes.items() if is_due), has_coverage=True,
    )  # fmt: skip


def _floor_rows(about: About, judged: Series, filled: Sequence[Column]) -> Iterator[Row]:
    """One a floor; where a column says nothing of it, a dash."""
    nothing = Entry(estimate=Estimate(n=0), text="–", tone="none")
    for floor in floors_of(about, judged):
        yield Row(
            name=floor,
            is_floor=True,
            note=FLOOR,
            entries=tuple(column.entries.get(floor, nothing) for column in filled),
            coverage=str(coverage(judged.of(floor), 1)),
        )


def table_of_variants(
    about: About,
    filled: Sequence[Column],
    *,
    name: str,
    title: str,
    task: str,
    footnotes: tuple[str, ...] = (),
) -> Table:
    """A table whose columns have entries for the same variants; without a coverage.

    Args:
        about: Says which variant is the baseline, and what that is.
        filled: At least one; its entries are the rows, in their order.
        name: As of `Table`.
        title: As of `Table`.
        task: As of `Table`.
        footnotes: As of `Table`.
    """
    rows = tuple(
        Row(
            name=variant,
            is_baseline=variant == about.baseline,
            note=what_baseline_is(about) if variant == about.baseline else "",
            entries=tuple(column.entries[variant] for column in filled),
        )
        for variant in filled[0].entries
    )
    return Table(
        name=name, title=title, task=task, columns=tuple(filled), rows=rows, footnotes=footnotes
    )  # fmt: skip


def without_controls(measured: Sequence[Series]) -> tuple[Series, ...]:
    """What was measured of the variants, and of floors beside them.

    Not what an instrument says of itself.
    """
    return beside_scores(series for series in measured if series.metric not in CONTROLS)


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
    """Coverage of every cell of the sweep: task, variant or floor, probe, seed; no controls."""
    readings: list[Reading] = []
    total = 0
    for series in without_controls(measured):
        for variant in about.variants:
            if belongs(variant, series.task):
                readings.extend(series.of(variant))
                total += max(num_expected(series, about), len(series.of(variant)))
        for floor in floors_of(about, series):
            readings.extend(series.of(floor))
            total += 1
    found = coverage(readings, total)
    return Coverage(num_ok=found.num_ok, num_total=found.num_total, others=found.others)
