"""Answer the title of a page directly, where it asks for more than the claim says.

Which sentences do that depends on the figure at the top: a ranking of what is compared along one
axis, changes of the baseline for several, the best place along a number, the smallest state that is
enough, or how an order changes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations

from bakeoff.reports.document import capitalized, listed
from bakeoff.reports.pages.findings_in_words import (
    OF_AMOUNT,
    FindingsCase,
    Lead,
    against_baseline,
    at_place,
    beside_lines,
    best_of_lines,
    best_of_parts,
    faster_from,
    holds,
    learnt_scores,
    line_of,
    memory_of_lines,
    not_learnt,
    on_other_tasks,
    smallest_states,
)
from bakeoff.reports.pages.gaps import ALIKE, gap, metric_in_words, written_means
from bakeoff.reports.pages.opening import BY, CONDITION, MULTIPLE, TASK
from bakeoff.reports.pages.ranking import ranking
from bakeoff.reports.results.axis_values import all_values_of, as_text, belongs
from bakeoff.reports.results.series import Series
from bakeoff.reports.sections.axis_series import AxisSeries, readable_axis
from bakeoff.suite.schema import MIXER_ALONE


def lead_in_words(case: FindingsCase) -> Lead:
    """Return the sentences that answer the title, where it asks for more than the claim says."""
    found = (rule(case) for rule in _LEADS)
    lead = next((each for each in found if each.sentences), None)
    if lead is None:
        return Lead(after=tuple(memory_of_lines(case)))
    is_learnt = case.series.task in {score.task for score in learnt_scores(case)}
    doubts = () if is_learnt or not case.series.is_score else (*not_learnt(case),)
    rest = (said for said in lead.sentences if said not in doubts)
    return replace(lead, sentences=(*doubts, *rest))


def _lead_of_times(case: FindingsCase) -> Lead:
    """Return what each mixer takes at the claim's length, and from which length it is faster."""
    if case.series.task != MIXER_ALONE:
        return Lead()
    ranked = ranking(case.about, case.series)
    return Lead(sentences=(ranked, *faster_from(case)), has_means=True)


def _lead_of_sizes(case: FindingsCase) -> Lead:
    return Lead(sentences=(*smallest_states(case),), has_means=True)


def _lead_of_numbers(case: FindingsCase) -> Lead:
    """Return the best place of each line along a number, or what a second place changes."""
    along, at = case.top.along, case.top.at
    if along is None or not at or not along.is_of_groups or along.has_kinds:
        return Lead()
    if along.axis in (MULTIPLE, *OF_AMOUNT):
        return Lead()
    names = {name for there in at.values() for name in there}
    if len(along.places) > 2:
        said = (*best_of_lines(case), *beside_lines(case))
        return Lead(sentences=said, has_means=len(names) == 1)
    if len(names) < 3:
        return Lead()
    place = next((p for p, there in at.items() if holds(there, case.sides)), along.places[-1])
    named = {variant: name for name, (_, variant) in at[place].items()}
    ranked = ranking(case.about, case.series, named, where=at_place(along, place))
    return Lead(sentences=(ranked, *best_of_lines(case)), has_means=True)


def _lead_of_places(case: FindingsCase) -> Lead:
    """Return rankings along a coordinate, if the title asks which of the variants is best."""
    along, at, series = case.top.along, case.top.at, case.series
    if along is None or not at or along.is_of_groups or along.is_aimed_at:
        return Lead()
    if along.has_kinds and len(at) > 2:
        return Lead(sentences=(ranking(case.about, series), *best_of_parts(case)), has_means=True)
    if along.has_kinds or not _ASKS_WHICH.search(case.about.question):
        return Lead()
    first = next(iter(next(iter(at.values())).values()))[0]
    before = series.metric.replace("trained_", "initial_", 1)
    others = [
        one
        for one in case.measured
        if (one.task, one.metric, one.at) == (series.task, before, series.at)
    ]
    every = [series, *others] if before != series.metric else [first, series]
    return Lead(sentences=tuple(ranking(case.about, one) for one in every), has_means=True)


def _lead_of_kinds(case: FindingsCase) -> Lead:
    """Return a ranking at each value of the axis that the ablation asks to see."""
    along, at = case.top.along, case.top.at
    if along is None or not at or case.about.opens_with != f"{BY}{along.axis}":
        return Lead()
    if not (along.has_kinds and along.is_of_groups):
        return Lead()
    ranked = []
    for place, there in at.items():
        named = {variant: name for name, (_, variant) in there.items()}
        where = f"at {along.title_of(place)}"
        ranked.append(ranking(case.about, case.series, named, where=where))
    return Lead(sentences=(*_orders(along, at), *ranked), has_means=True)


def _orders(
    along: AxisSeries, at: Mapping[float, Mapping[str, tuple[Series, str]]]
) -> Iterator[str]:
    """Yield whether the variants have the same order at all places, if all are at each."""
    names = next(iter(at.values()))
    if any(there.keys() != names.keys() for there in at.values()):
        return
    gaps = {
        pair: {p: gap(there[pair[0]][0], *(there[n][1] for n in pair)) for p, there in at.items()}
        for pair in combinations(names, 2)
    }
    if any(not one.is_tested for some in gaps.values() for one in some.values()):
        return
    turned = []
    for (a, b), some in gaps.items():
        ahead = [along.title_of(place) for place, one in some.items() if one.is_better]
        behind = [
            along.title_of(place)
            for place, one in some.items()
            if one.is_seen and not one.is_better
        ]
        if ahead and behind:
            turned.append(f"{a} is better than {b} at {listed(ahead)}, worse at {listed(behind)}")
    axis = readable_axis(along)
    signs = [{(one.advantage.point or 0.0) > 0 for one in some.values()} for some in gaps.values()]
    if turned:
        yield f"The order changes with the {axis}: {'; '.join(turned)}."
    elif all(len(some) == 1 for some in signs):
        yield f"The order of the means does not change with the {axis}."
    else:
        yield (
            f"The order of the means changes with the {axis}, but no two are significantly in "
            "opposite orders."
        )


def _lead_of_conditions(case: FindingsCase) -> Lead:
    """Return what the first axis changes under each condition, if several axes make these."""
    along, at, series = case.top.along, case.top.at, case.series
    if along is None or not at or along.axis != CONDITION:
        return Lead()
    own = line_of(at, case.about.baseline)
    rivals = [name for name in next(iter(at.values())) if name != own]
    if own is None:
        return Lead()
    said = []
    for rival in rivals:
        parts = []
        for place, there in at.items():
            (_, a), (_, b) = there[own], there[rival]
            one, means = gap(series, a, b), written_means(series, (a, b))
            parts.append(f"{at_place(along, place)} {means[a]} against {means[b]}, {one.text}")
        metric = capitalized(metric_in_words(series))
        said.append(f"{metric} with {own} against {rival}: {'; '.join(parts)}.")
    return Lead(sentences=tuple(said))


def _lead_of_tasks(case: FindingsCase) -> Lead:
    """Return how variants do on each task, and what they save."""
    about, along, scores = case.about, case.top.along, learnt_scores(case)
    if along is None or along.axis != TASK or len(about.variants) < 3:
        return Lead()
    if len(scores) == 1:
        said = (*against_baseline(case, scores[0], ()),)
        told = (*said, *not_learnt(case), *faster_from(case))
        return Lead(sentences=told, has_gap=_states(case, said))
    ranked = [case.series] if len(scores) > 2 else scores
    said = (
        *(ranking(about, one) for one in ranked),
        *(on_other_tasks(case) if len(scores) > 2 else ()),
    )
    return Lead(sentences=(*said, *faster_from(case)), has_means=True)


def _lead_of_changes(case: FindingsCase) -> Lead:
    """Return a ranking if one axis varies, or else each change of the baseline."""
    about, along, series = case.about, case.top.along, case.series
    met = [v for v in about.variants if belongs(about, v, series.task) and series.values(v)]
    is_drawn = along is not None and not (along.has_kinds and along.is_of_groups)
    if is_drawn or len(met) < 3 or series.better == "none" or about.baseline not in met:
        return Lead()
    lines = {line_of(case.top.at or {}, side) for side in case.sides}
    if len(lines) == 1 and None not in lines:  # the figure shows one change, for several models
        return Lead()
    values = [all_values_of(about, variant) for variant in met]
    varied = [name for name in about.axes if len({as_text(v.get(name, "")) for v in values}) > 1]
    if len(varied) > 1:
        said = (*against_baseline(case, series, ()),)
        return Lead(sentences=said, has_gap=_states(case, said))
    if _ASKS_WHETHER.match(about.question) and not _ASKS_WHICH.search(about.question):
        return Lead()
    return Lead(sentences=(ranking(about, series),), has_means=True)


def _states(case: FindingsCase, said: Sequence[str]) -> bool:
    """Return True if sentences on changes of the baseline state the difference of the claim."""
    others = [side for side in case.sides if side != case.about.baseline]
    if len(others) != 1:
        return False
    one = gap(case.series, others[0], case.about.baseline)
    text = one.size if one.is_seen else one.text.removeprefix(f"{ALIKE} ")
    return any(text in sentence for sentence in said)


_ASKS_WHICH = re.compile(r"\b(which|who|in each)\b", re.IGNORECASE)
_ASKS_WHETHER = re.compile(r"(do|does|is|are|should|can)\b", re.IGNORECASE)
_LEADS = (
    _lead_of_times,
    _lead_of_sizes,
    _lead_of_numbers,
    _lead_of_places,
    _lead_of_kinds,
    _lead_of_conditions,
    _lead_of_tasks,
    _lead_of_changes,
)
