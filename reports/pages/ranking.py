"""Rank variants in words: their means, and from which ones the best does not differ."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from bakeoff.reports.analysis.gate import beats_floor, best_floor
from bakeoff.reports.document import capitalized, listed, readable
from bakeoff.reports.pages.gaps import (
    best_of,
    diverged_in_words,
    ends_of,
    metric_in_words,
    untested,
    written_means,
)
from bakeoff.reports.results.axis_values import belongs, number
from bakeoff.reports.results.series import Series
from bakeoff.reports.results.spoken_names import spoken_name
from bakeoff.reports.sections.axis_series import readable_place
from bakeoff.reports.stats.intervals import for_estimates, for_quantities
from bakeoff.suite.schema import MIXER_ALONE, About

MOST_NAMED = 8  # variants or places in one list
MOST_LINES = 8


def ranking(
    about: About,
    series: Series,
    names: Mapping[str, str] | None = None,
    *,
    where: str = "",
) -> str:
    """Return the means of all variants, the best first, and which the first does not differ from.

    Args:
        about: The sweep.
        series: The metric.
        names: Variant -> its name; by default all variants of the task, as `spoken_name` says.
        where: The place, as ``at width 64``; by default that of the series.
    """
    named = names or {
        v: spoken_name(about, v) for v in about.variants if belongs(about, v, series.task)
    }
    means = {v: text for v in named for text in written_means(series, [v]).values()}
    points = {v: series.mean(v).point or 0.0 for v in means}
    lost = {v: text for v in means if (text := diverged_in_words(series, v))}
    ranked = [v for v in points if v not in lost]
    ordered = sorted(ranked, key=lambda v: points[v], reverse=series.better == "higher")
    listing = [f"{means[v]} ({named[v]})" for v in ordered[:MOST_LINES]]
    more = len(ordered) - len(listing)
    listing += [f"{means[v]} ({named[v]}; {text}, so it is not ranked)" for v, text in lost.items()]
    told = _first_of(series, ordered, named, is_part=bool(lost))
    if not where and series.task != MIXER_ALONE and len(about.tasks) > 1:
        where = f"on {readable(series.task)}"
    if not where and series.at:
        name, _, place = series.at.partition("=")
        where = f"at {readable(name)} {place_of(place)}"
    metric = capitalized(metric_in_words(series))
    rest = f" and {more} more" if more > 0 else ""
    return f"{metric}{where and f' {where}'} is {', '.join(listing)}{rest}{told}."


def _first_of(
    series: Series, ordered: Sequence[str], named: Mapping[str, str], *, is_part: bool
) -> str:
    """Return a clause on which variants the first of a ranking does not differ from.

    Args:
        series: The metric.
        ordered: The ranked variants, the best first.
        named: Variant -> its name.
        is_part: Whether others are not ranked.
    """
    found = best_of(series, ordered)
    if found is None or len(ordered) < 2:
        return ""
    best, alike = found
    apart = untested(series, best, alike)
    tested = [v for v in alike if v not in apart]
    others = len(ordered) - 1
    if not alike:
        said = "is better than every other"
    elif tested:
        names = "any other" if len(tested) == others else some_of([named[v] for v in tested])
        rest = ", others have too few seeds" if len(tested) < len(alike) else ""
        said = f"does not differ significantly from {names}{rest}"
    elif len(alike) == others:
        said = "has too few seeds for a test"
    else:
        said = f"is not tested against {some_of([named[v] for v in alike])}"
    return f"; {'of those ranked, ' if is_part else ''}the first {said}"


def place_of(text: str) -> str:
    """Return the value of a coordinate, with separators of thousands if it is a number."""
    place = number(text)
    return text if place is None else readable_place(place)


def some_of(names: Sequence[str]) -> str:
    """Return the first names, and how many more there are."""
    more = len(names) - MOST_NAMED
    shown = [*names[:MOST_NAMED], *([f"{more} more"] if more > 0 else [])]
    has_commas = any("," in name for name in shown)
    return "; ".join(shown) if has_commas else listed(shown)


def best_in_words(about: About, series: Series | None) -> str:
    """Return a sentence on the best variant.

    A variant is called the best only if it beats every other one by the interval of their paired
    differences, and no floor beats it. The sentence is empty if no score was measured, or if the
    models of the scale are not trained.
    """
    if series is None or series.better == "none" or about.scale == "smoke":
        return ""
    met = [v for v in about.variants if belongs(about, v, series.task)]
    found = best_of(series, met)
    if found is None:
        return ""
    best, alike = found
    means = _with_intervals(series, dict.fromkeys((best, about.baseline)))
    where, metric, name = _where(series), readable(series.metric), spoken_name(about, best)
    floor = best_floor(about, series)
    ahead = [spoken_name(about, v) for v in met if beats_floor(about, series, v)]
    if floor is not None and not beats_floor(about, series, best):
        who = f"only {some_of(ahead)}" if ahead else "no variant"
        beats = "beat" if len(ahead) > 1 else "beats"
        return (
            f"{where}, {who} {beats} the floor {floor[0]} ({floor[1]:.4g}); the best "
            f"{metric} is {means[best]} ({name}), so nothing is said about which is better."
        )
    if len(met) < 2:
        return f"{where}, {name} has a {metric} of {means[best]}."
    is_rival = best != about.baseline and about.baseline in means
    rival = f", {means[about.baseline]} for the baseline" if is_rival else ""
    lost = [spoken_name(about, v) for v in met if series.seeds_diverged(v)]
    if not alike and not lost:
        return f"{where}, {name} has the best {metric}: {means[best]}{rival}."
    if series.mean(best).n == 1:
        return (
            f"{where}, {name} has the best {metric}, {means[best]}{rival}, with one seed: no "
            "difference can be tested."
        )
    apart = untested(series, best, alike)
    tested = [v for v in alike if v not in apart]
    is_all = len(tested) == len(met) - 1
    others = "any other" if is_all else some_of([spoken_name(about, v) for v in tested])
    told = [f"does not differ significantly from {others}"] if tested else []
    unsure = some_of([spoken_name(about, v) for v in apart])
    told += [f"has too few seeds in common with {unsure}"] if apart else []
    told += [f"is not compared with {some_of(lost)}, of which seeds diverged"] if lost else []
    return (
        f"{where}, no variant is significantly better than all others: {name} has the best "
        f"mean {metric}, {means[best]}{rival}, but {' and '.join(told)}."
    )


def _where(series: Series) -> str:
    """Return the task of a metric and its coordinate, if it has only one."""
    task = "mixers alone" if series.task == MIXER_ALONE else readable(series.task)
    places = {reading.at for some in series.readings.values() for reading in some} - {""}
    at = f" at {places.pop().replace('=', ' ')}" if len(places) == 1 else ""
    return f"On {task}{at}"


def _with_intervals(series: Series, variants: Iterable[str]) -> dict[str, str]:
    every = {v: series.mean(v) for v in variants}
    written = for_estimates(series.unit, every.values())
    if series.is_bound_to_environment:
        written = for_quantities(series.unit, [one.point for one in every.values() if one.point])
    found = {}
    for variant, one in every.items():
        if one.point is not None:
            text = written.with_unit(written.write(one.point))
            ends = " to ".join(map(written.write, ends_of(one)))
            found[variant] = f"{text} ({ends})" if ends else text
    return found
