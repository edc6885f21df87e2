"""Shows metrics along a number: a figure each, and the numbers folded below it.

What was measured before and after training are two views of one thing, and so are a score and
those of its parts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from reports.analysis.axis_series import AxisLine, AxisSeries, coordinate_series, label_series
from reports.document import Exhibit, View
from reports.plots.axis_series import axis_figure, figure_name, readable_axis, readable_metric
from reports.plots.style import MAX_LINES, capitalized, listed, readable
from reports.results.numeric_axes import label_axis, number, value_of_baseline
from reports.results.series import Series
from reports.tables.axis_series import axis_table
from suite.schema import About

_STAGES = {"initial_": "before training", "trained_": "after training"}
_WHOLE = "all together"
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
    title = f"{readable_metric(_without_stage(first.metric))} by {axis}"
    if first.is_of_groups:
        title += f", for each {listed(readable(first.row_title).split(', '))}"
    drawn = [(s, one) for s in some if (one := axis_figure(s, _drawn_lines(about, s)))]
    is_split = len(drawn) > 1
    return Exhibit(
        title=capitalized(title),
        sentences=(_EXPLORATORY,),
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
