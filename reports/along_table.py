"""What are the numbers along a number? One row a variant or group, one column a place.

Exploratory: means with their intervals, and no verdict.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from reports.along import Along, Line, Spot
from reports.along_figure import (
    axis_in_words,
    figure_name,
    is_nothing,
    is_tall,
    metric_in_words,
    place_in_words,
)
from reports.document import Column, Entry, Row, Table
from reports.stats.intervals import Estimate
from reports.stats.number_format import for_scores
from reports.tables.columns import ARROWS
from reports.tables.comparison import FOOTNOTE

MAX_PLACES = 24
_MINUS = "−"
_Write = Callable[[float], str]
_MEANS = "Means over seeds with their 95 % intervals; exploratory."


def along_table(along: Along) -> Table:
    """Every line; of very many places, evenly spaced ones."""
    places = _shown_places(along.places)
    unit, write = _notation(along)
    columns = tuple(_column(along, place, unit, write) for place in places)
    is_partial = any(spot.is_partial for line in along.lines for spot in line.spots.values())
    return Table(
        name=figure_name(along), title=title_of(along), task=along.task, row_title=along.row_title,
        columns=columns, rows=tuple(_row(line, columns) for line in along.lines),
        footnotes=tuple(_footnotes(along, places, is_partial=is_partial)),
    )  # fmt: skip


def title_of(along: Along) -> str:
    """As a table or an exhibit is called."""
    of = f" ({along.of.replace('=', ' ')})" if along.of else ""
    return f"{metric_in_words(along.metric)}{of} by {axis_in_words(along)}"


def _shown_places(places: Sequence[float]) -> list[float]:
    if len(places) <= MAX_PLACES:
        return list(places)
    last = len(places) - 1
    return [places[round(i * last / (MAX_PLACES - 1))] for i in range(MAX_PLACES)]


def _notation(along: Along) -> tuple[str, _Write]:
    """Unit and spelling, the same for all columns, so that a row can be read along."""
    estimates = [spot.estimate for line in along.lines for spot in line.spots.values()]
    points = [one.point for one in estimates if one.point is not None]
    widths = [one.half_width for one in estimates if one.half_width is not None]
    written = for_scores(along.unit, widths, points)
    return written.unit, _three_digits if points and is_tall(points) else written.write


def _three_digits(value: float) -> str:
    """As ``1.14e-06``: of numbers from 1 down to a millionth no common place would do."""
    return f"{value:.3g}".replace("-", _MINUS, 1) if value < 0 else f"{value:.3g}"


def _column(along: Along, place: float, unit: str, write: _Write) -> Column:
    return Column(
        key=f"{along.metric}_{along.axis}={place:g}",
        title=f"{axis_in_words(along).partition(' (')[0]} {place_in_words(place)}",
        measured_unit=along.unit,
        unit=unit,
        arrow=ARROWS[along.better],
        note="as trained" if place == along.trained_at else "",
        entries={line.name: _entry(line.spots.get(place), write) for line in along.lines},
    )


def _entry(spot: Spot | None, write: _Write) -> Entry:
    if spot is None or spot.estimate.point is None:
        fate = spot.fate if spot else "–"
        return Entry(estimate=Estimate(n=0), text=fate, tone="none")
    estimate, interval = spot.estimate, ""
    if estimate.low is not None and estimate.high is not None:
        interval = f"[{write(estimate.low)}, {write(estimate.high)}]"
    mark = "†" if spot.is_partial else ""
    return Entry(estimate=estimate, text=write(spot.estimate.point) + mark, interval=interval)


def _row(line: Line, columns: Sequence[Column]) -> Row:
    is_group = len(line.variants) > 1
    holds = ["holds the baseline"] if line.is_baseline and is_group else []
    return Row(
        name=line.name if is_group else line.variants[0],
        note="; ".join(filter(None, [line.note, *holds])), is_baseline=line.is_baseline,
        entries=tuple(column.entries[line.name] for column in columns),
    )  # fmt: skip


def _footnotes(along: Along, places: Sequence[float], *, is_partial: bool) -> list[str]:
    found = [_MEANS]
    if is_partial:
        found.append(FOOTNOTE.partition(";")[0] + ".")
    points = [point for line in along.lines for point in line.points.values()]
    if any(is_nothing(along, point) for point in points):
        found.append("−37.93 stands for a gradient of 0, or less than float32 can tell from it.")
    if len(places) < len(along.places):
        found.append(
            f"Shown are {len(places)} of {len(along.places):,} places; results.csv has all."
        )
    return found
