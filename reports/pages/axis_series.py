"""Shows metrics along a number: a figure each, and a table of the numbers folded below it.

What was measured before and after training are two views of one thing, and so are a score and
those of its parts. Exploratory: means with their intervals, and no verdict.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from reports.analysis.axis_series import (
    AxisLine,
    AxisPoint,
    AxisSeries,
    coordinate_series,
    label_series,
)
from reports.document import Column, Entry, Exhibit, Row, Table, View, capitalized, listed, readable
from reports.plots.axis_series import (
    axis_figure,
    figure_name,
    is_log_of_zero,
    needs_log,
    place_name,
    readable_axis,
    readable_metric,
)
from reports.plots.style import MAX_LINES
from reports.results.axis_values import number, value_of_baseline
from reports.results.series import Series
from reports.results.variant_labels import label_axis
from reports.stats.intervals import as_interval, for_estimates
from reports.tables.comparison import ARROWS, PARTIAL
from suite.schema import LEARNING_RATE, About

_STAGES = {"initial_": "before training", "trained_": "after training"}
_WHOLE = "all together"
_SEARCH = (
    "Each variant is trained at its own best rate, found on the validation split by the mean of "
    "two seeds: rates go on until the best one lies between two that are worse. Trainings of the "
    "search may be shorter; see the settings."
)
_EXPLORATORY = "This is exploratory: the verdict rests on the one claim alone."


def axis_exhibits(about: About, measured: Sequence[Series], task: str) -> Iterator[Exhibit]:
    """One for each metric of a task and each number that it runs along.

    Args:
        about: Gives names, order and the baseline.
        measured: All of the sweep.
        task: Its name.
    """
    found = [*label_series(about, measured, task), *coordinate_series(about, measured, task)]
    together: dict[tuple[str, ...], list[AxisSeries]] = {}
    for series in {figure_name(series): series for series in found}.values():
        key = (series.probe, _without_stage(series.metric), series.axis, series.row_title)
        together.setdefault(key, []).append(series)
    for some in together.values():
        yield _exhibit(about, some)


def _exhibit(about: About, some: Sequence[AxisSeries]) -> Exhibit:
    first = some[0]
    axis = readable_axis(first).partition(" (")[0]
    title = f"{readable_metric(_without_stage(first.metric), first.axis)} by {axis}"
    if first.is_of_groups:
        title += f", for each {listed(readable(first.row_title).split(', '))}"
    drawn = [(s, one) for s in some if (one := axis_figure(s, _drawn_lines(about, s)))]
    is_split, is_search = len(drawn) > 1, first.probe == LEARNING_RATE
    return Exhibit(
        title=capitalized(title),
        sentences=(_SEARCH if is_search else _EXPLORATORY,),
        is_folded=is_search,
        drawings=() if is_split else tuple(drawing for _, drawing in drawn),
        views=tuple(View(title=_view(s), drawings=(one,)) for s, one in drawn if is_split),
        folded=tuple(map(axis_table, some)),
    )


def _drawn_lines(about: About, series: AxisSeries) -> Sequence[AxisLine]:
    """All lines; of too many those that share the baseline's number, where labels name one."""
    axis = label_axis(about, series.task)
    if len(series.lines) <= MAX_LINES or series.is_of_groups or axis is None:
        return series.lines
    wanted = number(value_of_baseline(about, axis.name))
    alike = {group.variants.get(wanted, "") for group in axis.groups} if wanted is not None else ()
    return [line for line in series.lines if line.variants[0] in alike] or series.lines


def _without_stage(metric: str) -> str:
    """Without the word for when it was measured."""
    stage = next((word for word in _STAGES if metric.startswith(word)), "")
    return metric.removeprefix(stage)


def _view(series: AxisSeries) -> str:
    """As on its button."""
    stage = next((text for word, text in _STAGES.items() if series.metric.startswith(word)), "")
    part = readable(series.of.replace("=", " ")) or ("" if stage else _WHOLE)
    return ", ".join(filter(None, [stage, part]))


MAX_PLACES = 24
_MINUS = "−"
_Write = Callable[[float], str]
_OVER_SENTENCES = (
    "After “sentences” stand the ends of the 95 % bootstrap interval over the sentences of the "
    "part, each the mean over seeds: what other sentences would change, and not another seed."
)
_MEANS = "Means over seeds with their 95 % intervals; exploratory."


def axis_table(series: AxisSeries) -> Table:
    """Every line; of very many places, evenly spaced ones."""
    places = _shown_places(series.places)
    unit, write = _notation(series)
    columns = tuple(_column(series, place, unit, write) for place in places)
    of = f" ({series.of.replace('=', ' ')})" if series.of else ""
    return Table(
        name=figure_name(series),
        task=series.task,
        row_title=series.row_title,
        title=f"{readable_metric(series.metric, series.axis)}{of} by {readable_axis(series)}",
        columns=columns,
        rows=tuple(_row(line, columns) for line in series.lines),
        footnotes=tuple(_footnotes(series, places)),
    )


def _shown_places(places: Sequence[float]) -> list[float]:
    if len(places) <= MAX_PLACES:
        return list(places)
    last = len(places) - 1
    return [places[round(i * last / (MAX_PLACES - 1))] for i in range(MAX_PLACES)]


def _notation(series: AxisSeries) -> tuple[str, _Write]:
    """Unit and spelling, the same for all columns, so that a row can be read along."""
    points = [point for line in series.lines for point in line.points.values()]
    every = (there.estimate for line in series.lines for there in line.at.values())
    written = for_estimates(series.unit, every)
    return written.unit, _three_digits if points and needs_log(points) else written.write


def _three_digits(value: float) -> str:
    """As ``1.14e-06``: of numbers from 1 down to a millionth no common place would do."""
    return f"{value:.3g}".replace("-", _MINUS, 1) if value < 0 else f"{value:.3g}"


def _column(series: AxisSeries, place: float, unit: str, write: _Write) -> Column:
    return Column(
        key=f"{series.metric}_{series.axis}={place:g}",
        title=f"{readable_axis(series).partition(' (')[0]} {place_name(series, place)}",
        measured_unit=series.unit,
        unit=unit,
        arrow=ARROWS[series.better],
        note=_column_note(series, place),
        entries={
            line.name: _entry(line.at.get(place), write, has_sentences=place in series.counts)
            for line in series.lines
        },
    )


def _column_note(series: AxisSeries, place: float) -> str:
    trained = "as trained" if place == series.trained_at else ""
    count = series.counts.get(place)
    return "; ".join(filter(None, [trained, f"{count:,} sentences" if count else ""]))


def _entry(point: AxisPoint | None, write: _Write, *, has_sentences: bool) -> Entry:
    if point is None or point.estimate.point is None:
        return Entry(text=point.fate if point else "–", tone="none")
    within = ""
    if has_sentences and point.spread:
        low, high = point.spread
        within = f"sentences [{write(low)}, {write(high)}]"
    return Entry(
        estimate=point.estimate,
        text=write(point.estimate.point),
        note=within,
        interval=as_interval(point.estimate, write),
        marks=(PARTIAL,) if point.is_partial else (),
    )


def _row(line: AxisLine, columns: Sequence[Column]) -> Row:
    is_group = len(line.variants) > 1
    holds = ["holds the baseline"] if line.is_baseline and is_group else []
    return Row(
        name=line.name if is_group else line.variants[0],
        note="; ".join(filter(None, [line.note, *holds])),
        is_baseline=line.is_baseline,
        entries=tuple(column.entries[line.name] for column in columns),
    )


def _footnotes(series: AxisSeries, places: Sequence[float]) -> list[str]:
    found = [_MEANS]
    has_spreads = any(there.spread for line in series.lines for there in line.at.values())
    if series.counts and has_spreads:
        found.append(_OVER_SENTENCES)
    if any(is_log_of_zero(series, y) for line in series.lines for y in line.points.values()):
        found.append("−37.93 stands for a gradient of 0, or less than float32 can tell from it.")
    if len(places) < len(series.places):
        found.append(
            f"Shown are {len(places)} of {len(series.places):,} places; results.csv has all."
        )
    return found
