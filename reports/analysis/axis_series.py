"""Finds the metrics that run along a number: a coordinate, or a value in the labels of variants.

A score at other lengths or of parts of the task, a probe's metric by distance, a score by width
for each mixer. One line a variant, or one a group of variants; of each the mean over seeds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from reports.analysis.cost import setting
from reports.results.axis_values import belongs, number
from reports.results.reading import coordinates
from reports.results.series import Series, left_out_of_comparison, num_expected
from reports.results.variant_labels import (
    MAX_LETTERS,
    LabelAxis,
    label_axis,
    shown_name,
    what_baseline_is,
)
from reports.stats.intervals import Estimate
from suite.schema import CONTROLS, LEARNING_RATE, MIXER_ALONE, NUM_SENTENCES, About, Better

LENGTH = "length"
ASKED = "asked"  # a coordinate that says what the number there should be
_TRAINED = ("initial_", "trained_", "validation_")  # how a metric of a trained model may begin
_OF_WRITING = frozenset({"written_bleu", "length_ratio", "unfinished", "exposure_gap"})
_MAX_PARTS = 6
_SAME = 1e-6  # as large as differences may be between the same numbers


@dataclass(frozen=True, kw_only=True)
class AxisPoint:
    """What a line has at one place.

    Attributes:
        estimate: Mean over the seeds that ended well, with its 95 % interval.
        is_partial: Whether a seed is missing from it.
        fate: What became of it, where there is no number.
        spread: Means over seeds of the ends of what each seed says of itself; None where one says
            nothing.
    """

    estimate: Estimate
    is_partial: bool = False
    fate: str = ""
    spread: tuple[float, float] | None = None


@dataclass(frozen=True, kw_only=True)
class AxisLine:
    """One variant, or one group of them.

    Attributes:
        name: As a figure names it.
        variants: All that are on it.
        index: Which look it has.
        note: What the name does not say.
        is_baseline: Whether the baseline is on it.
        at: Place -> what stands there; places ascending.
    """

    name: str
    variants: tuple[str, ...]
    index: int
    note: str = ""
    is_baseline: bool
    at: Mapping[float, AxisPoint]

    @property
    def points(self) -> dict[float, float]:
        """Place -> mean, where there is one."""
        found = {place: there.estimate.point for place, there in self.at.items()}
        return {place: point for place, point in found.items() if point is not None}


@dataclass(frozen=True, kw_only=True)
class AxisSeries:
    """One metric along one number.

    Attributes:
        of: The part of the task that it is the score of, as ``pairs=8``; empty of the whole.
        axis: Of the coordinates, or in the labels.
        row_title: What a line is: ``variant``, or what groups have in common.
        trained_at: The length that all were trained at; None where it is no axis of lengths.
        titles: How the axis and its places are named, see `About.part_titles`.
        counts: Place -> how many sentences the number there is of, where all lines have as many.
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
    counts: Mapping[float, int] = field(default_factory=dict)
    lines: tuple[AxisLine, ...]

    def title_of(self, place: float) -> str:
        """As the task names it, ``11 to 20``; empty where it does not."""
        return self.titles.get(f"{self.axis}={place:g}", "")

    @property
    def is_aimed_at(self) -> bool:
        """Whether each place is what the number there should be."""
        return self.axis == ASKED

    @property
    def has_named_places(self) -> bool:
        """Whether the task names every place."""
        return all(map(self.title_of, self.places))

    @property
    def has_kinds(self) -> bool:
        """Whether places are kinds in no order: the task names all, and no name has a number."""
        names = "".join(map(self.title_of, self.places))
        return self.has_named_places and not any(map(str.isdigit, names))

    @property
    def is_of_groups(self) -> bool:
        """Whether a line is a group of variants."""
        return self.row_title != "variant"

    @property
    def places(self) -> tuple[float, ...]:
        """Where any line has something, ascending."""
        return tuple(sorted({place for line in self.lines for place in line.at}))


def coordinate_series(about: About, measured: Sequence[Series], task: str) -> Iterator[AxisSeries]:
    """A line a variant, for each metric that a comparison leaves out for its coordinates."""
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
    """Sentences by place, where all readings agree."""
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
    """Whether `a` holds the numbers of `b`, and also says of how many sentences they are.

    So do two probes that judge the same outputs of the same models.
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
    """A line a group, for each score, its parts, and what is said of a trained model."""
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
    """A coordinate's name and its number; no number where it is none, or holds no number."""
    named = coordinates(at)
    if len(named) != 1:
        return "", None
    ((name, value),) = named.items()
    return name, number(value)


def _of_task(measured: Sequence[Series], task: str) -> list[Series]:
    """What does not depend on the machine; not what an instrument says of itself."""
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
    is_tested = first.is_score and name == LENGTH  # at other lengths than that of the training
    lengths = {v: float(setting(about, v, LENGTH)) for v in met} if is_tested else {}
    whole = next((s for s in measured if s.is_whole_score and _is_same(s, first)), None)
    lines = []
    for variant in met:
        at = {place: _point(about, series, variant) for place, series in placed.items()}
        if whole is not None and lengths.get(variant):
            at[lengths[variant]] = _point(about, whole, variant)
        is_baseline = variant == about.baseline
        lines.append(
            AxisLine(
                name=_name(about, variant),
                variants=(variant,),
                index=about.variants.index(variant),
                is_baseline=is_baseline,
                note=what_baseline_is(about) if is_baseline else "",
                at=dict(sorted(at.items())),
            )
        )
    trained = set(lengths.values()) - {0.0}
    return _series(first, name, lines, trained_at=trained.pop() if len(trained) == 1 else None)


def _name(about: About, variant: str) -> str:
    """With what the baseline is; that alone where both would not fit."""
    name = shown_name(about, variant)
    what = what_baseline_is(about) if variant == about.baseline else ""
    return what if what and len(name) > MAX_LETTERS else name


def _is_same(a: Series, b: Series) -> bool:
    return (a.task, a.probe, a.metric, a.unit) == (b.task, b.probe, b.metric, b.unit)


def _of_groups(about: About, series: Series, axis: LabelAxis) -> AxisSeries:
    lines = [
        AxisLine(
            name=group.name,
            variants=tuple(group.variants.values()),
            index=index,
            note=group.note,
            is_baseline=about.baseline in group.variants.values(),
            at={place: _point(about, series, v) for place, v in group.variants.items()},
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


def _point(about: About, series: Series, variant: str) -> AxisPoint:
    """A rate that a search had no need to try is no failure."""
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
    if not ends or not all(low <= high for low, high in ends):  # so too where they are NaN
        return None
    lows, highs = zip(*ends, strict=True)
    return sum(lows) / len(lows), sum(highs) / len(highs)
