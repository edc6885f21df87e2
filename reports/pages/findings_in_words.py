"""Answer the question of a page in sentences that are derived from its numbers.

The first sentence is the claim with its outcome, the means of its two sides, and their difference
with its interval. The sentences after it answer the other parts of a question by rule: the claim at
other places of its axis, the best place of each line, every other change of the baseline, other
tasks, crossovers, and models that do not beat a floor. All but the first are exploratory.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from bakeoff.reports.analysis.claim_data import Evidence, what_is_needed
from bakeoff.reports.analysis.cost import STATE, variant_costs
from bakeoff.reports.analysis.gate import CONFIDENCE, beats_floor, best_floor
from bakeoff.reports.analysis.speedup import BUDGET, speedup_in_words
from bakeoff.reports.analysis.verdict import Verdict
from bakeoff.reports.document import capitalized, listed, readable
from bakeoff.reports.pages.crossings import crossing_in_words, crossings_in_words
from bakeoff.reports.pages.gaps import (
    ALIKE,
    Gap,
    best_of,
    diverged_in_words,
    gap,
    metric_in_words,
    notation_of,
    untested,
    written_means,
)
from bakeoff.reports.pages.opening import CONDITION, MULTIPLE, TASK, Opening
from bakeoff.reports.pages.ranking import MOST_LINES, MOST_NAMED, place_of, some_of
from bakeoff.reports.plots.tradeoff import pareto_front
from bakeoff.reports.results.axis_values import all_values_of, as_text, belongs, number
from bakeoff.reports.results.series import Series
from bakeoff.reports.results.spoken_names import (
    amount_in_words,
    axis_in_words,
    baseline_in_words,
    spoken_name,
    spoken_pair,
    value_in_words,
)
from bakeoff.reports.sections.axis_series import AxisSeries, place_name, readable_place
from bakeoff.reports.stats.intervals import Notation, as_quantity, mean_interval
from bakeoff.reports.tables.comparison import primary
from bakeoff.suite.schema import MIXER_ALONE, About

_FEW = 4
_MOST_PLACES = 3
OF_AMOUNT = frozenset({"num_training_examples", "steps"})  # more of them is expected to help


def sides_in_words(about: About, found: Evidence, judged: Verdict) -> tuple[str, str]:
    """Return two clauses: the means of a claim's sides, and their difference.

    A clause without numbers is empty. The difference is shown whatever the outcome, unless the
    measurements are invalid or a seed diverged.
    """
    series, claim = found.series, found.claim
    if series is None or found.why_invalid:
        return "", ""
    if claim.counted_by:
        return _need_in_words(about, found), ""
    advantage = judged.advantage
    if advantage.point is None:
        advantage = mean_interval(found.differences)
        if not found.is_ratio:
            advantage = series.mean_difference(found.differences)
    resolution = series.resolution if found.is_unresolved else 0.0
    notation = Notation() if found.is_ratio else notation_of(series, advantage)
    means = written_means(series, (claim.a, claim.b), notation)
    if len(means) < 2:
        return "", ""
    a, b = spoken_pair(about, claim.a, claim.b)
    said = f"{metric_in_words(series)} is {means[claim.a]} ({a}) against {means[claim.b]} ({b})"
    if found.diverged or not found.differences:
        return said, ""
    if not any(found.differences) and not found.is_ratio:
        return said, "the same with every seed"
    shown = Gap(advantage, notation, is_ratio=found.is_ratio, resolution=resolution)
    rate = gap(series, claim.a, claim.b)
    times = f", {rate.size}" if rate.is_ratio and not found.is_ratio and shown.is_seen else ""
    return said, f"{shown.text}{times}"


def _need_in_words(about: About, found: Evidence) -> str:
    """Return the budget that one side of a speedup needs, or an empty string if it is unknown."""
    claim = found.claim
    if found.speedup is None:
        return ""
    values = {v: all_values_of(about, v).get(BUDGET) for v in claim.compared}
    like_a = next((v for v in claim.curve if values[v] == values[claim.a]), claim.b)
    a, _ = spoken_pair(about, claim.a, claim.b)
    _, b = spoken_pair(about, claim.a, like_a)  # without the steps, which the curve varies
    _, interval = speedup_in_words(found.speedup)
    is_inside = found.advantage.point is not None
    return what_is_needed(found, a, b) + (f" ({interval})" if interval and is_inside else "")


@dataclass(frozen=True, kw_only=True)
class Lead:
    """The sentences that answer the question of a title directly.

    Attributes:
        sentences: The sentences; empty if the claim answers the question by itself.
        has_means: Whether they state the means of both sides of the claim.
        has_gap: Whether they state the difference of both sides of the claim.
        after: Sentences that answer the rest of the question, after the claim.
    """

    sentences: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    has_means: bool = False
    has_gap: bool = False


@dataclass(frozen=True, kw_only=True)
class FindingsCase:
    """The numbers and the figure that the sentences of a page are made from.

    Attributes:
        about: The sweep.
        measured: All series without controls, floors beside the scores.
        series: The series that the page is judged by.
        sides: The sides of the claim, if there is one.
        top: The figures at the top of the page.
        lead: The sentences of the first paragraph, which are not repeated.
    """

    about: About
    measured: Sequence[Series]
    series: Series
    sides: Sequence[str]
    top: Opening
    lead: Lead = Lead()


def along_the_axis(case: FindingsCase) -> str:
    """Return a clause on the claim at the other places of the figure, or an empty string."""
    return "; ".join((*_elsewhere(case), *_savings(case)))


def other_findings(case: FindingsCase) -> Iterator[str]:
    """Yield the sentences after the first paragraph."""
    stated = {*case.lead.sentences, *case.lead.after}
    for rule in _RULES:
        yield from (each for each in rule(case) if each not in stated)


def _elsewhere(case: FindingsCase) -> Iterator[str]:
    """Yield the comparison of the claim's sides at the other places of the figure."""
    along, at = case.top.along, case.top.at
    if along is None or not at or len(case.sides) < 2 or along.axis in (TASK, MULTIPLE):
        return
    a, b = (line_of(at, side) for side in case.sides)
    if along.is_aimed_at and (got := _asked_and_got(at, case.sides[0], is_short=True)):
        yield got
    if along.better == "none" or a is None or b is None:
        return
    if a == b:
        yield from _same_change(case, a)
        yield from _best_on(along, at, a)
        return
    gaps = {
        place: gap(there[a][0], there[a][1], there[b][1])
        for place, there in at.items()
        if a in there and b in there and there[a][0] is there[b][0]
        if not _is_claimed(case, there[a], there[b])
    }
    is_short = along.has_kinds or len(gaps) <= _MOST_PLACES + 1
    shown = gaps if is_short else {p: gaps[p] for p in _spread(list(gaps))}
    rivals = "" if {a, b} == {*spoken_pair(case.about, *case.sides)} else f"{a} against {b} "
    for place, one in shown.items():
        yield f"{rivals}{at_place(along, place)}: {one.text}"
        rivals = ""
    claimed = gap(case.series, *case.sides)
    is_whole = not along.has_kinds and len(gaps) == len(at) - 1 > 0
    if is_whole and all(one.is_better for one in (claimed, *gaps.values())):
        yield f"better at every {_number_of(along.axis)} that was measured"


def _same_change(case: FindingsCase, own: str) -> Iterator[str]:
    """Yield the change of the claim for the other lines, if its sides are kinds on one line."""
    along, at = case.top.along, case.top.at
    if along is None or not at or not along.has_kinds:
        return
    first, second = (
        next(p for p, there in at.items() if own in there and there[own][1] == side)
        for side in case.sides
    )
    for name in at[first]:
        if name != own and name in at[second]:
            (series, a), (_, b) = at[first][name], at[second][name]
            yield f"for {name}: {gap(series, a, b).text}"


def _best_on(
    along: AxisSeries, at: Mapping[float, Mapping[str, tuple[Series, str]]], line: str
) -> Iterator[str]:
    """Yield the best place of the line that both sides of the claim are on."""
    there = {place: points[line] for place, points in at.items() if line in points}
    series = next(iter(there.values()))[0]
    found = best_of(series, [variant for _, variant in there.values()])
    if found is None or along.has_kinds or len(there) < 3:
        return
    best, alike = found
    where = {variant: place for place, (_, variant) in there.items()}
    if untested(series, best, alike):
        yield f"the best mean is at {place_name(along, where[best])}, with too few seeds for a test"
        return
    names = listed([place_name(along, where[variant]) for variant in alike])
    same = f", not significantly different from {names}" if alike else ""
    yield f"the best is {amount_in_words(along.axis, where[best])}{same}"


def _savings(case: FindingsCase) -> Iterator[str]:
    """Yield from which length a side of the claim is faster than the baseline."""
    growth = case.top.growth
    if growth is not None:
        for side in case.sides:
            if side != case.about.baseline and side in growth.variants:
                yield crossing_in_words(case.about, growth, side)


def holds(there: Mapping[str, tuple[Series, str]], sides: Sequence[str]) -> bool:
    """Return True if all sides are among the variants at a place."""
    return {*sides} <= {variant for _, variant in there.values()}


def line_of(at: Mapping[float, Mapping[str, tuple[Series, str]]], side: str) -> str | None:
    """Return the name of the line that a side of the claim is on; that of an only line is empty."""
    found = (
        name for there in at.values() for name, (_, variant) in there.items() if variant == side
    )
    return next(found, None)


def _is_claimed(case: FindingsCase, a: tuple[Series, str], b: tuple[Series, str]) -> bool:
    """Return True if the points are those of the claim, which the first sentence states."""
    is_there = a[0].at == case.series.at and a[0].unit == case.series.unit
    return is_there and (a[1], b[1]) == tuple(case.sides)


def _spread(places: Sequence[float]) -> list[float]:
    last = len(places) - 1
    return [places[round(i * last / (_MOST_PLACES - 1))] for i in range(_MOST_PLACES)]


def at_place(along: AxisSeries, place: float) -> str:
    """Return a place with its axis, as ``at 1,000 training examples`` or ``for noise``."""
    title = along.title_of(place)
    if title and (along.has_kinds or along.axis not in along.titles):
        return f"for {title}"
    if title:
        return f"at {title} {along.titles[along.axis]}"
    if along.axis in along.titles and along.titles[along.axis] != axis_in_words(along.axis):
        return f"at {along.titles[along.axis]} {readable_place(place)}"
    if along.axis in ("length", "distance"):
        return f"at {along.axis} {readable_place(place)}"
    return f"at {amount_in_words(along.axis, place)}"


def _claim_elsewhere(case: FindingsCase) -> Iterator[str]:
    """Yield the comparison of the claim at other places, if the first paragraph does not."""
    along = case.top.along
    if not case.lead.sentences or along is None or along.is_aimed_at:
        return
    if along.axis == CONDITION:  # the lead compares the lines of both sides at each place
        return
    a, b = (line_of(case.top.at or {}, side) for side in case.sides)
    if a != b and (said := [*_elsewhere(case)]):
        first, second = spoken_pair(case.about, *case.sides)
        rivals = f"{first} against {second} " if said[0].startswith(("at ", "for ")) else ""
        yield f"{capitalized(rivals + '; '.join(said))}."


def _before(case: FindingsCase) -> Iterator[str]:
    """Yield the claim's comparison before training, if its metric is that of a trained model."""
    series = case.series
    if not series.metric.startswith("trained_") or len(case.sides) < 2:
        return
    wanted = series.metric.replace("trained_", "initial_", 1)
    for one in case.measured:
        if (one.task, one.metric, one.at) == (series.task, wanted, series.at):
            yield f"Before training, the same comparison is {gap(one, *case.sides).text}."


def best_of_lines(case: FindingsCase) -> Iterator[str]:
    """Yield the best place of each line along a number, and what a second place changes."""
    along, at = case.top.along, case.top.at
    if along is None or not at or along.has_kinds or along.axis == MULTIPLE:
        return
    if case.series.at or not (along.is_of_groups or along.is_aimed_at):
        return
    if along.is_aimed_at:
        for side in case.sides or (case.about.baseline,):
            if got := _asked_and_got(at, side):
                yield f"{capitalized(got)}."
        return
    if along.better == "none":
        return
    lines: dict[str, dict[float, tuple[Series, str]]] = {}
    for place, there in at.items():
        for name, point in there.items():
            lines.setdefault(name, {})[place] = point
    if len(at) == 2:
        if along.axis not in OF_AMOUNT and len(lines) > 2:
            yield from _changes_of_lines(along, lines)
        return
    if len(lines) == 1:
        (points,) = lines.values()
        series = next(iter(points.values()))[0]
        means = written_means(series, [variant for _, variant in points.values()])
        lost = {
            variant: f" ({text})"
            for _, variant in points.values()
            if (text := diverged_in_words(series, variant))
        }
        values = ", ".join(
            f"{means[variant]} at {place_name(along, place)}{lost.get(variant, '')}"
            for place, (_, variant) in points.items()
            if variant in means
        )
        told = _best_place(along, "", points)
        yield f"By {axis_in_words(along.axis)}, {metric_in_words(series)} is {values}; {told}."
    elif lines:
        what = f" {_number_of(along.axis)}"
        some = [*lines.items()][:MOST_LINES]
        best = [_best_place(along, name, points, what) for name, points in some]
        yield f"By {readable(along.metric)}, {'; '.join(best)}."


def _number_of(axis: str) -> str:
    said = axis_in_words(axis)
    return f"number of {said}" if said.endswith("s") else said


def _asked_and_got(
    at: Mapping[float, Mapping[str, tuple[Series, str]]], side: str, *, is_short: bool = False
) -> str:
    """Return what was got for each value that was asked for, or for the first and the last.

    It is empty if nothing was measured.
    """
    name = line_of(at, side) or ""
    asked = [place for place, there in at.items() if name in there]
    asked = [asked[0], asked[-1]] if is_short and len(asked) > 2 else asked
    if not asked:
        return ""
    got = [written_means(at[place][name][0], [side])[side] for place in asked]
    return f"asked for {listed([f'{x:g}' for x in asked])}, {name} got {listed(got)}"


def _best_place(
    along: AxisSeries, name: str, points: Mapping[float, tuple[Series, str]], what: str = ""
) -> str:
    """Return a clause on the best place of a line, as ``for attention the best is 0.02 (2.855)``.

    Args:
        along: The axis.
        name: The name of the line, or empty for the only one, whose means are written before.
        points: Place -> its metric and variant.
        what: The name of the axis after a space, for places that have no names.
    """
    series = next(iter(points.values()))[0]
    variants = {place: variant for place, (_, variant) in points.items()}
    found = best_of(series, list(variants.values()))
    start = f"for {name} " if name else ""
    if found is None:
        return f"{start}there is no result"
    best, alike = found
    where = {variant: place_name(along, place) for place, variant in variants.items()}
    if untested(series, best, alike):
        return f"{start}the best mean is at {where[best]}, with too few seeds for a test"
    mean = [written_means(series, [best])[best]] if name else []
    lost = [where[v] for v in variants.values() if name and series.seeds_diverged(v)]
    apart = [f"not compared with {listed(lost)}, of which seeds diverged"] if lost else []
    if len(alike) == len(variants) - 1:
        at = f", {mean[0]}," if mean else ""
        return f"{start}no value is shown to differ from the best mean{at} at {where[best]}"
    others = listed([where[v] for v in alike])
    same = [f"not significantly different from {others}"] if alike else []
    remarks = ", ".join([*mean, *same, *apart])
    end = f" ({remarks})" if name else f", {remarks}" if remarks else ""
    title = next(along.title_of(place) for place, v in variants.items() if v == best)
    return f"{start}the best{'' if title else what} is {where[best]}{end}"


def _changes_of_lines(
    along: AxisSeries, lines: Mapping[str, Mapping[float, tuple[Series, str]]]
) -> Iterator[str]:
    """Yield what the second of two places changes for each line."""
    first, last = along.places[0], along.places[-1]
    seen, open_ones = [], []
    for name, points in lines.items():
        if first not in points or last not in points:
            continue
        one = gap(points[last][0], points[last][1], points[first][1])
        if one.is_seen or not one.is_tested:
            seen.append(f"{name} {one.text}")
        else:
            open_ones.append(name)
    ends = f"{readable_place(first)} to {readable_place(last)}"
    parts = [*seen, f"{ALIKE} for {listed(open_ones)}" if open_ones else ""]
    yield f"From {axis_in_words(along.axis)} {ends}: {'; '.join(filter(None, parts))}."


def beside_lines(case: FindingsCase) -> Iterator[str]:
    """Yield variants that are on no line of numbers, against those from which one value differs."""
    about, along, at = case.about, case.top.along, case.top.at
    if along is None or not at or along.has_kinds or not along.is_of_groups:
        return
    held = {variant for there in at.values() for _, variant in there.values()}
    values = {variant: all_values_of(about, variant) for variant in about.variants}
    found: dict[tuple[str, str], list[str]] = {}
    for variant in about.variants:
        if variant in held or not case.series.values(variant):
            continue
        for other in sorted(held):
            mine, theirs = values[variant], values[other]
            differ = [name for name in theirs if theirs[name] != mine[name]]
            if len(differ) == 1 and mine[differ[0]] != "":
                (name,) = differ
                line = line_of(at, other)
                place = next(p for p, there in at.items() if holds(there, [other]))
                text = gap(case.series, variant, other).text
                text += f"{f' for {line}' if line else ''} {at_place(along, place)}"
                words = (
                    value_in_words(about, name, mine[name]),
                    (
                        f"the default {axis_in_words(name)}"
                        if theirs[name] == ""
                        else value_in_words(about, name, theirs[name])
                    ),
                )
                found.setdefault(words, []).append(text)
                break
    for (a, b), texts in found.items():
        yield f"{capitalized(a)} instead of {b}: {'; '.join(texts)}."


def _changes(case: FindingsCase) -> Iterator[str]:
    """Yield every other variant against the baseline, if the figure shows no lines of numbers."""
    about, series, along = case.about, case.series, case.top.along
    is_drawn = along is not None and (along.is_of_groups and along.axis not in (TASK, MULTIPLE))
    if is_drawn or series.task == MIXER_ALONE or about.held_out or series.better == "none":
        return
    if along is not None and along.axis == TASK and len(learnt_scores(case)) > 2:
        return
    is_stated = about.baseline in case.sides and not case.lead.has_gap
    stated = set(case.sides) if is_stated else set()
    yield from against_baseline(case, series, stated)


def against_baseline(case: FindingsCase, series: Series, stated: Collection[str]) -> Iterator[str]:
    """Yield how the variants differ from the baseline, except those stated already."""
    about = case.about
    others = [
        v
        for v in about.variants
        if v not in {about.baseline, *stated} and belongs(about, v, series.task)
        if series.values(v)
    ]
    if not others or not series.values(about.baseline):
        return
    gaps = {v: gap(series, v, about.baseline) for v in others}
    names = {v: spoken_pair(about, v, about.baseline)[0] for v in others}
    is_ratio = any(one.is_ratio for one in gaps.values())
    sizes = {v: f"{names[v]}{', ' if is_ratio else ' by '}{one.size}" for v, one in gaps.items()}
    better = [sizes[v] for v, one in gaps.items() if one.is_better]
    worse = [sizes[v] for v, one in gaps.items() if one.is_seen and not one.is_better]
    open_ones = [f"{names[v]} ({one.text})" for v, one in gaps.items() if not one.is_tested]
    alike = [names[v] for v, one in gaps.items() if one.is_tested and not one.is_seen]
    if len(alike) < _FEW or len(alike) == len(others):  # their differences fit, too
        alike = [
            f"{names[v]} {one.text.removeprefix(f'{ALIKE} ')}"
            for v, one in gaps.items()
            if one.is_tested and not one.is_seen
        ]
    parts = [
        f"{'faster' if is_ratio else 'better'}: {some_of(better)}" if better else "",
        f"{'slower' if is_ratio else 'worse'}: {some_of(worse)}" if worse else "",
        f"{ALIKE}: {some_of(alike)}" if alike else "",
        f"not tested: {some_of(open_ones)}" if open_ones else "",
    ]
    name, _, place = series.at.partition("=")
    along = case.top.along
    is_drawn = along is not None and along.axis == name and number(place) is not None
    there = at_place(along, float(place)) if along and is_drawn else f"at {name} {place_of(place)}"
    at = f" {there}" if series.at else ""
    if not series.at and series.task != MIXER_ALONE and len(about.tasks) > 1:
        at = f" on {readable(series.task)}"
    mean = written_means(series, [about.baseline])[about.baseline]
    metric = metric_in_words(series)
    if len(alike) == len(others) and not stated:
        yield (
            f"No change of {baseline_in_words(about)} makes a significant difference to its "
            f"{metric} of {mean}{at}: {some_of(alike)}."
        )
        return
    told = "; ".join(filter(None, parts))
    yield f"{capitalized(metric)}{at} is {mean} with {baseline_in_words(about)}; {told}."


def best_of_parts(case: FindingsCase) -> Iterator[str]:
    """Yield the best variant on each part of the task, if the figure shows parts that are kinds."""
    along, at = case.top.along, case.top.at
    if along is None or not at or along.is_of_groups or not along.has_kinds:
        return
    sure, unsure, lost = [], [], dict[str, None]()
    for place, there in at.items():
        series = next(iter(there.values()))[0]
        names = {variant: name for name, (_, variant) in there.items()}
        lost |= {name: None for v, name in names.items() if series.seeds_diverged(v)}
        found = best_of(series, list(names))
        if found is None:
            continue
        where, (best, alike) = f"on {along.title_of(place)}", found
        mean = written_means(series, [best])[best]
        if untested(series, best, alike):
            unsure.append(f"{where} {names[best]} ({mean})")
        elif together := _together(case.about, {best, *alike}, names):
            sure.append(f"{where} {together} ({mean})")
        else:
            same = f"; not significantly different from {some_of([names[v] for v in alike])}"
            sure.append(f"{where} {names[best]} ({mean}{same if alike else ''})")
    remark = f"; not compared, since seeds diverged: {some_of([*lost])}" if lost else ""
    if sure:
        told = "; ".join(sure)
        yield f"The best, with what does not differ significantly from it: {told}{remark}."
    if unsure:
        yield f"The best mean, with too few seeds for a test: {'; '.join(unsure)}{remark}."


def _together(about: About, some: Collection[str], every: Collection[str]) -> str:
    """Return what variants share, in words, or an empty string if others share it, too.

    Args:
        about: The sweep.
        some: The variants.
        every: All variants of which they are some.
    """
    if len(some) < 2:
        return ""
    if len(some) == len(every):
        return "every variant"
    values = {variant: all_values_of(about, variant) for variant in every}
    for axis in about.axes:
        texts = {variant: as_text(one.get(axis, "")) for variant, one in values.items()}
        text = texts[next(iter(some))]
        if text and {variant for variant, other in texts.items() if other == text} == {*some}:
            return value_in_words(about, axis, text)
    return ""


def on_other_tasks(case: FindingsCase) -> Iterator[str]:
    """Yield how variants do on the other tasks, of those on which some variant beats the floor."""
    about, along, scores = case.about, case.top.along, learnt_scores(case)
    if about.held_out:
        return
    if along is not None and along.axis == TASK and len(scores) > 2:
        yield from over_tasks(about, scores)
        return
    others = [one for one in scores if one.task != case.series.task]
    if len(case.sides) == 2 and case.series.is_score and others:
        parts = [f"{gap(one, *case.sides).text} on {readable(one.task)}" for one in others]
        a, b = spoken_pair(about, *case.sides)
        yield f"On other tasks, {a} against {b}: {'; '.join(parts)}."


def _scores(case: FindingsCase) -> list[Series]:
    """Return the whole score of each task."""
    found = [primary(case.measured, task) for task in case.about.tasks if task != MIXER_ALONE]
    return [one for one in found if one is not None and one.is_whole_score]


def learnt_scores(case: FindingsCase) -> list[Series]:
    """Return the scores that some variant lifts above the floors; others compare nothing."""
    return [
        one
        for one in _scores(case)
        if any(beats_floor(case.about, one, v) for v in case.about.variants if one.values(v))
    ]


def over_tasks(about: About, scores: Sequence[Series]) -> Iterator[str]:
    """Yield on how many tasks each variant is better or worse than the baseline."""
    parts = []
    for variant in about.variants:
        every = [gap(one, variant, about.baseline) for one in scores if one.values(variant)]
        gaps = [one for one in every if one.is_tested]
        if variant == about.baseline or not gaps:
            continue
        better = sum(one.is_better for one in gaps)
        worse = sum(one.is_seen and not one.is_better for one in gaps)
        told = [f"better on {better}" if better else "", f"worse on {worse}" if worse else ""]
        words = listed([*filter(None, told)]) or "not shown to differ on any"
        parts.append(f"{spoken_name(about, variant)} {words} of {len(gaps)}")
    if parts:
        where = f"Over {len(scores)} tasks, compared with {baseline_in_words(about)}"
        yield f"{where}: {'; '.join(parts)}."


def faster_from(case: FindingsCase) -> Iterator[str]:
    """Yield from which length each mixer is faster than the baseline."""
    said = crossings_in_words(case.about, case.top.growth) if case.top.growth else ""
    if said:
        yield said


def _floors(case: FindingsCase) -> Iterator[str]:
    """Yield the variants that are not shown to beat the best floor of a task."""
    for score, floor, below, num_met in _below_floors(case):
        if len(below) == num_met:
            continue
        names = [
            f"{spoken_name(case.about, v)} ({mean})"
            for v in below
            for mean in written_means(score, [v]).values()
        ]
        told = some_of(names) if len(below) <= MOST_NAMED else f"{len(below)} of {num_met} variants"
        yield (
            f"On {readable(score.task)}, a predictor without an architecture ({floor}) is not "
            f"shown, at {100 * CONFIDENCE:g} %, to be worse than {told}."
        )
    yield from not_learnt(case)


def not_learnt(case: FindingsCase) -> Iterator[str]:
    """Yield the tasks on which no variant is shown to beat the best floor."""
    none = [
        f"{readable(score.task)} ({floor})"
        for score, floor, below, num_met in _below_floors(case)
        if len(below) == num_met
    ]
    if none:
        yield (
            "No variant is shown to be better than a predictor without an architecture on "
            f"{listed(none)}."
        )


def _below_floors(case: FindingsCase) -> Iterator[tuple[Series, str, list[str], int]]:
    """Yield scores, their best floor in words, the variants not shown to beat it, of how many."""
    about = case.about
    for score in _scores(case):
        floor = best_floor(about, score)
        met = [v for v in about.variants if belongs(about, v, score.task) and score.values(v)]
        below = [variant for variant in met if not beats_floor(about, score, variant)]
        if floor is not None and below:
            yield score, f"{floor[0]}, {floor[1]:.4g}", below, len(met)


def smallest_states(case: FindingsCase) -> Iterator[str]:
    """Yield the best variants for their bytes of state, if the figure is against these."""
    about, series = case.about, case.series
    if not any(drawing.name.endswith(f"-for-{STATE}") for drawing in case.top.drawings):
        return
    costs = variant_costs(about, case.measured, series.task)
    amounts = next((cost.amounts for cost in costs if cost.key == STATE), {})
    means = {v: series.mean(v).point for v in about.variants}
    places = {
        v: (amount, point) for v, amount in amounts.items() if (point := means.get(v)) is not None
    }
    found = best_of(series, list(places))
    if found is None:
        return
    best, alike = found
    written = {v: written_means(series, [v])[v] for v in places}
    ordered = sorted(places, key=lambda v: (places[v][0], places[v][1]))
    shown = ordered if len(ordered) <= MOST_LINES else pareto_front(places, series)
    sizes = {v: as_quantity("B", amount) for v, (amount, _) in places.items()}
    names = {v: spoken_name(about, v) for v in places}
    lost = {v: diverged_in_words(series, v) for v in places}
    parts = [
        f"{written[v]} ({names[v]}, {sizes[v]}{f'; {lost[v]}' if lost[v] else ''})" for v in shown
    ]
    metric = metric_in_words(series)
    least = min((best, *alike), key=lambda v: places[v][0])
    of_best, of_least = (f"{sizes[v]} ({names[v]})" for v in (best, least))
    if untested(series, best, alike):
        said = f"The best mean {metric}, with too few seeds for a test, needs a state of {of_best}"
    elif least == best:
        said = f"The best {metric} needs a state of {of_best}"
    else:
        said = (
            f"The smallest state whose {metric} does not differ significantly from the best has "
            f"{of_least}"
        )
    yield f"{said}; {metric} is {', '.join(parts)}."


def memory_of_lines(case: FindingsCase) -> Iterator[str]:
    """Yield the memory along the lines of a figure of speed, for the last of them."""
    along, at = case.top.along, case.top.at
    if along is None or not at or not case.series.unit.endswith("/s"):
        return
    for one in case.measured:
        if (one.task, one.probe, one.unit) == (case.series.task, case.series.probe, "B"):
            name = [*next(iter(at.values()))][-1]
            there = {p: some[name][1] for p, some in at.items() if name in some}
            means = written_means(one, list(there.values()))
            values = [
                f"{means[v]} at {axis_in_words(along.axis)} {readable_place(p)}"
                for p, v in there.items()
                if v in means
            ]
            yield f"{capitalized(readable(one.metric))} with {name}: {', '.join(values)}."


_RULES = (
    _claim_elsewhere,
    _before,
    best_of_lines,
    beside_lines,
    smallest_states,
    _changes,
    best_of_parts,
    on_other_tasks,
    faster_from,
    _floors,
    memory_of_lines,
)
