"""What does growth look like? Time and memory of each mixer alone, against length, on log axes.

A straight line is a power of the length; its slope is the power. Two grey lines show what one and
two look like.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator

from reports.document import Drawing
from reports.escape import slug
from reports.lines import MAX_LINES, LineName, look, numbered, write_names
from reports.results.length_sweep import Growth
from reports.results.variant_labels import shown_name
from reports.stats.intervals import Estimate, median_range
from reports.stats.number_format import for_quantities
from reports.svg import drawing_style, label, to_svg
from suite.schema import MIXER_ALONE, About

_GREY = "#9aa0a6"
_GUIDES = {1: "grows with n", 2: "grows with n²"}
_GUIDE_DASHES = {1: (0, (1, 1.6)), 2: (0, (5, 2, 1, 2))}
_MAX_TICKS = 9


@dataclass(frozen=True, kw_only=True)
class _Line:
    """One variant: places ascending, each with its number.

    Attributes:
        noisy: The places where a process did not meet its stopping criterion.
    """

    variant: str
    estimates: Mapping[int, Estimate]
    noisy: frozenset[int]

    @property
    def points(self) -> dict[int, float]:
        """Place -> number."""
        return {at: e.point for at, e in self.estimates.items() if e.point is not None}


def growth_figure(about: About, growth: Growth, title: str) -> Drawing | None:
    """The metric of every variant against the axis, both logarithmic; None without two points.

    Args:
        about: Gives names and order.
        growth: What is drawn.
        title: As it stands under the figure, without a full stop.
    """
    lines = _lines(about, growth)
    if not any(len(line.points) > 1 for line in lines):
        return None
    with drawing_style():
        figure = Figure(figsize=(7.2, 4.6), layout="constrained")
        axes = figure.add_subplot()
        axes.set_xscale("log")
        axes.set_yscale("log")
        for index, line in numbered(about, lines):
            _draw(axes, index, line, is_baseline=line.variant == about.baseline)
        _dress(axes, growth, lines)
        ends = _draw_guides(axes, lines)
        _name(axes, about, lines, ends)
        name = slug(f"{MIXER_ALONE}-{growth.metric}-by-{growth.axis}")
        svg = to_svg(figure, name=name, title=title, description=_describe(about, growth, lines))
    caption = _caption(growth, lines, len(growth.variants))
    return Drawing(name=name, title=title, caption=caption, svg=svg)


def _lines(about: About, growth: Growth) -> list[_Line]:
    """The first variants that have a positive number somewhere."""
    found = []
    for variant in about.variants:
        estimates = {at: _estimate(growth, variant, at) for at in growth.measured(variant)}
        kept = {at: e for at, e in estimates.items() if e.point is not None and e.point > 0}
        noisy = frozenset(at for at in kept if growth.is_noisy(variant, at))
        if kept:
            found.append(_Line(variant=variant, estimates=kept, noisy=noisy))
    return found[:MAX_LINES]


def _estimate(growth: Growth, variant: str, place: int) -> Estimate:
    """Median over processes, and all of them; of a single process, the spread of its samples."""
    values = list(growth.values(variant, place).values())
    if len(values) != 1:
        return median_range(values)
    only = next(r for r in growth.of(variant, place) if r.value == values[0])
    if not only.spread_low <= only.spread_high:  # so too where they are NaN
        return Estimate(n=1, point=values[0])
    return Estimate(n=1, point=values[0], low=only.spread_low, high=only.spread_high)


def _draw(axes: Axes, index: int, line: _Line, *, is_baseline: bool) -> None:
    shown = look(index)
    colour = shown["color"]
    axes.plot(
        list(line.points), list(line.points.values()), linewidth=2.8 if is_baseline else 1.7,
        zorder=3, **shown,
    )  # fmt: skip
    _draw_bars(axes, line, colour)
    for places, face in ((line.noisy, "white"), (line.points.keys() - line.noisy, colour)):
        at = sorted(places)
        axes.plot(
            at, [line.points[place] for place in at], linestyle="none", marker="o", markersize=4.5,
            markerfacecolor=face, markeredgecolor=colour, zorder=4,
        )  # fmt: skip


def _draw_bars(axes: Axes, line: _Line, colour: str) -> None:
    """From the lower to the upper end of each estimate."""
    for place, estimate in line.estimates.items():
        if estimate.low is not None and estimate.high is not None and estimate.low > 0:
            axes.plot(
                [place, place], [estimate.low, estimate.high], color=colour, linewidth=1.1,
                marker="_", markersize=6, zorder=3,
            )  # fmt: skip


def _dress(axes: Axes, growth: Growth, lines: Sequence[_Line]) -> None:
    values = [value for line in lines for value in line.points.values()]
    bottom, top = min(values) / 1.5, max(values) * 1.5
    axes.set_ylim(bottom, top)
    step = math.ceil(len(growth.places) / _MAX_TICKS)
    axes.xaxis.set_major_locator(FixedLocator(growth.places[::step]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.0f}"))
    axes.yaxis.set_major_locator(LogLocator(base=16 if growth.unit == "B" else 10, numticks=9))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: _written(growth.unit, y)))
    axes.grid()
    axes.set_xlabel("length (tokens)" if growth.axis == "length" else "width")
    axes.set_ylabel(label(_Y_TITLES.get(growth.unit, growth.unit)))


_Y_TITLES = {"s": "time, lower is better", "B": "peak memory, lower is better", "FLOP": "FLOPs"}


def _written(unit: str, value: float) -> str:
    """A tick with its unit: over six decades one prefix would not do."""
    notation = for_quantities(unit, [value * (1 + 1e-9)])
    return notation.with_unit(f"{value / notation.factor:.3g}")


def _draw_guides(axes: Axes, lines: Sequence[_Line]) -> dict[int, float]:
    """Grey lines from the lower left corner on; the height that each ends at, by its power."""
    places = sorted({place for line in lines for place in line.points})
    low, high = axes.get_ylim()
    first, last = places[0], places[-1]
    ends = {}
    for power in _GUIDES:
        end = low * 1.15 * (last / first) ** power
        axes.plot(
            [first, last], [low * 1.15, end], color=_GREY, linewidth=1.1, zorder=1,
            linestyle=_GUIDE_DASHES[power], scalex=False, scaley=False,
        )  # fmt: skip
        ends[power] = math.log(end / low) / math.log(high / low)
    return ends


def _name(axes: Axes, about: About, lines: Sequence[_Line], guides: Mapping[int, float]) -> None:
    low, high = axes.get_ylim()
    names = []
    for index, line in numbered(about, lines):
        last = list(line.points.values())[-1]
        width = 2.8 if line.variant == about.baseline else 1.7
        names.append(
            LineName(
                height=math.log(last / low) / math.log(high / low),
                text=shown_name(about, line.variant),
                look={**look(index), "linewidth": width},
            )
        )
    for power, height in guides.items():
        grey = {"color": _GREY, "linestyle": _GUIDE_DASHES[power], "linewidth": 1.1}
        names.append(LineName(height=height, text=_GUIDES[power], look=grey))
    write_names(axes, names)


def _describe(about: About, growth: Growth, lines: Sequence[_Line]) -> str:
    """Where each line starts and ends, in words."""
    noun = "tokens" if growth.axis == "length" else "wide"
    parts = []
    for line in lines:
        first, last = min(line.points), max(line.points)
        low, high = line.points[first], line.points[last]
        ends = f"{_spoken(growth, low)} at {first:,} {noun} to {_spoken(growth, high)} at {last:,}"
        parts.append(f"{shown_name(about, line.variant)}: from {ends}")
    return "; ".join(parts) + "."


def _spoken(growth: Growth, value: float) -> str:
    notation = for_quantities(growth.unit, [value])
    return notation.with_unit(f"{value / notation.factor:.3g}")


def _caption(growth: Growth, lines: Sequence[_Line], num_measured: int) -> str:
    parts = [
        "Both axes are logarithmic: a straight line is a power of the length, and its slope the "
        "power; the grey lines show what growth with n and with n² looks like."
    ]
    if any(estimate.low is not None for line in lines for estimate in line.estimates.values()):
        parts.append("Points are medians over processes, bars run from the fastest to the slowest.")
    if any(line.noisy for line in lines):
        parts.append("Hollow points are noisy: their stopping criterion was not met.")
    if len(lines) < num_measured:
        parts.append(f"Drawn are {len(lines)} of {num_measured} variants.")
    return " ".join(parts)
