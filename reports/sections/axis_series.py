"""Show metrics along a number: collect the data, draw a figure for each, and fold a table below.

The number is a coordinate, or a value on an axis of the variants: a score at other lengths or of
parts of the task, a metric of a probe by distance, a score by width for each mixer. There is a line
for each variant, or for each group of variants; its points are means over seeds, with 95 %
intervals. An axis is logarithmic if its numbers span a wide range. Points of unordered kinds are
drawn side by side and not joined.

Measurements before and after training are two views of one exhibit, and so are a score and those of
its parts. The exhibit is exploratory: it has intervals and no verdict.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from matplotlib.ticker import LogLocator

from bakeoff.reports.analysis.cost import setting
from bakeoff.reports.document import (
    Column,
    Drawing,
    Entry,
    Exhibit,
    ReportTable,
    Row,
    View,
    capitalized,
    listed,
    readable,
)
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
from bakeoff.reports.plots.style import GREY, MAX_LINES, axis_title, caption, label
from bakeoff.reports.results.axis_values import belongs, number, value_of_baseline
from bakeoff.reports.results.reading import coordinates
from bakeoff.reports.results.series import Series, left_out_of_comparison, num_expected
from bakeoff.reports.results.spoken_names import shown_names, spoken_group
from bakeoff.reports.results.variant_labels import AS_BASELINE, LabelAxis, label_axis
from bakeoff.reports.stats.intervals import Estimate, as_interval, for_estimates
from bakeoff.reports.tables.comparison import ARROWS
from bakeoff.reports.tables.marks import PARTIAL
from bakeoff.suite.schema import CONTROLS, LEARNING_RATE, MIXER_ALONE, NUM_SENTENCES, About, Better

LENGTH = "length"
ASKED = "asked"  # a coordinate whose value is the target of the metric
_TRAINED = ("initial_", "trained_", "validation_")  # prefixes of the metrics of a trained model
_OF_WRITING = frozenset({"written_bleu", "length_ratio", "unfinished", "exposure_gap"})
_MAX_PARTS = 6
_SAME = 1e-6  # numbers with a smaller relative difference are considered equal


@dataclass(frozen=True, kw_only=True)
class AxisPoint:
    """The number of a line at one place.

    Attributes:
        estimate: The mean over the seeds that ended well, with its 95 % interval.
        is_partial: True if a seed is missing from the mean.
        fate: The reason why there is no number, or empty.
        spread: The mean over seeds of the ends of each seed's own interval, or None if a seed
            has no interval.
    """

    estimate: Estimate
    is_partial: bool = False
    fate: str = ""
    spread: tuple[float, float] | None = None


@dataclass(frozen=True, kw_only=True)
class AxisLine:
    """A line of a figure: one variant, or a group of variants.

    Attributes:
        name: The name in figures.
        variants: The variants on the line.
        index: The number that determines the look.
        note: A remark besides the name.
        is_baseline: True if the baseline is on the line.
        at: Place -> the number there, in ascending order of places.
    """

    name: str
    variants: tuple[str, ...]
    index: int
    note: str = ""
    is_baseline: bool
    at: Mapping[float, AxisPoint]

    @property
    def points(self) -> dict[float, float]:
        """Place -> mean, for places that have one."""
        found = {place: there.estimate.point for place, there in self.at.items()}
        return {place: point for place, point in found.items() if point is not None}


@dataclass(frozen=True, kw_only=True)
class AxisSeries:
    """One metric along one number, with a line for each variant or group.

    Attributes:
        of: The scored part of the task, such as ``pairs=8``; empty for the whole.
        axis: The name of the coordinate or of the axis of variants.
        row_title: The meaning of a line: ``variant``, or the axes that define the groups.
        trained_at: The length at which all variants were trained, or None for other axes.
        titles: The names of the axis and of its places, see `About.part_titles`.
        are_kinds: True if places are unordered kinds, whatever their names.
        counts: Place -> number of sentences there, for places at which all readings agree.
    """

    task: str
    probe: str
    metric: str
    unit: str
    better: Better
    of: str = ""
    axis: str
    row_title: str = "variant"
    trained_at: float | None = None
    titles: Mapping[str, str] = field(default_factory=dict)
    are_kinds: bool = False
    counts: Mapping[float, int] = field(default_factory=dict)
    lines: tuple[AxisLine, ...]

    def title_of(self, place: float) -> str:
        """Return the name that the task gives a place, such as ``11 to 20``, or an empty string."""
        return self.titles.get(f"{self.axis}={place:g}", "")

    @property
    def is_aimed_at(self) -> bool:
        """True if each place is the target value of the number there."""
        return self.axis == ASKED

    @property
    def has_named_places(self) -> bool:
        """True if the task names every place."""
        return all(map(self.title_of, self.places))

    @property
    def has_kinds(self) -> bool:
        """True if places are unordered kinds: as stated, or if no name of a place has a digit."""
        names = "".join(map(self.title_of, self.places))
        is_unordered = self.has_named_places and not any(map(str.isdigit, names))
        return self.are_kinds or is_unordered

    @property
    def is_of_groups(self) -> bool:
        """True if a line is a group of variants."""
        return self.row_title != "variant"

    @property
    def places(self) -> tuple[float, ...]:
        """The places at which any line has a number or a failure, in ascending order."""
        return tuple(sorted({place for line in self.lines for place in line.at}))


def coordinate_series(about: About, measured: Sequence[Series], task: str) -> Iterator[AxisSeries]:
    """Yield metrics at several coordinates, which the comparison omits, with a line per variant."""
    found: dict[tuple[str, str, str], dict[float, Series]] = {}
    for series in left_out_of_comparison(_of_task(measured, task)):
        name, place = coordinate(series.at)
        if place is not None and series.metric != NUM_SENTENCES:
            found.setdefault((series.probe, series.metric, name), {})[place] = series
    made = [
        replace(
            _of_variants(about, measured, name, dict(sorted(placed.items()))),
            titles=about.part_titles.get(task, {}),
            counts=_counts(measured, task, probe, name),
        )
        for (probe, _, name), placed in found.items()
    ]
    yield from (each for each in made if not any(_says_more(other, each) for other in made))


def _counts(measured: Sequence[Series], task: str, probe: str, axis: str) -> dict[float, int]:
    """Return the number of sentences by place, for places at which all readings agree."""
    found = {}
    for series in measured:
        name, place = coordinate(series.at)
        if (series.task, series.probe, series.metric) != (task, probe, NUM_SENTENCES):
            continue
        values = {value for v in series.readings for value in series.values(v).values()}
        if name == axis and place is not None and len(values) == 1:
            found[place] = int(values.pop())
    return found


def _says_more(a: AxisSeries, b: AxisSeries) -> bool:
    """Return True if `a` has the numbers of `b`, and the number of sentences besides.

    This happens if two probes judge the same outputs of the same models.
    """
    if (a.axis, a.unit, a.better) != (b.axis, b.unit, b.better) or not a.counts or b.counts:
        return False
    pairs = zip(a.lines, b.lines, strict=True)
    return all(
        mine.points.keys() == theirs.points.keys()
        and all(
            math.isclose(mine.points[place], theirs.points[place], rel_tol=_SAME)
            for place in mine.points
        )
        for mine, theirs in pairs
    )


def label_series(about: About, measured: Sequence[Series], task: str) -> Iterator[AxisSeries]:
    """Yield each score, its parts, and metrics of a trained model, with a line for each group."""
    axis = label_axis(about, task)
    if axis is None or max(len(group.variants) for group in axis.groups) < 2:
        return
    every = [
        series
        for series in _of_task(measured, task)
        if series.is_score or (not series.at and _runs_along_labels(series.metric))
    ]
    parts = [series for series in every if series.at]
    for series in every:
        if not series.at or len(parts) <= _MAX_PARTS:
            yield _of_groups(about, series, axis)


def _runs_along_labels(metric: str) -> bool:
    return metric in _OF_WRITING or metric.startswith(_TRAINED)


def coordinate(at: str) -> tuple[str, float | None]:
    """Return the name of a coordinate and its number, or None if it is not a single number."""
    named = coordinates(at)
    if len(named) != 1:
        return "", None
    ((name, value),) = named.items()
    return name, number(value)


def _of_task(measured: Sequence[Series], task: str) -> list[Series]:
    """Return the series of a task that do not depend on the machine, without controls."""
    return [
        series
        for series in measured
        if series.task == task != MIXER_ALONE
        and not series.is_bound_to_environment
        and series.metric not in CONTROLS
    ]


def _of_variants(
    about: About, measured: Sequence[Series], name: str, placed: Mapping[float, Series]
) -> AxisSeries:
    first = next(iter(placed.values()))
    met = [variant for variant in about.variants if belongs(about, variant, first.task)]
    is_tested = first.is_score and name == LENGTH  # at other lengths than those of the training
    lengths = {v: float(setting(about, v, LENGTH)) for v in met} if is_tested else {}
    whole = next((s for s in measured if s.is_whole_score and _is_same(s, first)), None)
    lines, names = [], shown_names(about)
    for variant in met:
        at = {place: line_point(about, series, variant) for place, series in placed.items()}
        if whole is not None and lengths.get(variant):
            at[lengths[variant]] = line_point(about, whole, variant)
        lines.append(
            AxisLine(
                name=names[variant],
                variants=(variant,),
                index=about.variants.index(variant),
                is_baseline=variant == about.baseline,
                at=dict(sorted(at.items())),
            )
        )
    trained = set(lengths.values()) - {0.0}
    return _series(first, name, lines, trained_at=trained.pop() if len(trained) == 1 else None)


def _is_same(a: Series, b: Series) -> bool:
    return (a.task, a.probe, a.metric, a.unit) == (b.task, b.probe, b.metric, b.unit)


def _of_groups(about: About, series: Series, axis: LabelAxis) -> AxisSeries:
    names = [
        group.name
        if group.name == AS_BASELINE
        else spoken_group(about, group.variants.values(), axis.name)
        for group in axis.groups
    ]
    is_distinct = len({*names}) == len(names)
    lines = [
        AxisLine(
            name=names[index] if is_distinct else group.name,
            variants=tuple(group.variants.values()),
            index=index,
            note="" if is_distinct and names[index] != group.name else group.note,
            is_baseline=about.baseline in group.variants.values(),
            at={place: line_point(about, series, v) for place, v in group.variants.items()},
        )
        for index, group in enumerate(axis.groups)
    ]
    return _series(series, axis.name, lines, of=series.at, row_title=", ".join(axis.others))


def _series(series: Series, axis: str, lines: Sequence[AxisLine], **fields: Any) -> AxisSeries:
    return AxisSeries(
        task=series.task,
        probe=series.probe,
        metric=series.metric,
        unit=series.unit,
        better=series.better,
        axis=axis,
        lines=tuple(lines),
        **fields,
    )


def line_point(about: About, series: Series, variant: str) -> AxisPoint:
    """Return the number of a variant; a rate that a search did not try is not a failure."""
    absent = "not tried" if series.probe == LEARNING_RATE else "no result"
    values = tuple(series.values(variant).values())
    fates = dict.fromkeys(reading.fate for reading in series.of(variant))
    return AxisPoint(
        estimate=series.mean(variant),
        is_partial=0 < len(values) < num_expected(series, about),
        fate="" if values else ", ".join(fates) or absent,
        spread=_spread(series, variant),
    )


def _spread(series: Series, variant: str) -> tuple[float, float] | None:
    ends = [(reading.spread_low, reading.spread_high) for reading in series.usable(variant)]
    if not ends or not all(low <= high for low, high in ends):  # True for NaN as well
        return None
    lows, highs = zip(*ends, strict=True)
    return sum(lows) / len(lows), sum(highs) / len(highs)


_LOG = "_log10"
_LOG_OF_ZERO = -37.9  # the logarithm of float32's smallest normal number, which replaces 0
_WIDE, _TALL = 4.0, 1000.0  # an axis whose ends have a larger ratio is logarithmic
_MAX_SPOKEN = 4  # a description lists at most this many places of a line, else only its ends
_ROOM = 0.08  # share of the range of the means left free beyond them
_MOST_ROOM = 0.5  # the same for bands
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
_TICK_LETTERS = 13  # line width of the names of places
_SIDE_BY_SIDE = 0.6  # largest share of the distance between two kinds that their points take
_APART = 0.14  # share of that distance between two points
_AXIS_NAMES = {
    LENGTH: "length (tokens)",
    "distance": "distance (tokens)",
    "dim": "width",
    "key_dim": "d_k (width of queries and keys)",
    "pairs": "pairs to recall",
}


def axis_figure(series: AxisSeries, shown: Sequence[AxisLine]) -> Drawing | None:
    """Return a figure of at most `MAX_LINES` lines, or None if no line has two points.

    Args:
        series: The metric.
        shown: The lines to draw.
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
            title=f"{title.partition(' (tokens)')[0]} on {readable(series.task)}{part}",
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
    """Return the diagonal, on which each number equals its target."""
    ends = (min(series.places), max(series.places))
    return Stroke(x=ends, y=ends, look=_DASHED, name="as asked")


def _side_by_side(lines: Sequence[ChartLine]) -> list[ChartLine]:
    """Move points apart a little, so that none hides another."""
    apart = min(_APART, _SIDE_BY_SIDE / len(lines))
    moved = [apart * (index - (len(lines) - 1) / 2) for index in range(len(lines))]
    return [
        replace(line, estimates={place + by: e for place, e in line.estimates.items()})
        for line, by in zip(lines, moved, strict=True)
    ]


def readable_metric(metric: str, axis: str) -> str:
    """Return the metric without words that repeat its unit or axis, e.g. ``attention entropy``."""
    return readable(metric.removesuffix(_LOG).removesuffix(f"_by_{axis}"))


def readable_axis(series: AxisSeries) -> str:
    """Return the title of the axis, such as ``width`` or ``distance (tokens)``."""
    tested = "test " if series.trained_at is not None else ""
    named = series.titles.get(series.axis) or _AXIS_NAMES.get(series.axis, readable(series.axis))
    return tested + named


def place_name(series: AxisSeries, place: float) -> str:
    """Return the name that the task gives a place, such as ``11 to 20``, or else the number."""
    return series.title_of(place) or readable_place(place)


def readable_place(place: float) -> str:
    """Return a place in a form such as ``1,024`` or ``0.003``."""
    return f"{place:,.0f}" if place.is_integer() and abs(place) < 1e9 else f"{place:g}"


def figure_name(series: AxisSeries) -> str:
    """Return the name of the file and its ids, distinct within a report."""
    how = "by" if series.is_of_groups else "along"
    of = f"-of-{series.of.replace('=', '-')}" if series.of else ""
    return slug(f"{series.task}-{series.metric}-{how}-{series.axis}{of}")


def needs_log(values: Sequence[float]) -> bool:
    """Return True if numbers span such a range that only a logarithmic axis shows them all."""
    return min(values) > 0 and max(values) > _TALL * min(values)


def is_log_of_zero(metric: str, value: float) -> bool:
    """Return True if the value replaces the logarithm of 0, which would hide all differences."""
    return metric.endswith(_LOG) and value <= _LOG_OF_ZERO


def _x_axis(series: AxisSeries, lines: Sequence[ChartLine]) -> PlotAxis:
    places = [place for line in lines for place in line.points]
    is_wide = min(places) > 0 and max(places) >= _WIDE * min(places) and not series.is_aimed_at
    return PlotAxis(
        title=readable_axis(series),
        is_log=is_wide and not series.has_named_places,
        ticks=evenly_spaced(series.places),
        write=lambda place: label(place_name(series, place), width=_TICK_LETTERS),
        rule=None if series.trained_at is None else (series.trained_at, _DASHED),
        rule_name="trained at this length",
    )


def _y_axis(series: AxisSeries, lines: Sequence[ChartLine]) -> PlotAxis:
    """Return an axis with room for means and most bands; it is logarithmic for wide ranges."""
    values = [
        v for line in lines for v in line.points.values() if not is_log_of_zero(series.metric, v)
    ]
    bands = [end for line in lines for ends in line.intervals.values() for end in ends]
    ends = [end for end in bands if not is_log_of_zero(series.metric, end)]
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
    """Return limits beyond the extreme values, including bands that are not too wide."""
    low, high = min(values), max(values)
    size = high - low or abs(high) or 1.0
    bottom = max(min([low, *ends]), low - _MOST_ROOM * size) - _ROOM * size
    top = min(max([high, *ends]), high + _MOST_ROOM * size) + _ROOM * size
    return bottom, top


def _describe(series: AxisSeries, lines: Sequence[ChartLine]) -> str:
    """Describe each line in words."""
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
            "Points are means over seeds, bands their 95 % intervals, clipped if they are wide.": (
                has_intervals and not are_kinds
            ),
            "The large points are the baseline.": has_baseline and are_kinds,
            "The baseline is on the thick line.": has_baseline
            and series.is_of_groups
            and not are_kinds,
            "The thick line is the baseline.": has_baseline
            and not series.is_of_groups
            and not are_kinds,
            "On the dashed line, measured and requested values are equal.": series.is_aimed_at,
            "A line that leaves the plot at the bottom has fallen below the range of float32.": any(
                is_log_of_zero(series.metric, y) for line in lines for y in line.points.values()
            ),
            f"{len(lines)} of {num_drawable} lines are drawn; the table contains all values.": len(
                lines
            )
            < num_drawable,
            f"{num_all - num_drawable} of {num_all} lines have no values.": num_all > num_drawable,
        }
    )


_STAGES = {"initial_": "before training", "trained_": "after training"}
_WHOLE = "all together"
_SEARCH = (
    "Each variant is trained at its own best learning rate, selected on the validation split by "
    "the mean of two seeds. The search is extended until the best rate lies between two worse "
    "ones. Its trainings may be shorter; see the settings."
)
_EXPLORATORY = "This comparison is exploratory: the verdict depends only on the one claim."


def axis_exhibits(about: About, measured: Sequence[Series], task: str) -> Iterator[Exhibit]:
    """Yield an exhibit for each metric of a task and each number that it runs along.

    Args:
        about: The sweep, which gives names, order and the baseline.
        measured: All series of the sweep.
        task: The name of the task.
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
    """Return all lines or, if there are too many, those that share the baseline's number."""
    axis = label_axis(about, series.task)
    if len(series.lines) <= MAX_LINES or series.is_of_groups or axis is None:
        return series.lines
    wanted = number(value_of_baseline(about, axis.name))
    alike = {group.variants.get(wanted, "") for group in axis.groups} if wanted is not None else ()
    return [line for line in series.lines if line.variants[0] in alike] or series.lines


def _without_stage(metric: str) -> str:
    """Return the metric without the prefix for the time of its measurement."""
    stage = next((word for word in _STAGES if metric.startswith(word)), "")
    return metric.removeprefix(stage)


def _view(series: AxisSeries) -> str:
    """Return the title of a view."""
    stage = next((text for word, text in _STAGES.items() if series.metric.startswith(word)), "")
    part = readable(series.of.replace("=", " ")) or ("" if stage else _WHOLE)
    return ", ".join(filter(None, [stage, part]))


MAX_PLACES = 24
_MINUS = "−"
_Write = Callable[[float], str]
_OVER_SENTENCES = (
    "“Sentences” gives the 95 % bootstrap interval over the sentences of each part, averaged over "
    "seeds; it shows the uncertainty due to the choice of sentences, not of seeds."
)
_MEANS = "The values are means over seeds with 95 % intervals; they are exploratory."


def axis_table(series: AxisSeries) -> ReportTable:
    """Return a table of every line; if there are very many places, of evenly spaced ones."""
    places = _shown_places(series.places)
    unit, write = _notation(series)
    columns = tuple(_column(series, place, unit, write) for place in places)
    of = f" ({series.of.replace('=', ' ')})" if series.of else ""
    return ReportTable(
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
    """Return one unit and notation for all columns, so that the numbers of a row are comparable."""
    points = [point for line in series.lines for point in line.points.values()]
    every = (there.estimate for line in series.lines for there in line.at.values())
    written = for_estimates(series.unit, every)
    return written.unit, _three_digits if points and needs_log(points) else written.write


def _three_digits(value: float) -> str:
    """Write three digits, e.g. ``1.14e-06``, since wide ranges have no common last digit."""
    return f"{value:.3g}".replace("-", _MINUS, 1) if value < 0 else f"{value:.3g}"


def _column(series: AxisSeries, place: float, unit: str, write: _Write) -> Column:
    axis = "" if series.has_kinds else readable_axis(series).partition(" (")[0]
    return Column(
        key=f"{series.metric}_{series.axis}={place:g}",
        title=f"{axis} {place_name(series, place)}".lstrip(),
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
        shown="" if is_group else line.name,
        note="; ".join(filter(None, [line.note, *holds])),
        is_baseline=line.is_baseline,
        entries=tuple(column.entries[line.name] for column in columns),
    )


def _footnotes(series: AxisSeries, places: Sequence[float]) -> list[str]:
    every = [there.estimate for line in series.lines for there in line.at.values()]
    has_intervals = any(one.half_width is not None for one in every)
    found = [_MEANS if has_intervals else "The values are single measurements, without intervals."]
    has_spreads = any(there.spread for line in series.lines for there in line.at.values())
    if series.counts and has_spreads:
        found.append(_OVER_SENTENCES)
    if any(is_log_of_zero(series.metric, y) for line in series.lines for y in line.points.values()):
        found.append("−37.93 stands for a gradient of 0, or one that is too small for float32.")
    if len(places) < len(series.places):
        found.append(
            f"{len(places)} of {len(series.places):,} positions are shown; results.csv contains "
            "all."
        )
    return found
