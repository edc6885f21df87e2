"""Draws a metric along a number: a line a variant or group, and around it the 95 % interval.

An axis is logarithmic where its numbers span much. Kinds in no order are not joined: their points
stand side by side.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from matplotlib.ticker import LogLocator

from reports.analysis.axis_series import LENGTH, AxisLine, AxisSeries
from reports.document import Drawing, capitalized, readable
from reports.escape import slug
from reports.plots.line_chart import (
    ChartLine,
    LineChart,
    LineStyle,
    PlotAxis,
    Stroke,
    draw,
    evenly_spaced,
)
from reports.plots.style import GREY, MAX_LINES, axis_title, caption, label

_LOG = "_log10"
_LOG_OF_ZERO = -37.9  # the smallest normal number of float32, which stands for 0
_WIDE, _TALL = 4.0, 1000.0  # times between least and most, from where on an axis is logarithmic
_MAX_SPOKEN = 4  # places of a line that are read aloud; of more, the ends
_ROOM = 0.08  # of the range of the means, beyond them
_MOST_ROOM = 0.5  # the same, for bands
_STYLE = LineStyle(
    line={"linewidth": 1.6, "zorder": 3},
    baseline={"linewidth": 2.8, "zorder": 4},
    has_markers=True,
    band={"alpha": 0.12, "zorder": 1.5},
)
_DASHED = {"color": GREY, "linewidth": 1.0, "linestyle": (0, (5, 4)), "zorder": 1}
_STYLE_OF_KINDS = LineStyle(
    line={"linestyle": "none", "zorder": 3},
    baseline={"linestyle": "none", "zorder": 4, "markersize": 7},
    has_markers=True,
    bars={"zorder": 2},
)
_SIDE_BY_SIDE = 0.6  # of the distance between two kinds, what all points of one take at most
_APART = 0.14  # of that distance, between two points
_AXIS_NAMES = {
    LENGTH: "length (tokens)",
    "distance": "distance (tokens)",
    "dim": "width",
    "key_dim": "d_k (width of queries and keys)",
    "pairs": "pairs to recall",
}


def axis_figure(series: AxisSeries, shown: Sequence[AxisLine]) -> Drawing | None:
    """The lines that are to be shown, at most `MAX_LINES`; None where none has two points.

    Args:
        series: What is drawn.
        shown: Those of its lines that a reader can tell apart.
    """
    lines = [
        ChartLine(
            name=line.name,
            index=line.index,
            is_baseline=line.is_baseline,
            estimates={place: line.at[place].estimate for place in line.points},
        )
        for line in shown
        if line.points
    ][:MAX_LINES]
    if not any(len(line.points) > 1 for line in lines):
        return None
    title = capitalized(
        f"{readable_metric(series.metric, series.axis)} against {readable_axis(series)}"
    )
    part = f", {readable(series.of).replace('=', ' ')}" if series.of else ""
    return draw(
        LineChart(
            name=figure_name(series),
            title=f"{title.partition(' (tokens)')[0]} on {series.task}{part}",
            caption=_caption(series, lines),
            description=_describe(series, lines),
            height=4.2,
            x=_x_axis(series, lines),
            y=_y_axis(series, lines),
            style=_STYLE_OF_KINDS if series.has_kinds else _STYLE,
            lines=_side_by_side(lines) if series.has_kinds else lines,
            strokes=(_wanted(series),) if series.is_aimed_at else (),
        )
    )


def _wanted(series: AxisSeries) -> Stroke:
    """Where each number is what it should be."""
    ends = (min(series.places), max(series.places))
    return Stroke(x=ends, y=ends, look=_DASHED, name="as asked")


def _side_by_side(lines: Sequence[ChartLine]) -> list[ChartLine]:
    """Moved apart a little, so that no point hides another."""
    apart = min(_APART, _SIDE_BY_SIDE / len(lines))
    moved = [apart * (index - (len(lines) - 1) / 2) for index in range(len(lines))]
    return [
        replace(line, estimates={place + by: e for place, e in line.estimates.items()})
        for line, by in zip(lines, moved, strict=True)
    ]


def readable_metric(metric: str, axis: str) -> str:
    """As ``attention entropy``: its unit says that it is a logarithm, the axis by what it goes."""
    return readable(metric.removesuffix(_LOG).removesuffix(f"_by_{axis}"))


def readable_axis(series: AxisSeries) -> str:
    """As a reader knows it: ``width``, ``distance (tokens)``."""
    tested = "test " if series.trained_at is not None else ""
    named = series.titles.get(series.axis) or _AXIS_NAMES.get(series.axis, readable(series.axis))
    return tested + named


def place_name(series: AxisSeries, place: float) -> str:
    """As the task names it, ``11 to 20``; else as a number."""
    return series.title_of(place) or readable_place(place)


def readable_place(place: float) -> str:
    """As ``1,024`` or ``0.003``."""
    return f"{place:,.0f}" if place.is_integer() and abs(place) < 1e9 else f"{place:g}"


def figure_name(series: AxisSeries) -> str:
    """Of its file and ids, distinct within a report."""
    how = "by" if series.is_of_groups else "along"
    of = f"-of-{series.of.replace('=', '-')}" if series.of else ""
    return slug(f"{series.task}-{series.metric}-{how}-{series.axis}{of}")


def needs_log(values: Sequence[float]) -> bool:
    """Whether numbers span so much that only a logarithmic axis shows them all."""
    return min(values) > 0 and max(values) > _TALL * min(values)


def is_log_of_zero(series: AxisSeries, value: float) -> bool:
    """Whether it stands for a logarithm of 0, which would press all else together."""
    return series.metric.endswith(_LOG) and value <= _LOG_OF_ZERO


def _x_axis(series: AxisSeries, lines: Sequence[ChartLine]) -> PlotAxis:
    places = [place for line in lines for place in line.points]
    is_wide = min(places) > 0 and max(places) >= _WIDE * min(places) and not series.is_aimed_at
    return PlotAxis(
        title=readable_axis(series),
        is_log=is_wide and not series.has_named_places,
        ticks=evenly_spaced(series.places),
        write=lambda place: place_name(series, place),
        rule=None if series.trained_at is None else (series.trained_at, _DASHED),
        rule_name="trained at this length",
    )


def _y_axis(series: AxisSeries, lines: Sequence[ChartLine]) -> PlotAxis:
    """Logarithmic where that shows more, with room for the means and for most of the bands."""
    values = [v for line in lines for v in line.points.values() if not is_log_of_zero(series, v)]
    bands = [end for line in lines for ends in line.intervals.values() for end in ends]
    ends = [end for end in bands if not is_log_of_zero(series, end)]
    values = [*values, *(series.places if series.is_aimed_at else ())] or [_LOG_OF_ZERO]
    named = axis_title(readable_metric(series.metric, series.axis), series.unit, series.better)
    title = label(named, width=60)
    if series.is_aimed_at or not needs_log(values):
        return PlotAxis(title=title, limits=_limits(values, ends))
    low, high = _limits([*map(math.log, values)], [math.log(end) for end in ends if end > 0])
    return PlotAxis(
        title=title,
        is_log=True,
        limits=(math.exp(low), math.exp(high)),
        ticks=LogLocator(base=10, numticks=9),
        write=lambda y: f"{y:g}",
    )


def _limits(values: Sequence[float], ends: Sequence[float]) -> tuple[float, float]:
    """Below the least and above the most, bands among them as long as they leave room."""
    low, high = min(values), max(values)
    size = high - low or abs(high) or 1.0
    bottom = max(min([low, *ends]), low - _MOST_ROOM * size) - _ROOM * size
    top = min(max([high, *ends]), high + _MOST_ROOM * size) + _ROOM * size
    return bottom, top


def _describe(series: AxisSeries, lines: Sequence[ChartLine]) -> str:
    """Where each line runs, in words."""
    unit = "" if series.unit == "1" else f" {series.unit}"
    parts = []
    for line in lines:
        points = list(line.points.items())
        chosen = points if len(points) <= _MAX_SPOKEN else line.ends
        values = [f"{value:.4g}{unit} at {place_name(series, place)}" for place, value in chosen]
        parts.append(f"{line.name}: {', '.join(values)}")
    return f"By {readable_axis(series)}. {'; '.join(parts)}."


def _caption(series: AxisSeries, lines: Sequence[ChartLine]) -> str:
    has_intervals, are_kinds = any(line.intervals for line in lines), series.has_kinds
    has_baseline = any(line.is_baseline for line in lines)
    num_all, num_drawable = len(series.lines), sum(bool(line.points) for line in series.lines)
    return caption(
        {
            "Points are means over seeds.": not has_intervals,
            "Points are means over seeds, bars their 95 % intervals.": has_intervals and are_kinds,
            "Points are means over seeds, bands their 95 % intervals, cut where they are wide.": (
                has_intervals and not are_kinds
            ),
            "The large points are of the baseline.": has_baseline and are_kinds,
            "The baseline is on the thick line.": has_baseline
            and series.is_of_groups
            and not are_kinds,
            "The thick line is the baseline.": has_baseline
            and not series.is_of_groups
            and not are_kinds,
            "On the dashed line the number is what was asked for.": series.is_aimed_at,
            "A line that leaves at the bottom has come to nothing that float32 can hold.": any(
                is_log_of_zero(series, y) for line in lines for y in line.points.values()
            ),
            f"Drawn are {len(lines)} of {num_drawable} lines; the table has them all.": len(lines)
            < num_drawable,
            f"{num_all - num_drawable} of {num_all} have no number.": num_all > num_drawable,
        }
    )
