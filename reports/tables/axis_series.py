"""Tabulates a metric along a number: one row a variant or group, one column a place.

Exploratory: means with their intervals, and no verdict.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from reports.analysis.axis_series import AxisLine, AxisPoint, AxisSeries
from reports.document import Column, Entry, Row, Table
from reports.plots.axis_series import (
    figure_name,
    is_log_of_zero,
    needs_log,
    readable_axis,
    readable_metric,
    readable_place,
)
from reports.stats.intervals import Estimate
from reports.stats.number_format import for_scores
from reports.tables.columns import ARROWS
from reports.tables.comparison import FOOTNOTE

MAX_PLACES = 24
_MINUS = "−"
_Write = Callable[[float], str]
_MEANS = "Means over seeds with their 95 % intervals; exploratory."


def axis_table(series: AxisSeries) -> Table:
    """Every line; of very many places, evenly spaced ones."""
    places = _shown_places(series.places)
    unit, write = _notation(series)
    columns = tuple(_column(series, place, unit, write) for place in places)
    of = f" ({series.of.replace('=', ' ')})" if series.of else ""
    return Table(
        name=figure_name(series), task=series.task, row_title=series.row_title,
        title=f"{readable_metric(series.metric)}{of} by {readable_axis(series)}",
        columns=columns, rows=tuple(_row(line, columns) for line in series.lines),
        footnotes=tuple(_footnotes(series, places)),
    )  # fmt: skip


def _shown_places(places: Sequence[float]) -> list[float]:
    if len(places) <= MAX_PLACES:
        return list(places)
    last = len(places) - 1
    return [places[round(i * last / (MAX_PLACES - 1))] for i in range(MAX_PLACES)]


def _notation(series: AxisSeries) -> tuple[str, _Write]:
    """Unit and spelling, the same for all columns, so that a row can be read along."""
    estimates = [point.estimate for line in series.lines for point in line.at.values()]
    points = [one.point for one in estimates if one.point is not None]
    widths = [one.half_width for one in estimates if one.half_width is not None]
    written = for_scores(series.unit, widths, points)
    return written.unit, _three_digits if points and needs_log(points) else written.write


def _three_digits(value: float) -> str:
    """As ``1.14e-06``: of numbers from 1 down to a millionth no common place would do."""
    return f"{value:.3g}".replace("-", _MINUS, 1) if value < 0 else f"{value:.3g}"


def _column(series: AxisSeries, place: float, unit: str, write: _Write) -> Column:
    return Column(
        key=f"{series.metric}_{series.axis}={place:g}",
        title=f"{readable_axis(series).partition(' (')[0]} {readable_place(place)}",
        measured_unit=series.unit,
        unit=unit,
        arrow=ARROWS[series.better],
        note="as trained" if place == series.trained_at else "",
        entries={line.name: _entry(line.at.get(place), write) for line in series.lines},
    )


def _entry(point: AxisPoint | None, write: _Write) -> Entry:
    if point is None or point.estimate.point is None:
        fate = point.fate if point else "–"
        return Entry(estimate=Estimate(n=0), text=fate, tone="none")
    estimate, interval = point.estimate, ""
    if estimate.low is not None and estimate.high is not None:
        interval = f"[{write(estimate.low)}, {write(estimate.high)}]"
    mark = "†" if point.is_partial else ""
    return Entry(estimate=estimate, text=write(point.estimate.point) + mark, interval=interval)


def _row(line: AxisLine, columns: Sequence[Column]) -> Row:
    is_group = len(line.variants) > 1
    holds = ["holds the baseline"] if line.is_baseline and is_group else []
    return Row(
        name=line.name if is_group else line.variants[0],
        note="; ".join(filter(None, [line.note, *holds])), is_baseline=line.is_baseline,
        entries=tuple(column.entries[line.name] for column in columns),
    )  # fmt: skip


def _footnotes(series: AxisSeries, places: Sequence[float]) -> list[str]:
    found = [_MEANS]
    if any(point.is_partial for line in series.lines for point in line.at.values()):
        found.append(FOOTNOTE.partition(";")[0] + ".")
    if any(is_log_of_zero(series, y) for line in series.lines for y in line.points.values()):
        found.append("−37.93 stands for a gradient of 0, or less than float32 can tell from it.")
    if len(places) < len(series.places):
        found.append(
            f"Shown are {len(places)} of {len(series.places):,} places; results.csv has all."
        )
    return found
