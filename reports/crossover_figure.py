"""Where does a mixer overtake the baseline? The ratio of their times against length, on log axes.

One line a mixer, the line at 1 where both take as long, and on it each crossover with its interval.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator

from reports.analysis.crossover import Crossover, crossover
from reports.analysis.time_comparison import compare
from reports.document import Drawing
from reports.escape import slug
from reports.lines import MAX_LINES, LineName, look, numbered, write_names
from reports.results.length_sweep import Growth
from reports.results.variant_labels import shown_name, what_baseline_is
from reports.stats.intervals import Estimate
from reports.stats.number_format import as_ratio
from reports.svg import drawing_style, label, to_svg
from suite.schema import MIXER_ALONE, About

_EVEN: Mapping[str, Any] = {"color": "#30343a", "linestyle": "-", "linewidth": 1.3}
_MAX_TICKS = 9
_ROOM = 1.25  # times beyond the outermost ratio


@dataclass(frozen=True, kw_only=True)
class _Line:
    """One variant: places ascending, each with its ratio to the baseline.

    Attributes:
        noisy: The places where either did not meet its stopping criterion.
    """

    variant: str
    ratios: Mapping[int, Estimate]
    noisy: frozenset[int]
    crossing: Crossover

    @property
    def points(self) -> dict[int, float]:
        """Place -> ratio."""
        return {at: e.point for at, e in self.ratios.items() if e.point is not None}


def crossover_figure(about: About, growth: Growth, what: str) -> Drawing | None:
    """The ratios of the first variants; None where none has two points beside the baseline.

    Args:
        about: Gives names, order and the baseline.
        growth: Times along lengths, in one environment.
        what: As ``forward and backward``.
    """
    lines = _lines(about, growth)
    if not any(len(line.points) > 1 for line in lines):
        return None
    with drawing_style():
        figure = Figure(figsize=(7.2, 4.4), layout="constrained")
        axes = figure.add_subplot()
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.axhline(1.0, zorder=2, **_EVEN)
        for index, line in numbered(about, lines):
            _draw(axes, index, line)
        _dress(axes, about, growth, lines)
        _name(axes, about, lines)
        name = slug(f"{MIXER_ALONE}-{growth.metric}-ratio-by-{growth.axis}")
        title = f"Time of {what}, as a multiple of the baseline’s, against length"
        svg = to_svg(figure, name=name, title=title, description=_describe(lines))
    caption = _caption(about, growth, lines)
    return Drawing(name=name, title=title, caption=caption, svg=svg)


def _lines(about: About, growth: Growth) -> list[_Line]:
    """The first variants that were timed beside the baseline."""
    found: list[_Line] = []
    for variant in growth.variants:
        if variant == about.baseline:
            continue
        ratios = {at: _ratio(growth, variant, about.baseline, at) for at in growth.places}
        kept = {at: ratio for at, ratio in ratios.items() if ratio.point is not None}
        if kept and len(found) < MAX_LINES:
            pair = (variant, about.baseline)
            noisy = frozenset(at for at in kept if any(growth.is_noisy(v, at) for v in pair))
            crossing = crossover(growth, variant, about.baseline)
            found.append(_Line(variant=variant, ratios=kept, noisy=noisy, crossing=crossing))
    return found


def _ratio(growth: Growth, variant: str, baseline: str, place: int) -> Estimate:
    return compare(growth.of(variant, place), growth.of(baseline, place)).ratio


def _draw(axes: Axes, index: int, line: _Line) -> None:
    shown = look(index)
    colour = shown["color"]
    axes.plot(list(line.points), list(line.points.values()), linewidth=1.7, zorder=3, **shown)
    for place, ratio in line.ratios.items():
        if ratio.low is not None and ratio.high is not None:
            axes.plot([place, place], [ratio.low, ratio.high], color=colour, linewidth=1.1)
    for places, face in ((line.noisy, "white"), (line.points.keys() - line.noisy, colour)):
        at = sorted(places)
        axes.plot(
            at, [line.points[place] for place in at], linestyle="none", marker="o", markersize=4,
            markerfacecolor=face, markeredgecolor=colour, zorder=4,
        )  # fmt: skip
    _draw_crossing(axes, line.crossing.place, colour)


def _draw_crossing(axes: Axes, place: Estimate | None, colour: str) -> None:
    if place is None or place.point is None:
        return
    if place.low is not None and place.high is not None:
        axes.plot(
            [place.low, place.high], [1.0, 1.0], color=colour, linewidth=8, alpha=0.4, zorder=5,
            solid_capstyle="butt",
        )  # fmt: skip
    axes.plot(
        place.point, 1.0, marker="D", markersize=4.5, markerfacecolor="white",
        markeredgecolor=colour, markeredgewidth=1.8, zorder=6,
    )  # fmt: skip


def _dress(axes: Axes, about: About, growth: Growth, lines: Sequence[_Line]) -> None:
    values = [1.0, *(value for line in lines for value in line.points.values())]
    axes.set_ylim(min(values) / _ROOM, max(values) * _ROOM)
    step = math.ceil(len(growth.places) / _MAX_TICKS)
    axes.xaxis.set_major_locator(FixedLocator(growth.places[::step]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.0f}"))
    is_wide = max(values) > 100 * min(values)
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0,) if is_wide else (1.0, 2.0, 5.0)))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:g}"))
    axes.grid()
    axes.set_xlabel("length (tokens)")
    name = shown_name(about, about.baseline)
    axes.set_ylabel(label(f"times as long as {name}", length=52))


def _name(axes: Axes, about: About, lines: Sequence[_Line]) -> None:
    low, high = axes.get_ylim()
    heights = {line.variant: list(line.points.values())[-1] for line in lines}
    names = [
        LineName(
            height=math.log(heights[line.variant] / low) / math.log(high / low),
            text=line.variant, look={**look(index), "linewidth": 1.7},
        )
        for index, line in numbered(about, lines)
    ]  # fmt: skip
    even = LineName(
        height=math.log(1 / low) / math.log(high / low), text="1: as long as the baseline",
        look=_EVEN,
    )  # fmt: skip
    write_names(axes, [*names, even])


def _describe(lines: Sequence[_Line]) -> str:
    """Where each line starts and ends and crosses, in words."""
    parts = []
    for line in lines:
        first, last = min(line.points), max(line.points)
        ends = [f"{as_ratio(line.points[at])} at {at:,} tokens" for at in (first, last)]
        found = f"{line.crossing.kind}: {line.crossing.text}"
        parts.append(f"{line.variant}: from {ends[0]} to {ends[1]} ({found})")
    return f"Ratio of times to the baseline’s. {'; '.join(parts)}."


def _caption(about: About, growth: Growth, lines: Sequence[_Line]) -> str:
    parts = [
        "Both axes are logarithmic. Below the line at 1 a mixer takes less time than the "
        f"baseline ({what_baseline_is(about) or about.baseline})."
    ]
    if any(ratio.low is not None for line in lines for ratio in line.ratios.values()):
        parts.append("Points are means over processes with their 95 % intervals.")
    if any(line.crossing.place for line in lines):
        parts.append(
            "A diamond marks the length at which a mixer crosses the line, the bar along it the "
            "95 % interval."
        )
    if any(line.noisy for line in lines):
        parts.append("Hollow points are noisy: a stopping criterion was not met.")
    num_others = sum(variant != about.baseline for variant in growth.variants)
    if len(lines) < num_others:
        parts.append(f"Drawn are {len(lines)} of {num_others} variants.")
    return " ".join(parts)
