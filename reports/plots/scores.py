"""Draw the scores of a comparison: a dot for each seed, each mean with its interval, and floors.

A floor is a thin dotted line with its name above. Floors may be so far away (chance, for instance)
that the variants would be squeezed into a corner. The axis therefore grows to at most three times
the range of the variants; a floor beyond it is named at that edge, with an arrow and its number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from bakeoff.reports.document import Drawing, capitalized, readable
from bakeoff.reports.escape import slug
from bakeoff.reports.plots.style import BLUE, GREY, INK, axis_title, drawing_style, label, to_svg
from bakeoff.reports.results.axis_values import belongs
from bakeoff.reports.results.reading import Coverage, coverage
from bakeoff.reports.results.series import Series, floors_of, is_bound, num_expected
from bakeoff.reports.results.spoken_names import shown_names
from bakeoff.reports.stats.intervals import as_interval, for_quantities, for_scores
from bakeoff.suite.schema import MIXER_ALONE, About

MAX_ROWS = 60  # with more rows, a table is easier to read
_CAPTION = (
    "Dots are {}; diamonds are means with 95 % confidence intervals; the dashed line is the mean "
    "of the baseline."
)
_NO_INTERVALS_CAPTION = (
    "Diamonds are single measurements, which have no intervals; the dashed line is the baseline."
)
_FLOORS_CAPTION = (
    " Dotted lines are floors, which need no architecture; a floor outside the plot is named at "
    "the edge with its value."
)
_COMPARED_CAPTION = " The claim is about the blue variants."
_NAME_WIDTH = 30  # letters in a line of a name
_ROW_INCHES = 0.36
_LINE_ROOM = 0.47  # share of a row for each line of its name
_SEEDS_BELOW = 0.22  # share of a row by which dots are lowered, so that they do not hide the mean
_FLOOR_COLOUR = "#6b6f76"
_GROWTH = 3.0  # largest width of the axis, as a multiple of the range of the variants
_MARGIN = 0.05  # share of the axis left free on either side
_FONT_POINTS, _LETTER_POINTS, _LINE_POINTS = 8.0, 5.2, 11.0
_WIDTH_POINTS = 330.0  # width of the axis if names of variants are long
_GAP = 0.02  # share of the axis between two names
_LINES_WITHIN = 2  # lines of floor names that fit into any figure


@dataclass(frozen=True, kw_only=True)
class _FloorName:
    """The name of a floor above the axis; positions are shares of its width.

    Attributes:
        value: The value of the floor, or None if the name is at an edge.
    """

    text: str
    value: float | None
    place: float
    side: str

    @property
    def ends(self) -> tuple[float, float]:
        """The positions at which the name begins and ends."""
        width = len(self.text) * _LETTER_POINTS / _WIDTH_POINTS
        before = {"left": 0.0, "center": width / 2, "right": width}[self.side]
        return self.place - before, self.place - before + width

    def hides(self, other: _FloorName) -> bool:
        """Return True if both names would overlap on one line."""
        (begin, end), (other_begin, other_end) = self.ends, other.ends
        return begin < other_end + _GAP and other_begin < end + _GAP


def score_figure(
    about: About,
    series: Series,
    variants: Sequence[str] | None = None,
    compared: Sequence[str] = (),
) -> Drawing | None:
    """Draw every seed of each variant as a dot, and the mean as a diamond with its 95 % interval.

    Args:
        about: The sweep.
        series: A score, or another quantity that a claim is about.
        variants: The variants to show, from the top; by default all that take part in the task.
        compared: The sides of the claim, in blue beside grey others; by default all are blue.

    Returns:
        The figure, or None if there is no number or there are too many variants to show.
    """
    if variants is None:
        variants = [variant for variant in about.variants if belongs(about, variant, series.task)]
    if len(variants) > MAX_ROWS or not any(series.values(v) for v in variants):
        return None
    floors = floors_of(about, series)
    num_all = sum(belongs(about, variant, series.task) for variant in about.variants)
    name = figure_name(series) + ("" if len(variants) == num_all else "-chosen")
    where = "mixers alone" if series.task == MIXER_ALONE else readable(series.task)
    at = f", at {series.at.replace('=', ' ')}" if series.at else ""
    title = f"{capitalized(readable(series.metric))} on {where}{at}"
    named = shown_names(about)
    rows = [label(named[variant], width=_NAME_WIDTH) for variant in variants]
    rooms = [max(1.0, _LINE_ROOM * (1 + text.count("\n"))) for text in rows]
    places = [sum(rooms[:row]) + (rooms[row] - 1) / 2 for row in range(len(rooms))]
    with drawing_style():
        size = (7.2, 1.1 + _ROW_INCHES * sum(rooms))
        figure = Figure(figsize=size, layout="constrained")
        axes = figure.add_subplot()
        mean = series.mean(about.baseline).point
        if mean is not None:
            axes.axvline(mean, color=GREY, linestyle=(0, (5, 4)), linewidth=1.2, zorder=1)
        for row, variant in zip(places, variants, strict=True):
            colour = GREY if compared and variant not in compared else BLUE
            _draw_scores(axes, row, series, variant, colour=colour)
            _draw_coverage(axes, row, coverage(series.of(variant), num_expected(series, about)))
        _draw_axes(axes, series, dict(zip(places, rows, strict=True)), sum(rooms))
        num_lines = draw_floors(axes, series, floors)
        figure.set_figheight(size[1] + max(0, num_lines - _LINES_WITHIN) * _LINE_POINTS / 72)
        description = _describe(series, (*variants, *floors), named)
        svg = to_svg(figure, name=name, title=title, description=description)
    caption = _caption(series, variants, bool(floors), compared, num_all)
    return Drawing(name=name, title=title, caption=caption, svg=svg)


def _caption(
    series: Series, variants: Sequence[str], has_floors: bool, compared: Sequence[str], num_all: int
) -> str:
    what = "processes" if series.is_bound_to_environment else "seeds"
    has_intervals = any(series.mean(variant).half_width is not None for variant in variants)
    caption = _CAPTION.format(what) if has_intervals else _NO_INTERVALS_CAPTION
    caption += _FLOORS_CAPTION if has_floors else ""
    num_blue = len({*compared}.intersection(variants))
    caption += _COMPARED_CAPTION if 0 < num_blue < len(variants) else ""
    if len(variants) < num_all:
        caption += f" {len(variants)} of {num_all} variants are shown."
    return caption


def figure_name(series: Series) -> str:
    """Return the name of the figure with all variants; a subset has a suffix."""
    parts = filter(None, (series.task, series.metric, series.at.replace("=", "-")))
    return "-".join(map(slug, parts))


def _draw_coverage(axes: Axes, row: float, cover: Coverage) -> None:
    """Write how many results are missing; the table gives the reasons."""
    if cover.lost:
        axes.annotate(
            label(str(replace(cover, skipped_because=""))),
            (1.0, row),
            va="bottom",
            ha="right",
            xycoords=("axes fraction", "data"),
            fontsize=8,
            color="#8a4b00",
            xytext=(0, 3),
            textcoords="offset points",
        )


def _draw_scores(axes: Axes, row: float, series: Series, variant: str, colour: str) -> None:
    values = tuple(series.values(variant).values())
    estimate = series.mean(variant)
    if estimate.low is not None and estimate.high is not None:
        axes.plot([estimate.low, estimate.high], [row, row], color=colour, linewidth=2.2)
    if estimate.point is not None and estimate.n > 1:
        axes.plot(estimate.point, row, marker="D", markersize=6, color=colour, zorder=3)
    axes.plot(
        values,
        [row + _SEEDS_BELOW] * len(values),
        linestyle="none",
        marker="o",
        markersize=5,
        markerfacecolor="white",
        markeredgecolor=INK,
        markeredgewidth=1,
        alpha=0.9,
        zorder=4,
    )


def _draw_axes(axes: Axes, series: Series, names: Mapping[float, str], height: float) -> None:
    axes.set_yticks(list(names), list(names.values()))
    axes.set_ylim(height - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x")
    axes.xaxis.set_major_locator(MaxNLocator(6))
    unit = series.unit
    if is_bound(unit):
        written = for_quantities(unit, axes.get_xlim())
        low, high = (end / written.factor for end in axes.get_xlim())
        ticks = MaxNLocator(6).tick_values(low, high)  # round numbers of MiB are not round in bytes
        places = [tick * written.factor for tick in ticks if low <= tick <= high]
        axes.set_xticks(places, [f"{place / written.factor:g}" for place in places])
        unit = written.unit
    axes.set_xlabel(label(axis_title(series.metric, unit, series.better), width=72))


def _describe(series: Series, variants: Sequence[str], named: Mapping[str, str]) -> str:
    """Return the same numbers in words, for readers who cannot see the figure."""
    unit = "" if series.unit == "1" else f" {series.unit}"
    parts = []
    for variant in variants:
        estimate, name = series.mean(variant), named.get(variant, variant)
        if estimate.point is None:
            parts.append(f"{name}: no result")
        elif estimate.half_width is None:
            parts.append(f"{name}: {estimate.point:.4g}{unit}")
        elif estimate.is_symmetric:
            parts.append(f"{name}: {estimate.point:.4g} ± {estimate.half_width:.2g}{unit}")
        else:
            parts.append(f"{name}: {estimate.point:.4g} {as_interval(estimate, _four)}{unit}")
    return "; ".join(parts) + "."


def draw_floors(axes: Axes, series: Series, floors: Sequence[str]) -> int:
    """Draw the lines and names of floors on axes whose limits already fit the variants.

    Returns:
        The number of text lines with names above the axis.
    """
    known = {floor: series.values(floor) for floor in floors}
    values = {floor: next(iter(found.values())) for floor, found in known.items() if found}
    if not values:
        return 0
    low, high = _limits(*axes.get_xlim(), list(values.values()))
    axes.set_xlim(low, high)
    nearest_first = sorted(values.items(), key=lambda each: abs(2 * each[1] - low - high))
    names = [_name(series, floor, value, low, high) for floor, value in nearest_first]
    stacked = _stacked(names)
    for name, level in stacked:
        if name.value is not None:
            axes.axvline(name.value, color=_FLOOR_COLOUR, linestyle=":", linewidth=1.1, zorder=1)
        axes.annotate(
            label(name.text),
            (name.place, 1.0),
            xycoords="axes fraction",
            xytext=(0, 2 + _LINE_POINTS * level),
            textcoords="offset points",
            ha=name.side,
            va="bottom",
            fontsize=_FONT_POINTS,
            color=_FLOOR_COLOUR,
        )
    return 1 + max(level for _, level in stacked)


def _limits(low: float, high: float, values: Sequence[float]) -> tuple[float, float]:
    """Widen the limits to as many of the nearest floors as `_GROWTH` allows."""
    most = _GROWTH * (high - low)
    for value in sorted(values, key=lambda each: max(low - each, each - high)):
        wider = min(low, value), max(high, value)
        margin = _MARGIN * (wider[1] - wider[0])
        wider = (
            wider[0] - margin if wider[0] < low else low,
            wider[1] + margin if wider[1] > high else high,
        )
        if wider[1] - wider[0] <= most:
            low, high = wider
    return low, high


def _name(series: Series, floor: str, value: float, low: float, high: float) -> _FloorName:
    if low <= value <= high:
        place = (value - low) / (high - low)
        side = "left" if place < 0.1 else "right" if place > 0.9 else "center"
        return _FloorName(text=floor, value=value, place=place, side=side)
    written = for_scores(series.unit, [], [value]).write(value)
    if value < low:
        return _FloorName(text=f"← {floor} {written}", value=None, place=0.0, side="left")
    return _FloorName(text=f"{floor} {written} →", value=None, place=1.0, side="right")


def _stacked(names: Sequence[_FloorName]) -> list[tuple[_FloorName, int]]:
    """Pair each name with the first line of text, counted from the axis, where it fits."""
    lines: list[list[_FloorName]] = []
    found: list[tuple[_FloorName, int]] = []
    for name in names:
        free = (i for i, line in enumerate(lines) if not any(map(name.hides, line)))
        level = next(free, len(lines))
        lines += [[]] if level == len(lines) else []
        lines[level].append(name)
        found.append((name, level))
    return found


def _four(value: float) -> str:
    return f"{value:.4g}"
