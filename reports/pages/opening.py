"""Choose the figure at the top of a page: the one that answers the question of the title.

A numeric axis is drawn as lines, and so are coordinates of the claim's metric; crossed axes, and
tasks with the same score, as groups side by side; a plain comparison as dots. The rule looks only
at the axes and at what was measured. `Ablation.opens_with` overrides it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from bakeoff.reports.document import Drawing, listed, readable
from bakeoff.reports.plots.length_sweep import crossover_figure
from bakeoff.reports.plots.scores import score_figure
from bakeoff.reports.plots.style import MAX_LINES
from bakeoff.reports.plots.tradeoff import state_figure
from bakeoff.reports.results.axis_values import all_values_of, as_text, belongs, number
from bakeoff.reports.results.length_sweep import Growth, find
from bakeoff.reports.results.series import Series
from bakeoff.reports.results.spoken_names import (
    axis_in_words,
    shown_names,
    spoken_group,
    value_in_words,
)
from bakeoff.reports.results.variant_labels import shown_variants
from bakeoff.reports.sections.axis_series import (
    ASKED,
    AxisLine,
    AxisSeries,
    axis_figure,
    coordinate,
    coordinate_series,
    line_point,
)
from bakeoff.reports.sections.scaling_law import law_figure, law_groups
from bakeoff.suite.schema import MIXER_ALONE, About
from bakeoff.suite.schema.old_labels import Value

MOST_DRAWN = 10  # variants that fit into a figure of dots on one screen
FORWARD_BACKWARD = "forward_backward_seconds"
BY = "by "  # `Ablation.opens_with` names a coordinate or an axis, as ``by corruption``
TASK = "task"  # the axis of tasks side by side
CONDITION = "several-axes"  # the axis of the values of all axes but the first; a name of no axis
MULTIPLE = "multiple"  # the axis of several numeric axes that are varied one at a time
_MOST_OF_A_KIND = 0.75  # share of the variants that lines along one number must hold
_BEFORE = ("trained_", "initial_")
_WRITTEN = "written_"
_PASSES = {FORWARD_BACKWARD: "forward and backward"}  # the title in the section on mixers


@dataclass(frozen=True, kw_only=True)
class Opening:
    """The figures at the top of a page, and the numbers of the main one.

    Attributes:
        drawings: The figures, the main one first.
        along: The numbers of the main figure if it runs along an axis, or None.
        at: Place -> line name -> the series and the variant of the point there.
        growth: The times by length, if a figure shows crossovers, or None.
    """

    drawings: tuple[Drawing, ...] = ()
    along: AxisSeries | None = None
    at: Mapping[float, Mapping[str, tuple[Series, str]]] | None = None
    growth: Growth | None = None


@dataclass(frozen=True, kw_only=True)
class _OpeningCase:
    about: About
    measured: Sequence[Series]
    series: Series
    sides: Sequence[str]
    growths: Sequence[Growth]


_Points = Mapping[str, Mapping[float, tuple[Series, str]]]  # line name -> place -> series, variant


def opening(
    about: About,
    measured: Sequence[Series],
    series: Series,
    sides: Sequence[str] = (),
    growths: Sequence[Growth] = (),
) -> Opening:
    """Return the figures for the top of the page; none if there is nothing to draw.

    Args:
        about: The sweep.
        measured: All series without controls.
        series: The series that the claim is judged by, or that the first task is judged by.
        sides: The sides of the claim, if there is one.
        growths: The metrics of mixers alone along lengths.
    """
    case = _OpeningCase(about=about, measured=measured, series=series, sides=sides, growths=growths)
    for make in _RULES:
        found = make(case)
        if found is not None and found.drawings:
            return _with_savings(case, found)
    return Opening()


def _asked_for(case: _OpeningCase) -> Opening | None:
    """Return the figure along the axis or coordinate that `Ablation.opens_with` names."""
    if not case.about.opens_with.startswith(BY):
        return None
    name = case.about.opens_with.removeprefix(BY)
    return _along(case, name) or _lines(case, (name,)) or _kinds(case, name)


def _law(case: _OpeningCase) -> Opening | None:
    about, series = case.about, case.series
    groups = law_groups(about, case.measured, series.task) if about.held_out else ()
    drawing = law_figure(series, groups) if groups and series.is_whole_score else None
    return Opening(drawings=(drawing,)) if drawing else None


def _crossovers(case: _OpeningCase) -> Opening | None:
    """Return times of mixers alone by length, relative to the baseline's."""
    series = case.series
    if series.task != MIXER_ALONE or series.unit != "s" or not series.at.startswith("length="):
        return None
    return _times(case, series.metric, series.environment_id)


def _times(case: _OpeningCase, metric: str, environment_id: str) -> Opening | None:
    growth = find(case.growths, metric, "length", environment_id)
    what = _PASSES.get(metric, readable(metric.removesuffix("_seconds")))
    drawing = crossover_figure(case.about, growth, what) if growth else None
    return Opening(drawings=(drawing,), growth=growth) if drawing else None


def _coordinates(case: _OpeningCase) -> Opening | None:
    """Return the metric along the coordinate of the claim, or along the return asked for."""
    name = coordinate(case.series.at)[0] if case.series.at else ASKED
    return _along(case, name) if case.series.task != MIXER_ALONE else None


def _along(case: _OpeningCase, name: str) -> Opening | None:
    about, series = case.about, case.series
    found = [
        each
        for each in coordinate_series(about, case.measured, series.task)
        if each.axis == name and each.unit == series.unit
        if each.metric.removeprefix(_WRITTEN) == series.metric.removeprefix(_WRITTEN)
    ]
    if not found or len(found[0].lines) > MAX_LINES:
        return None
    along = found[0]
    there = {
        coordinate(one.at)[1]: one
        for one in case.measured
        if (one.task, one.metric) == (along.task, along.metric) and coordinate(one.at)[0] == name
    }
    whole = next((s for s in case.measured if s.is_whole_score and s.task == along.task), None)
    points = {}
    for line in along.lines:
        (variant,) = line.variants
        points[line.name] = {
            place: (one, variant)
            for place in line.points
            if (one := there.get(place) or whole) is not None
        }
    before = _before(case, along)
    drawing = axis_figure(along, along.lines)
    shown = tuple(filter(None, (drawing, before)))
    return Opening(drawings=shown, along=along, at=_by_place(points)) if drawing else None


def _before(case: _OpeningCase, along: AxisSeries) -> Drawing | None:
    """Return the same metric before training, if the metric is that of a trained model."""
    after, before = _BEFORE
    if not along.metric.startswith(after):
        return None
    wanted = before + along.metric.removeprefix(after)
    every = coordinate_series(case.about, case.measured, along.task)
    found = next((one for one in every if (one.metric, one.axis) == (wanted, along.axis)), None)
    return axis_figure(found, found.lines) if found else None


def _numbers(case: _OpeningCase) -> Opening | None:
    """Return lines along a numeric axis that holds most variants."""
    return _lines(case, case.about.axes)


def _lines(case: _OpeningCase, axes: Sequence[str]) -> Opening | None:
    about, series = case.about, case.series
    met = [v for v in about.variants if belongs(about, v, series.task) and series.values(v)]
    values = {variant: all_values_of(about, variant) for variant in met}
    best: tuple[int, int, str, dict[str, dict[float, str]]] = (0, 0, "", {})
    for name in axes:
        groups = _groups(about, values, name)
        places = {place for group in groups.values() for place in group}
        held = sum(len(group) for group in groups.values())
        is_crossed = held == len(met) and len(groups) > 1 and len(places) > 1
        is_long = len(places) > 2 and held >= _MOST_OF_A_KIND * len(met)
        if (is_crossed or is_long) and (len(places), held) >= best[:2]:
            best = (len(places), held, name, groups)
    _, _, name, groups = best
    if not name or series.task == MIXER_ALONE or len(groups) > MAX_LINES:
        return None
    points = {
        said: {place: (series, variant) for place, variant in group.items()}
        for said, group in groups.items()
    }
    titles = {name: axis_in_words(name), **_not_numbers(case.about, name)}
    return _drawn(case, points, axis=name, titles=titles, how="by")


def _not_numbers(about: About, name: str) -> dict[str, str]:
    """Return the values of an axis that stand for something else: 0 rounds are full attention."""
    said = {key: words for key, words in about.words.items() if key.startswith(f"{name}=")}
    return {key: words for key, words in said.items() if not any(map(str.isdigit, words))}


def _groups(
    about: About, values: Mapping[str, Mapping[str, Value]], name: str
) -> dict[str, dict[float, str]]:
    """Return the variants that differ in one number only, by the values that they share."""
    found: dict[tuple[str, ...], dict[float, str]] = {}
    for variant, named in values.items():
        place = number(named.get(name, ""))
        if place is not None:
            facts = about.subjects.get(variant)
            rest = tuple(as_text(value) for own, value in named.items() if own != name)
            shared = (*rest, facts.mixer if facts else "")  # a line never joins different mixers
            found.setdefault(shared, {}).setdefault(place, variant)
    kept = [dict(sorted(group.items())) for group in found.values() if len(group) > 1]
    names = [spoken_group(about, group.values(), name) for group in kept]
    if len(set(names)) < len(kept):
        names = [f"{said} ({index + 1})" for index, said in enumerate(names)]
    return dict(zip(_distinct(names), kept, strict=True))


def _distinct(names: Sequence[str]) -> list[str]:
    """Return the names without the parts that all of them share, if there are several."""
    parts = [name.split(", ") for name in names]
    shared = set.intersection(*map(set, parts)) if len(parts) > 1 else set()
    return [
        ", ".join(part for part in some if part not in shared) or name
        for some, name in zip(parts, names, strict=True)
    ]


def _multiples(case: _OpeningCase) -> Opening | None:
    """Return a line for each numeric axis, along multiples of the baseline's value.

    This is the figure of numbers that are varied one at a time, such as depth and width.
    """
    about, series = case.about, case.series
    met = [v for v in about.variants if belongs(about, v, series.task) and series.values(v)]
    values = {variant: all_values_of(about, variant) for variant in met}
    points: dict[str, dict[float, tuple[Series, str]]] = {}
    for name in about.axes:
        own = number(values.get(about.baseline, {}).get(name, ""))
        at = {
            amount / own: (series, v)
            for v in met
            if own
            and (amount := number(values[v].get(name, ""))) is not None
            and all(values[v][o] == values[about.baseline][o] for o in about.axes if o != name)
        }
        if len(at) > 2 and own:
            points[f"{axis_in_words(name)} (1 is {own:g})"] = dict(sorted(at.items()))
    held = {variant for at in points.values() for _, variant in at.values()}
    if len(points) < 2 or held != set(met):
        return None
    title = "multiple of the baseline’s value"
    return _drawn(case, points, axis=MULTIPLE, titles={MULTIPLE: title}, how="by")


def _kinds(case: _OpeningCase, asked: str = "") -> Opening | None:
    """Return crossed axes of words: values side by side, a mark for each value of the first axis.

    If there are more than two axes, what stands side by side are conditions: the values of all
    axes but the first.

    Args:
        case: The case.
        asked: The axis to stand side by side, if one is asked for; other axes but the first stay
            at the baseline's values.
    """
    about, series = case.about, case.series
    met = [v for v in about.variants if belongs(about, v, series.task) and series.values(v)]
    values = {variant: all_values_of(about, variant) for variant in met}
    if asked and about.baseline in values:
        own = values[about.baseline]
        fixed = [name for name in about.axes[1:] if name != asked]
        met = [v for v in met if all(values[v][name] == own[name] for name in fixed)]
        values = {variant: values[variant] for variant in met}
    varied = [
        n for n in about.axes if len({as_text(one.get(n, "")) for one in values.values()}) > 1
    ]
    if len(varied) < 2 or len(met) < 4 or series.task == MIXER_ALONE:
        return None
    rows, *others = varied
    beside = {v: tuple(as_text(one[name]) for name in others) for v, one in values.items()}
    columns = list(dict.fromkeys(beside.values()))
    lines = {as_text(one[rows]) for one in values.values()}
    if not 2 <= len(columns) <= MAX_LINES or len(met) != len(lines) * len(columns):
        return None
    points: dict[str, dict[float, tuple[Series, str]]] = {}
    for variant, one in values.items():
        said = value_in_words(about, rows, one[rows])
        place = float(columns.index(beside[variant]) + 1)
        points.setdefault(said, {})[place] = (series, variant)
    if len(points) < len(lines):  # values that have the same name
        return None
    axis = others[0] if len(others) == 1 else CONDITION
    titles = {axis: listed([axis_in_words(name) for name in others])}
    for index, column in enumerate(columns):
        words = map(partial(value_in_words, about), others, column)
        titles[f"{axis}={index + 1}"] = ", ".join(words)
    return _drawn(case, points, axis=axis, titles=titles)


def _tasks(case: _OpeningCase) -> Opening | None:
    """Return a score that several tasks share: tasks side by side, a mark for each variant."""
    about, series = case.about, case.series
    same = [
        one
        for one in case.measured
        if one.is_whole_score and (one.metric, one.unit) == (series.metric, series.unit)
    ]
    if not series.is_whole_score or len(same) < 2 or len(about.variants) > MAX_LINES:
        return None
    names = shown_names(about)
    points = {
        names[v]: {float(n + 1): (one, v) for n, one in enumerate(same) if one.values(v)}
        for v in about.variants
    }
    words = {f"task={n + 1}": readable(one.task) for n, one in enumerate(same)}
    return _drawn(case, points, axis=TASK, titles={TASK: "task", **words})


def _drawn(
    case: _OpeningCase,
    points: _Points,
    *,
    axis: str,
    titles: Mapping[str, str],
    how: str = "",
) -> Opening | None:
    """Return the figure of the points; without `how`, its places are kinds, which have names."""
    about, series = case.about, case.series
    if not 0 < len(points) <= MAX_LINES:
        return None
    lines = tuple(
        AxisLine(
            name=name,
            variants=tuple(dict.fromkeys(variant for _, variant in at.values())),
            index=index,
            is_baseline=any(variant == about.baseline for _, variant in at.values())
            and len(points) > 1,
            at={place: line_point(about, one, variant) for place, (one, variant) in at.items()},
        )
        for index, (name, at) in enumerate(points.items())
    )
    along = AxisSeries(
        task="all tasks" if axis == TASK else series.task,
        probe=series.probe,
        metric=series.metric,
        unit=series.unit,
        better=series.better,
        axis=axis,
        row_title="group",
        titles=titles,
        are_kinds=not how,
        lines=lines,
    )
    drawing = axis_figure(along, lines)
    return Opening(drawings=(drawing,), along=along, at=_by_place(points)) if drawing else None


def _by_place(points: _Points) -> dict[float, dict[str, tuple[Series, str]]]:
    found: dict[float, dict[str, tuple[Series, str]]] = {}
    for name, at in points.items():
        for place, there in at.items():
            found.setdefault(place, {})[name] = there
    return dict(sorted(found.items()))


def _state(case: _OpeningCase) -> Opening | None:
    """Return the score against the bytes of state, if the variants have different mixers."""
    about, series = case.about, case.series
    mixers = {facts.mixer for facts in about.subjects.values() if facts.mixer}
    if not series.is_whole_score or len(about.variants) < 2 or len(mixers) < 2:
        return None
    drawing = state_figure(about, case.measured, series)
    return Opening(drawings=(drawing,)) if drawing else None


def _dots(case: _OpeningCase) -> Opening | None:
    """Return a dot for each seed of the sides, the baseline and as many others as fit."""
    about, series = case.about, case.series
    met = [v for v in about.variants if belongs(about, v, series.task) and series.values(v)]
    first = [v for v in met if v in {*case.sides, about.baseline}]
    others = [v for v in met if v not in first]
    chosen = {*first, *shown_variants(about, others, max(3, MOST_DRAWN - len(first)))}
    shown = [v for v in met if v in chosen]
    drawing = score_figure(about, series, shown, compared=case.sides)
    return Opening(drawings=(drawing,)) if drawing else None


def _with_savings(case: _OpeningCase, found: Opening) -> Opening:
    """Add the times of mixers alone if the main figure is of a score."""
    if found.growth is not None or not case.series.is_score:
        return found
    timed = [g for g in case.growths if (g.metric, g.axis) == (FORWARD_BACKWARD, "length")]
    if not timed:
        return found
    fullest = max(timed, key=lambda growth: len(growth.places) * len(growth.readings))
    added = _times(case, fullest.metric, fullest.environment_id)
    if added is None:
        return found
    return replace(found, drawings=(*found.drawings, *added.drawings), growth=added.growth)


_Rule = Callable[[_OpeningCase], Opening | None]
_RULES: tuple[_Rule, ...] = (
    _asked_for,
    _law,
    _crossovers,
    _coordinates,
    _numbers,
    _multiples,
    _state,
    _kinds,
    _tasks,
    _dots,
)
