"""What does a metric look like along a number? One line a variant or group, its band the interval.

An axis is logarithmic where its numbers span much; a name stands beside the end of its line.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullLocator

from reports.along import LENGTH, Along, Line
from reports.document import Drawing
from reports.escape import slug
from reports.figures import axis_title, sentence
from reports.figures import words as _words
from reports.lines import MAX_LINES, LineName, look, marker, write_names
from reports.svg import drawing_style, label, to_svg

_GREY = "#9aa0a6"
_LOG = "_log10"
_NOTHING = -37.9  # of a log10: the smallest normal number of float32, which stands for 0
_WIDE, _TALL = 4.0, 1000.0  # times between least and most, from where on an axis is logarithmic
_MAX_TICKS = 9
_MAX_SPOKEN = 4  # places of a line that are read aloud; of more, the ends
_ROOM = 0.08  # of the range of the means, beyond them
_MOST_ROOM = 0.5  # the same, for bands
_IN_WORDS = {
    LENGTH: "length (tokens)", "distance": "distance (tokens)", "dim": "width",
    "key_dim": "d_k (width of queries and keys)", "pairs": "pairs to recall",
}  # fmt: skip


def along_figure(along: Along, name: str, shown: Sequence[Line]) -> Drawing | None:
    """The lines that are to be shown, at most `MAX_LINES`; None where none has two points.

    Args:
        along: What is drawn.
        name: Of its file, distinct within a report.
        shown: Those of its lines that a reader can tell apart.
    """
    lines = [line for line in shown if line.points][:MAX_LINES]
    if not any(len(line.points) > 1 for line in lines):
        return None
    title = sentence(f"{metric_in_words(along.metric)} against {axis_in_words(along)}")
    title = f"{title.partition(' (tokens)')[0]}{_where(along)}"
    with drawing_style():
        figure = Figure(figsize=(7.2, 4.2), layout="constrained")
        axes = figure.add_subplot()
        _scale(axes, along, lines)
        for line in lines:
            _draw(axes, line)
        _dress(axes, along)
        _name(axes, lines)
        svg = to_svg(figure, name=name, title=title, description=_describe(along, lines))
    return Drawing(name=name, title=title, caption=_caption(along, lines), svg=svg)


def metric_in_words(metric: str) -> str:
    """As ``attention entropy``; that it is a logarithm stands in its unit."""
    return _words(metric.removesuffix(_LOG))


def axis_in_words(along: Along) -> str:
    """As a reader knows it: ``width``, ``distance (tokens)``."""
    tested = "test " if along.trained_at is not None else ""
    return tested + _IN_WORDS.get(along.axis, _words(along.axis))


def is_tall(values: Sequence[float]) -> bool:
    """Whether numbers span so much that only a logarithmic axis shows them all."""
    return min(values) > 0 and max(values) > _TALL * min(values)


def figure_name(along: Along) -> str:
    """Of its file and ids, distinct within a report."""
    how = "by" if along.is_of_groups else "along"
    of = f"-of-{along.of.replace('=', '-')}" if along.of else ""
    return slug(f"{along.task}-{along.metric}-{how}-{along.axis}{of}")


def _where(along: Along) -> str:
    part = f", {_words(along.of).replace('=', ' ')}" if along.of else ""
    return f" on {along.task}{part}"


def _scale(axes: Axes, along: Along, lines: Sequence[Line]) -> None:
    """Logarithmic where that shows more, with room for the means and for most of the bands."""
    places = [place for line in lines for place in line.points]
    if min(places) > 0 and max(places) >= _WIDE * min(places):
        axes.set_xscale("log")
    values = [v for line in lines for v in line.points.values() if not is_nothing(along, v)]
    ends = [end for end in _ends_of_bands(lines) if not is_nothing(along, end)]
    values = values or [_NOTHING]
    if is_tall(values):
        axes.set_yscale("log")
        axes.set_ylim(*_limits([*map(math.log, values)], [math.log(e) for e in ends if e > 0],
                               math.exp))  # fmt: skip
        axes.yaxis.set_major_locator(LogLocator(base=10, numticks=9))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:g}"))
    else:
        axes.set_ylim(*_limits(values, ends, float))
        axes.yaxis.set_major_locator(MaxNLocator(6))
    axes.yaxis.set_minor_locator(NullLocator())


def is_nothing(along: Along, value: float) -> bool:
    """Whether it stands for a logarithm of nothing, which would press all else together."""
    return along.metric.endswith(_LOG) and value <= _NOTHING


def _ends_of_bands(lines: Sequence[Line]) -> list[float]:
    estimates = [spot.estimate for line in lines for spot in line.spots.values()]
    ends = [end for one in estimates for end in (one.low, one.high)]
    return [end for end in ends if end is not None]


def _limits(
    values: Sequence[float], ends: Sequence[float], back: Callable[[float], float]
) -> tuple[float, float]:
    """Below the least and above the most, bands among them as long as they leave room."""
    low, high = min(values), max(values)
    size = high - low or abs(high) or 1.0
    bottom = max(min([low, *ends]), low - _MOST_ROOM * size) - _ROOM * size
    top = min(max([high, *ends]), high + _MOST_ROOM * size) + _ROOM * size
    return back(bottom), back(top)


def _draw(axes: Axes, line: Line) -> None:
    """Means, joined, over their intervals."""
    shown = look(line.index)
    spots = {place: line.spots[place].estimate for place in line.points}
    banded = {at: e for at, e in spots.items() if e.low is not None and e.high is not None}
    axes.fill_between(
        list(banded), [e.low or 0.0 for e in banded.values()],
        [e.high or 0.0 for e in banded.values()], color=shown["color"], alpha=0.12, linewidth=0,
        zorder=2,
    )  # fmt: skip
    axes.plot(
        list(line.points), list(line.points.values()), marker=marker(line.index), markersize=4,
        linewidth=_thickness(line), zorder=4 if line.is_baseline else 3, **shown,
    )  # fmt: skip


def _thickness(line: Line) -> float:
    return 2.8 if line.is_baseline else 1.6


def _dress(axes: Axes, along: Along) -> None:
    places = along.places
    step = math.ceil(len(places) / _MAX_TICKS)
    axes.xaxis.set_major_locator(FixedLocator(places[::step]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: place_in_words(x)))
    if along.trained_at is not None:
        axes.axvline(along.trained_at, color=_GREY, linewidth=1.0, linestyle=(0, (5, 4)), zorder=1)
        axes.annotate(
            "trained at this length", (along.trained_at, 1.0), xytext=(4, -2), va="top",
            xycoords=("data", "axes fraction"), textcoords="offset points", fontsize=8,
            color="#5f6368",
        )  # fmt: skip
    axes.grid()
    axes.set_xlabel(label(axis_in_words(along), length=72))
    named = axis_title(metric_in_words(along.metric), along.unit, along.better)
    axes.set_ylabel(label(named, length=60))


def place_in_words(place: float) -> str:
    """A place as it is read: ``1,024``, ``0.003``."""
    return f"{place:,.0f}" if place.is_integer() and abs(place) < 1e9 else f"{place:g}"


def _name(axes: Axes, lines: Sequence[Line]) -> None:
    ends = {line.name: list(line.points.items())[-1] for line in lines}
    names = []
    for line in lines:
        _, height = axes.transAxes.inverted().transform(axes.transData.transform(ends[line.name]))
        shape = {"marker": marker(line.index), "markersize": 4, "linewidth": _thickness(line)}
        names.append(
            LineName(height=float(height), text=line.name, look={**look(line.index), **shape})
        )
    write_names(axes, names)


def _describe(along: Along, lines: Sequence[Line]) -> str:
    """Where each line runs, in words."""
    unit = "" if along.unit == "1" else f" {along.unit}"
    parts = []
    for line in lines:
        points = list(line.points.items())
        told = points if len(points) <= _MAX_SPOKEN else [points[0], points[-1]]
        said = [f"{value:.4g}{unit} at {place_in_words(place)}" for place, value in told]
        parts.append(f"{line.name}: {', '.join(said)}")
    return f"By {axis_in_words(along)}. {'; '.join(parts)}."


def _caption(along: Along, lines: Sequence[Line]) -> str:
    parts = ["Points are means over seeds."]
    if _ends_of_bands(lines):
        parts = [
            "Points are means over seeds, bands their 95 % intervals, cut where they are wide."
        ]
    if any(line.is_baseline for line in lines):
        parts.append(
            "The baseline is on the thick line."
            if along.is_of_groups
            else "The thick line is the baseline."
        )
    if any(is_nothing(along, value) for line in lines for value in line.points.values()):
        parts.append("A line that leaves at the bottom has come to nothing that float32 can hold.")
    num_drawable = sum(bool(line.points) for line in along.lines)
    if len(lines) < num_drawable:
        parts.append(f"Drawn are {len(lines)} of {num_drawable} lines; the table has them all.")
    if len(along.lines) > num_drawable:
        parts.append(f"{len(along.lines) - num_drawable} of {len(along.lines)} have no number.")
    return " ".join(parts)
