"""Which metrics run along a number: a coordinate, or a value that the labels of variants name?

A score at other lengths or of parts of the task, a probe's metric by distance, a score by width
for each mixer. One line a variant, or one a group of variants; of each the mean over seeds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from reports.analysis.cost import setting
from reports.lines import MAX_LETTERS
from reports.results.numeric_axes import Group, LabelAxis, label_axis, named_values, number
from reports.results.readings import Reading
from reports.results.series import Series, belongs, left_out_of_comparison, num_expected
from reports.results.variant_labels import shown_name, what_baseline_is
from reports.stats.intervals import Estimate, mean_interval
from suite.schema import CONTROLS, MIXER_ALONE, About, Better

LENGTH = "length"
_TRAINED = ("initial_", "trained_", "validation_")  # how a metric of a trained model may begin
_MOST_PARTS = 6


@dataclass(frozen=True, kw_only=True)
class Spot:
    """What a line has at one place.

    Attributes:
        estimate: Mean over the seeds that ended well, with its 95 % interval.
        is_partial: Whether a seed is missing from it.
        fate: What became of it, where there is no number.
    """

    estimate: Estimate
    is_partial: bool = False
    fate: str = ""


@dataclass(frozen=True, kw_only=True)
class Line:
    """One variant, or one group of them.

    Attributes:
        name: As a figure names it.
        variants: All that are on it.
        index: Which look it has.
        note: What the name does not say.
        is_baseline: Whether the baseline is on it.
        spots: Place -> what stands there; places ascending.
    """

    name: str
    variants: tuple[str, ...]
    index: int
    note: str = ""
    is_baseline: bool
    spots: Mapping[float, Spot]

    @property
    def points(self) -> dict[float, float]:
        """Place -> mean, where there is one."""
        found = {place: spot.estimate.point for place, spot in self.spots.items()}
        return {place: point for place, point in found.items() if point is not None}


@dataclass(frozen=True, kw_only=True)
class Along:
    """One metric along one number.

    Attributes:
        of: The part of the task that it is the score of, as ``pairs=8``; empty of the whole.
        axis: Of the coordinates, or in the labels.
        row_title: What a line is: ``variant``, or what groups have in common.
        trained_at: The length that all were trained at; None where it is no axis of lengths.
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
    lines: tuple[Line, ...]

    @property
    def is_of_groups(self) -> bool:
        """Whether a line is a group of variants."""
        return self.row_title != "variant"

    @property
    def places(self) -> tuple[float, ...]:
        """Where any line has something, ascending."""
        return tuple(sorted({place for line in self.lines for place in line.spots}))


def along_coordinates(about: About, measured: Sequence[Series], task: str) -> Iterator[Along]:
    """A line a variant, for each metric that a comparison leaves out for its coordinates."""
    found: dict[tuple[str, str, str], list[tuple[float, Series]]] = {}
    for series in left_out_of_comparison(_of_task(measured, task)):
        name, place = coordinate(series.at)
        if place is not None:
            found.setdefault((series.probe, series.metric, name), []).append((place, series))
    for (_, _, name), placed in found.items():
        yield _of_variants(about, measured, name, sorted(placed, key=lambda one: one[0]))


def along_labels(about: About, measured: Sequence[Series], task: str) -> Iterator[Along]:
    """A line a group, for each score, its parts, and what is said of a trained model."""
    axis = label_axis(about, task)
    if axis is None or max(len(group.variants) for group in axis.groups) < 2:
        return
    every = [series for series in _of_task(measured, task) if _is_of_training(series)]
    parts = [series for series in every if series.at]
    for series in every:
        if not series.at or len(parts) <= _MOST_PARTS:
            yield _of_groups(about, series, axis)


def coordinate(at: str) -> tuple[str, float | None]:
    """A coordinate's name and its number; no number where it is none, or holds no number."""
    named = named_values(at)
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


def _is_of_training(series: Series) -> bool:
    return series.is_score or (not series.at and series.metric.startswith(_TRAINED))


def _of_variants(
    about: About, measured: Sequence[Series], name: str, placed: Sequence[tuple[float, Series]]
) -> Along:
    first = placed[0][1]
    met = [variant for variant in about.variants if belongs(variant, first.task)]
    lengths = {v: float(setting(about, v, LENGTH)) for v in met} if _is_tested(first, name) else {}
    whole = next((s for s in measured if s.is_whole_score and _is_same(s, first)), None)
    order = {variant: index for index, variant in enumerate(about.variants)}
    lines = []
    for variant in met:
        spots = {place: _spot(about, series, variant) for place, series in placed}
        if whole is not None and lengths.get(variant):
            spots[lengths[variant]] = _spot(about, whole, variant)
        lines.append(
            Line(
                name=_name(about, variant), variants=(variant,),
                index=order[variant], is_baseline=variant == about.baseline,
                note=what_baseline_is(about) if variant == about.baseline else "",
                spots=dict(sorted(spots.items())),
            )
        )  # fmt: skip
    trained = set(lengths.values()) - {0.0}
    return _along(first, name, lines, trained_at=trained.pop() if len(trained) == 1 else None)


def _name(about: About, variant: str) -> str:
    """With what the baseline is; that alone where both would not fit."""
    name = shown_name(about, variant)
    what = what_baseline_is(about) if variant == about.baseline else ""
    return what if what and len(name) > MAX_LETTERS else name


def _is_tested(series: Series, name: str) -> bool:
    """Whether it is a score at another length than that of the training."""
    return series.is_score and name == LENGTH


def _is_same(a: Series, b: Series) -> bool:
    return (a.task, a.probe, a.metric, a.unit) == (b.task, b.probe, b.metric, b.unit)


def _of_groups(about: About, series: Series, axis: LabelAxis) -> Along:
    lines = [
        _line(about, series, group, index)
        for index, group in enumerate(axis.groups)
    ]  # fmt: skip
    return _along(series, axis.name, lines, of=series.at, row_title=", ".join(axis.others))


def _line(about: About, series: Series, group: Group, index: int) -> Line:
    variants = tuple(group.variants.values())
    return Line(
        name=group.name, variants=variants, index=index, note=group.note,
        is_baseline=about.baseline in variants,
        spots={place: _spot(about, series, v) for place, v in group.variants.items()},
    )  # fmt: skip


def _along(
    series: Series, axis: str, lines: Sequence[Line], *, of: str = "", row_title: str = "variant",
    trained_at: float | None = None,
) -> Along:  # fmt: skip
    return Along(
        task=series.task, probe=series.probe, metric=series.metric, unit=series.unit,
        better=series.better, of=of, axis=axis, row_title=row_title, trained_at=trained_at,
        lines=tuple(lines),
    )  # fmt: skip


def _spot(about: About, series: Series, variant: str) -> Spot:
    values = tuple(series.values(variant).values())
    readings: Sequence[Reading] = series.of(variant)
    fates = dict.fromkeys(reading.fate for reading in readings)
    return Spot(
        estimate=mean_interval(values),
        is_partial=0 < len(values) < num_expected(series, about),
        fate="" if values else ", ".join(fates) or "no result",
    )
