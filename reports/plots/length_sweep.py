"""Draw time and memory of mixers alone against length, both directly and relative to the baseline.

Both axes are logarithmic: a power of the length is a straight line whose slope is the exponent.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from matplotlib.ticker import LogLocator

from bakeoff.reports.analysis.crossover import Crossover, crossover
from bakeoff.reports.analysis.time_comparison import compare
from bakeoff.reports.document import Drawing
from bakeoff.reports.escape import slug
from bakeoff.reports.plots.line_chart import (
    ChartLine,
    LineChart,
    LineStyle,
    PlotAxis,
    Stroke,
    draw,
    evenly_spaced,
)
from bakeoff.reports.plots.style import GREY, INK, MAX_LINES, caption, label, line_look, with_unit
from bakeoff.reports.results.length_sweep import Growth
from bakeoff.reports.results.reading import median_of
from bakeoff.reports.results.spoken_names import baseline_in_words, shown_name, shown_names
from bakeoff.reports.stats.intervals import Estimate, as_ratio
from bakeoff.suite.schema import MIXER_ALONE, About

_GUIDES = {1: ("grows with n", (0, (1, 1.6))), 2: ("grows with n²", (0, (5, 2, 1, 2)))}
_EVEN = {"color": INK, "linestyle": "-", "linewidth": 1.3, "zorder": 2}
_ROOM, _RATIO_ROOM = 1.5, 1.25  # factors beyond the outermost number
_Y_TITLES = {"s": "time, lower is better", "B": "peak memory, lower is better", "FLOP": "FLOPs"}
_LINE, _BASELINE = {"linewidth": 1.7, "zorder": 3}, {"linewidth": 2.8, "zorder": 3}
_BARS = {"marker": "_", "markersize": 6, "zorder": 3}
_STYLE = LineStyle(line=_LINE, baseline=_BASELINE, bars=_BARS, point_size=4.5)
_RATIO_STYLE = LineStyle(line=_LINE, bars={"zorder": 2}, point_size=4)


def growth_figure(about: About, growth: Growth, title: str) -> Drawing | None:
    """Draw the metric of every variant against the axis.

    Args:
        about: The sweep, which gives names and order.
        growth: The numbers to draw.
        title: The title under the figure, without a full stop.

    Returns:
        The figure, or None if no variant has two points.
    """
    lines = _lines(about, growth)
    if not any(len(line.points) > 1 for line in lines):
        return None
    values = [value for line in lines for value in line.points.values()]
    low = min(values) / _ROOM
    guides = _guides(lines, low * 1.15)
    return draw(
        LineChart(
            name=slug(f"{MIXER_ALONE}-{growth.metric}-by-{growth.axis}"),
            title=title,
            caption=_caption(growth, lines),
            description=_describe(growth, lines),
            height=4.6,
            x=_places_axis(growth),
            style=_STYLE,
            lines=lines,
            strokes=guides,
            y=PlotAxis(
                title=label(_Y_TITLES.get(growth.unit, growth.unit)),
                is_log=True,
                limits=(low, max(values) * _ROOM),
                write=lambda y: with_unit(growth.unit, y),
                ticks=LogLocator(base=16 if growth.unit == "B" else 10, numticks=9),
            ),
        )
    )


def crossover_figure(about: About, growth: Growth, what: str) -> Drawing | None:
    """Draw times relative to the baseline's, and mark each crossover with its interval at 1.

    Args:
        about: The sweep, which gives names, order and the baseline.
        growth: Times by length, in one environment.
        what: The name of the timed operation, such as ``forward and backward``.

    Returns:
        The figure, or None if no variant but the baseline has two points.
    """
    lines = _lines(about, growth, is_ratio=True)
    if not any(len(line.points) > 1 for line in lines):
        return None
    variants = [about.variants[line.index] for line in lines]
    crossings = [crossover(growth, each, about.baseline) for each in variants]
    values = [1.0, *(value for line in lines for value in line.points.values())]
    is_wide = max(values) > 100 * min(values)
    return draw(
        LineChart(
            name=slug(f"{MIXER_ALONE}-{growth.metric}-ratio-by-{growth.axis}"),
            title=f"Time of {what}, as a multiple of the baseline’s, against length",
            caption=_ratio_caption(about, growth, lines, crossings),
            description=_describe_ratios(lines, crossings),
            height=4.4,
            x=_places_axis(growth),
            y=PlotAxis(
                title=label(f"times as long as {shown_name(about, about.baseline)}", width=52),
                is_log=True,
                limits=(min(values) / _RATIO_ROOM, max(values) * _RATIO_ROOM),
                ticks=LogLocator(subs=(1.0,) if is_wide else (1.0, 2.0, 5.0)),
                write=lambda y: f"{y:g}",
                rule=(1.0, _EVEN),
                rule_name="1: as long as the baseline",
            ),
            style=_RATIO_STYLE,
            lines=[
                replace(line, above=tuple(_diamond(line, crossing.place)))
                for line, crossing in zip(lines, crossings, strict=True)
            ],
        )
    )


def _lines(about: About, growth: Growth, *, is_ratio: bool = False) -> list[ChartLine]:
    """Return the lines of the first variants with positive numbers (or ratios to the baseline)."""
    found, names = [], shown_names(about)
    for index, variant in enumerate(about.variants):
        timed = (variant, about.baseline) if is_ratio else (variant,)
        estimates: dict[float, Estimate] = {}
        for place in growth.places:
            readings = [growth.of(one, place) for one in timed]
            estimate = compare(readings[0], readings[1]).ratio if is_ratio else median_of(*readings)
            if estimate.point and estimate.point > 0:
                estimates[place] = estimate
        hollow = [at for at in growth.places if any(growth.is_noisy(v, at) for v in timed)]
        is_baseline = variant == about.baseline
        if estimates and not (is_ratio and is_baseline):
            line = ChartLine(
                name=names[variant],
                index=index,
                is_baseline=is_baseline,
                estimates=estimates,
                hollow=estimates.keys() & hollow,
            )
            found.append(line)
    return found[:MAX_LINES]


def _diamond(line: ChartLine, place: Estimate | None) -> Iterator[Stroke]:
    """Yield a diamond where the line crosses 1, and a bar over the interval of that length."""
    if place is None or place.point is None:
        return
    colour = line_look(line.index)["color"]
    if place.low is not None and place.high is not None:
        bar = {"linewidth": 8, "alpha": 0.4, "zorder": 5, "solid_capstyle": "butt"}
        yield Stroke(x=[place.low, place.high], y=[1.0, 1.0], look={"color": colour, **bar})
    shape = {"marker": "D", "markersize": 4.5, "markeredgewidth": 1.8, "zorder": 6}
    edge = {"markerfacecolor": "white", "markeredgecolor": colour}
    yield Stroke(x=[place.point], y=[1.0], look=shape | edge)


def _guides(lines: Sequence[ChartLine], bottom: float) -> list[Stroke]:
    """Return grey lines from the lower left corner that show growth with n and with n²."""
    places = [place for line in lines for place in line.points]
    first, last = min(places), max(places)
    fixed = {"color": GREY, "linewidth": 1.1, "zorder": 1, "scalex": False, "scaley": False}
    return [
        Stroke(
            x=[first, last],
            y=[bottom, bottom * (last / first) ** power],
            look=fixed | {"linestyle": dashes},
            name=name,
        )
        for power, (name, dashes) in _GUIDES.items()
    ]


def _places_axis(growth: Growth) -> PlotAxis:
    return PlotAxis(
        title="length (tokens)" if growth.axis == "length" else "width",
        is_log=True,
        ticks=evenly_spaced(growth.places),
        write=lambda x: f"{x:,.0f}",
    )


def _describe(growth: Growth, lines: Sequence[ChartLine]) -> str:
    """Describe the first and the last point of each line in words."""
    noun = "tokens" if growth.axis == "length" else "wide"
    parts = []
    for line in lines:
        ends = [f"{with_unit(growth.unit, y)} at {x:,}" for x, y in line.ends]
        parts.append(f"{line.name}: from {ends[0]} {noun} to {ends[1]}")
    return "; ".join(parts) + "."


def _describe_ratios(lines: Sequence[ChartLine], crossings: Sequence[Crossover]) -> str:
    """Describe the first and the last point and the crossover of each line in words."""
    parts = []
    for line, crossing in zip(lines, crossings, strict=True):
        ends = [f"{as_ratio(y)} at {x:,} tokens" for x, y in line.ends]
        parts.append(f"{line.name}: from {ends[0]} to {ends[1]} ({crossing.kind}: {crossing.text})")
    return f"Ratio of times to the baseline’s. {'; '.join(parts)}."


def _caption(growth: Growth, lines: Sequence[ChartLine]) -> str:
    return caption(
        {
            "Both axes are logarithmic, so a power of the length is a straight line whose slope is "
            "the exponent; the grey lines show growth with n and with n².": True,
            "Points are medians over processes, and bars extend from the fastest to the slowest "
            "process.": any(line.intervals for line in lines),
            "Hollow points are noisy: their stopping criterion was not met.": any(
                line.hollow for line in lines
            ),
            f"{len(lines)} of {len(growth.variants)} variants are drawn.": len(lines)
            < len(growth.variants),
        }
    )


def _ratio_caption(
    about: About, growth: Growth, lines: Sequence[ChartLine], crossings: Sequence[Crossover]
) -> str:
    num_others = sum(variant != about.baseline for variant in growth.variants)
    return caption(
        {
            "Both axes are logarithmic. Below the line at 1, a mixer takes less time than "
            f"{baseline_in_words(about)}.": True,
            "Points are means over processes with their 95 % intervals.": any(
                line.intervals for line in lines
            ),
            "A diamond marks the length at which a mixer crosses the line, and its bar the 95 % "
            "interval.": any(crossing.place for crossing in crossings),
            "Hollow points are noisy: a stopping criterion was not met.": any(
                line.hollow for line in lines
            ),
            f"{len(lines)} of {num_others} variants are drawn.": len(lines) < num_others,
        }
    )
