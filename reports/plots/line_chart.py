"""Draw a line chart from a description of its lines, marks and axes.

The name of each line is beside the plot, near the height of the line's end, so that it never
overlaps data or other names.
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

from bakeoff.reports.document import Drawing
from bakeoff.reports.plots.style import drawing_style, label, line_look, marker, to_svg
from bakeoff.reports.results.variant_labels import MAX_LETTERS
from bakeoff.reports.stats.intervals import Estimate

Look = Mapping[str, Any]  # keyword arguments of matplotlib's `plot`
_MAX_TICKS = 9
_GAP = 0.068  # height of a name, as a share of the height of the plot
_LINE = 0.045  # additional height for each further line of a name
_OF_DATA = ("zorder", "scalex", "scaley")  # keys of a look that do not apply beside the plot


@dataclass(frozen=True, kw_only=True)
class PlotAxis:
    """One axis of a chart.

    Attributes:
        limits: The ends of the axis, each of them a value or None to fit the data.
        ticks: The locator of the ticks; by default at round numbers.
        write: The formatter of the ticks; by default matplotlib's.
        rule: The position and look of a line across the whole plot, at a value of this axis.
        rule_name: The name of that line, written at its end.
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
    """Points, drawn as a line or as markers depending on `look`.

    Attributes:
        name: The name beside the end of the stroke, or empty.
        name_look: The look of the sample before the name; by default `look`.
    """

    x: Sequence[float]
    y: Sequence[float]
    look: Look
    name: str = ""
    name_look: Look | None = None


@dataclass(frozen=True, kw_only=True)
class ChartLine:
    """A named line through estimates.

    Attributes:
        name: The name beside its end; empty for the only line of a chart.
        index: The number that determines colour, dashes and marker.
        estimates: Position -> estimate, with positions in ascending order.
        hollow: The positions whose points are hollow.
        mark: A mark after the name, which is kept even if the name is cut.
        below: Strokes drawn before the line.
        above: Strokes drawn after the line.
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
        """Position -> value."""
        return {at: e.point for at, e in self.estimates.items() if e.point is not None}

    @property
    def ends(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """The position and value of the first and the last point."""
        points = list(self.points.items())
        return points[0], points[-1]

    @property
    def intervals(self) -> dict[float, tuple[float, float]]:
        """Position -> lower and upper end, for estimates that have an interval."""
        ends = {at: (e.low, e.high) for at, e in self.estimates.items()}
        return {at: (a, b) for at, (a, b) in ends.items() if a is not None and b is not None}


@dataclass(frozen=True, kw_only=True)
class LineStyle:
    """The style of the lines of one chart.

    Attributes:
        line: The look of every line but the baseline's.
        baseline: The look of the baseline's line.
        has_markers: True if lines have markers.
        band: The look of the area of intervals, or None to draw none.
        bars: The look of a bar for each interval, or None to draw none.
        point_size: The size of points on the line; 0 draws none.
    """

    line: Look = field(default_factory=dict)
    baseline: Look = field(default_factory=dict)
    has_markers: bool = False
    band: Look | None = None
    bars: Look | None = None
    point_size: float = 0.0

    def of(self, line: ChartLine) -> Look:
        """Return the look of a line."""
        shape = {"marker": marker(line.index), "markersize": 4} if self.has_markers else {}
        own = self.baseline if line.is_baseline else self.line
        return {**line_look(line.index), **shape, **own}


@dataclass(frozen=True, kw_only=True)
class LineChart:
    """The description of a chart, as an argument of `draw`.

    Attributes:
        name: The name of the file, and the prefix of its ids; distinct within a report.
        description: The chart in words, for readers who cannot see it.
        height: The height in inches.
        strokes: Strokes drawn after the lines.
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
    """Draw the chart as SVG."""
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
    """Return ticks at measured positions; if there are many, at every second, third and so on."""
    return FixedLocator(places[:: math.ceil(len(places) / _MAX_TICKS)])


def spread(heights: Sequence[float], rooms: Sequence[float] = ()) -> list[float]:
    """Move descending heights apart, so that names do not overlap, and as little as possible.

    Args:
        heights: Heights from 1 at the top of the plot to 0 at its bottom.
        rooms: The space of each name in the same unit; by default that of one line.
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
    """Return the space of a name with all its lines, as a share of the height of the plot."""
    return _GAP + _LINE * name.count("\n")


def _draw_line(axes: Axes, line: ChartLine, style: LineStyle) -> None:
    """Draw the band, the line, the bars and the points, in this order."""
    colour, intervals = line_look(line.index)["color"], line.intervals
    if style.band and intervals:
        low, high = zip(*intervals.values(), strict=True)
        axes.fill_between(list(intervals), low, high, color=colour, linewidth=0, **style.band)
    _draw_strokes(axes, line.below)
    if line.points:
        axes.plot(list(line.points), list(line.points.values()), **style.of(line))
    if style.bars:
        for place, ends in intervals.items():
            if min(ends) > 0:  # a logarithmic axis cannot show other values
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
    """Yield the value at the end of each line, its label, and the look of the sample before it."""
    for line in chart.lines:
        if line.points and line.name:
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
    """Write the names at the right edge, near the ends of their lines, from top to bottom."""
    heights = [min(max(_height(axes, end), 0.0), 1.0) for end, _, _ in names]
    ordered = sorted(zip(heights, names, strict=True), key=lambda one: -one[0])
    rooms = [_room(text) for _, (_, text, _) in ordered]
    free = spread([height for height, _ in ordered], rooms)
    for height, (_, (_, text, look)) in zip(free, ordered, strict=True):
        shown = {key: value for key, value in look.items() if key not in _OF_DATA}
        ends = [1.04] if look.get("linestyle") == "none" else [1.02, 1.06]
        places = [height] * len(ends)
        axes.plot(ends, places, transform=axes.transAxes, clip_on=False, **shown)
        axes.text(1.075, height, text, transform=axes.transAxes, va="center", fontsize=9)


def _height(axes: Axes, value: float) -> float:
    """Return the height of a value, from 0 at the bottom of the plot to 1 at the top."""
    scaled = math.log if axes.get_yscale() == "log" else float
    low, high = map(scaled, axes.get_ylim())
    return (scaled(value) - low) / (high - low)
