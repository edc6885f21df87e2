"""Draws a line chart from a description of its lines, marks and axes.

The name of a line stands beside the plot, at the height of its end, never over data and never over
another name.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, Locator, MaxNLocator, NullLocator

from reports.document import Drawing
from reports.plots.style import drawing_style, label, line_look, marker, to_svg
from reports.results.variant_labels import MAX_LETTERS
from reports.stats.intervals import Estimate

Look = Mapping[str, Any]  # as matplotlib's `plot` takes it
_MAX_TICKS = 9
_GAP = 0.068  # between two names of one line, of the height of the plot
_LINE = 0.045  # what every further line of a name takes
_OF_DATA = ("zorder", "scalex", "scaley")  # of a look, what does not hold beside the plot


@dataclass(frozen=True, kw_only=True)
class PlotAxis:
    """One axis of a chart.

    Attributes:
        limits: None leaves an end to the data.
        ticks: None puts them at round numbers.
        write: What stands at a tick; None leaves that to matplotlib.
        rule: Where a line crosses this axis and the whole plot, and its look.
        rule_name: Stands at the end of that line.
    """

    title: str
    is_log: bool = False
    limits: tuple[float | None, float | None] = (None, None)
    ticks: Locator | None = None
    write: Callable[[float], str] | None = None
    rule: tuple[float, Look] | None = None
    rule_name: str = ""


@dataclass(frozen=True, kw_only=True)
class Stroke:
    """Points, joined or marked as `look` says.

    Attributes:
        name: Stands beside its end; empty for none.
        name_look: Of what stands before the name; by default `look`.
    """

    x: Sequence[float]
    y: Sequence[float]
    look: Look
    name: str = ""
    name_look: Look | None = None


@dataclass(frozen=True, kw_only=True)
class ChartLine:
    """Estimates along the horizontal axis, joined, and the name of that line.

    Attributes:
        index: Says which colour, dashes and marker it has.
        estimates: Place -> estimate that has a point; places ascending.
        hollow: The places whose points are hollow.
        mark: Stands after the name, however short that must be cut.
        below: Drawn before the line.
        above: Drawn after it.
    """

    name: str
    index: int
    is_baseline: bool
    estimates: Mapping[float, Estimate]
    hollow: Collection[float] = ()
    mark: str = ""
    below: Sequence[Stroke] = ()
    above: Sequence[Stroke] = ()

    @property
    def points(self) -> dict[float, float]:
        """Place -> number."""
        return {at: e.point for at, e in self.estimates.items() if e.point is not None}

    @property
    def ends(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """The first and the last point: place, number."""
        points = list(self.points.items())
        return points[0], points[-1]

    @property
    def intervals(self) -> dict[float, tuple[float, float]]:
        """Place -> low, high, where there is an interval."""
        ends = {at: (e.low, e.high) for at, e in self.estimates.items()}
        return {at: (a, b) for at, (a, b) in ends.items() if a is not None and b is not None}


@dataclass(frozen=True, kw_only=True)
class LineStyle:
    """How the lines of one chart are drawn.

    Attributes:
        line: Of every line but the baseline's.
        band: Of the area that intervals make; without it there is none.
        bars: Of a bar over each interval; without it there are none.
        point_size: Of points on the line; 0 draws none.
    """

    line: Look = field(default_factory=dict)
    baseline: Look = field(default_factory=dict)
    has_markers: bool = False
    band: Look | None = None
    bars: Look | None = None
    point_size: float = 0.0

    def of(self, line: ChartLine) -> Look:
        """The look of a line."""
        shape = {"marker": marker(line.index), "markersize": 4} if self.has_markers else {}
        own = self.baseline if line.is_baseline else self.line
        return {**line_look(line.index), **shape, **own}


@dataclass(frozen=True, kw_only=True)
class LineChart:
    """A chart as `draw` takes it.

    Attributes:
        name: Of its file and ids, distinct within a report.
        description: The same in words, for those who cannot see it.
        height: In inches.
        strokes: Drawn after the lines.
    """

    name: str
    title: str
    caption: str
    description: str
    height: float
    x: PlotAxis
    y: PlotAxis
    grid: Literal["both", "y"] = "both"
    style: LineStyle = LineStyle()
    lines: Sequence[ChartLine] = ()
    strokes: Sequence[Stroke] = ()


def draw(chart: LineChart) -> Drawing:
    """The chart as SVG."""
    with drawing_style():
        names = list(_names(chart))
        crowd = max(1.0, sum(_room(text) for _, text, _ in names))
        figure = Figure(figsize=(7.2, chart.height * crowd), layout="constrained")
        axes = figure.add_subplot()
        axes.set_xscale("log" if chart.x.is_log else "linear")
        axes.set_yscale("log" if chart.y.is_log else "linear")
        for axis, across in ((chart.x, axes.axvline), (chart.y, axes.axhline)):
            if axis.rule:
                across(axis.rule[0], **axis.rule[1])
        for line in chart.lines:
            _draw_line(axes, line, chart.style)
        _draw_strokes(axes, chart.strokes)
        _draw_axes(axes, chart)
        _write_names(axes, names)
        svg = to_svg(figure, name=chart.name, title=chart.title, description=chart.description)
    return Drawing(name=chart.name, title=chart.title, caption=chart.caption, svg=svg)


def evenly_spaced(places: Sequence[float]) -> FixedLocator:
    """Ticks at places where something was measured, of many at every second, third and so on."""
    return FixedLocator(places[:: math.ceil(len(places) / _MAX_TICKS)])


def spread(heights: Sequence[float], rooms: Sequence[float] = ()) -> list[float]:
    """Descending heights, moved apart as far as names need, as near to where they were as fits.

    Args:
        heights: From 1 at the top of the plot to 0 at its bottom.
        rooms: What each name takes of that; by default one line each.
    """
    rooms = rooms or [_GAP] * len(heights)
    gaps = [(above + below) / 2 for above, below in pairwise(rooms)]
    placed = list(heights)
    for index, gap in enumerate(gaps):
        placed[index + 1] = min(placed[index + 1], placed[index] - gap)
    lowest = 0.0
    for index in reversed(range(len(placed))):
        placed[index] = max(placed[index], lowest)
        lowest = placed[index] + (gaps[index - 1] if index else 0.0)
    return placed


def _room(name: str) -> float:
    """Of the height of the plot, for as many lines as the name has."""
    return _GAP + _LINE * name.count("\n")


def _draw_line(axes: Axes, line: ChartLine, style: LineStyle) -> None:
    """From below to above: band, line, bars, points."""
    colour, intervals = line_look(line.index)["color"], line.intervals
    if style.band and intervals:
        low, high = zip(*intervals.values(), strict=True)
        axes.fill_between(list(intervals), low, high, color=colour, linewidth=0, **style.band)
    _draw_strokes(axes, line.below)
    if line.points:
        axes.plot(list(line.points), list(line.points.values()), **style.of(line))
    if style.bars:
        for place, ends in intervals.items():
            if min(ends) > 0:  # else a logarithmic axis cannot hold it
                axes.plot([place, place], ends, color=colour, linewidth=1.1, **style.bars)
    if style.point_size:
        for is_hollow in (True, False):
            points = {x: y for x, y in line.points.items() if (x in line.hollow) == is_hollow}
            axes.plot(
                list(points),
                list(points.values()),
                linestyle="none",
                marker="o",
                markersize=style.point_size,
                markerfacecolor="white" if is_hollow else colour,
                markeredgecolor=colour,
                zorder=4,
            )
    _draw_strokes(axes, line.above)


def _draw_strokes(axes: Axes, strokes: Sequence[Stroke]) -> None:
    for stroke in strokes:
        axes.plot(stroke.x, stroke.y, **stroke.look)


def _draw_axes(axes: Axes, chart: LineChart) -> None:
    axes.set_xlim(*chart.x.limits)
    axes.set_ylim(*chart.y.limits)
    for drawn, axis in ((axes.xaxis, chart.x), (axes.yaxis, chart.y)):
        drawn.set_major_locator(axis.ticks or MaxNLocator(6))
        drawn.set_minor_locator(NullLocator())
        if axis.write:
            drawn.set_major_formatter(_formatter(axis.write))
        drawn.set_label_text(label(axis.title, width=72))
    axes.grid(axis=chart.grid)
    if chart.x.rule and chart.x.rule_name:
        axes.annotate(
            chart.x.rule_name,
            (chart.x.rule[0], 1.0),
            xytext=(4, -2),
            va="top",
            xycoords=("data", "axes fraction"),
            textcoords="offset points",
            fontsize=8,
            color="#5f6368",
        )


def _formatter(write: Callable[[float], str]) -> FuncFormatter:
    return FuncFormatter(lambda value, _: write(value))


def _names(chart: LineChart) -> Iterator[tuple[float, str, Look]]:
    """Where each line ends, what stands beside it, and the look of the stroke before that."""
    for line in chart.lines:
        if line.points:
            name = label(line.name, width=MAX_LETTERS) + line.mark
            yield line.ends[1][1], name, chart.style.of(line)
    strokes = [stroke for line in chart.lines for stroke in line.above]
    for stroke in (*strokes, *chart.strokes):
        if stroke.name:
            name = label(stroke.name, width=MAX_LETTERS)
            yield stroke.y[-1], name, stroke.name_look or stroke.look
    if chart.y.rule and chart.y.rule_name:
        yield chart.y.rule[0], chart.y.rule_name, chart.y.rule[1]


def _write_names(axes: Axes, names: Sequence[tuple[float, str, Look]]) -> None:
    """At the right edge, near the ends of their lines, from top to bottom."""
    heights = [min(max(_height(axes, end), 0.0), 1.0) for end, _, _ in names]
    ordered = sorted(zip(heights, names, strict=True), key=lambda one: -one[0])
    rooms = [_room(text) for _, (_, text, _) in ordered]
    free = spread([height for height, _ in ordered], rooms)
    for height, (_, (_, text, look)) in zip(free, ordered, strict=True):
        shown = {key: value for key, value in look.items() if key not in _OF_DATA}
        axes.plot([1.02, 1.06], [height] * 2, transform=axes.transAxes, clip_on=False, **shown)
        axes.text(1.075, height, text, transform=axes.transAxes, va="center", fontsize=9)


def _height(axes: Axes, value: float) -> float:
    """From 0 at the bottom of the plot to 1 at the top."""
    scaled = math.log if axes.get_yscale() == "log" else float
    low, high = map(scaled, axes.get_ylim())
    return (scaled(value) - low) / (high - low)
