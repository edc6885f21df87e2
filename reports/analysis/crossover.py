"""Find the length from which a mixer is faster than a named baseline, with an interval.

The crossover is computed from the ratio of the two times in each process, without a model of
either: the logarithm of the ratio is interpolated linearly between neighbouring lengths (on a
logarithmic axis), and the crossover is its zero. The interval contains every length at which the
two cannot be told apart, so its end is given as "beyond 4,096" if that holds up to the end of the
range. It needs no bootstrap: resamples in which the curves do not cross would have no crossover.
Linear interpolation errs by up to an eighth of the second difference; the interval is widened by
that much. The two also count as equal if their ratio does not exceed the ratio that the baseline
showed against itself.

In simulations (three and five processes, seven lengths, noise of 2 and 5 %, normal, skewed or
heavy-tailed) a nominal 95 % covered the true crossover in 95 to 99 of 100; with noise of 0.5 % and
less in 96 to 100, since there the interpolation error dominates.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise

import numpy as np

from bakeoff.reports.analysis.time_comparison import (
    compare,
    log_ratios,
    refuse_different_environments,
)
from bakeoff.reports.results.length_sweep import Growth
from bakeoff.reports.stats.intervals import Estimate, rounded
from bakeoff.reports.stats.log_means import Array, LogMeans

_STEPS = 400  # grid points between neighbouring lengths for the ends of the interval
_DIGITS = 3
_SURE = 6  # digits equal on all processors; a ratio of differences loses precision


class CrossoverKind(StrEnum):
    """The kinds of answer."""

    FASTER_FROM = "faster from"
    FASTER_BELOW = "faster below"
    ALWAYS = "faster at every length"
    NEVER = "not in the range"
    UNDECIDED = "undecided"
    NOISY = "noisy"
    NOT_MEASURED = "not measured"


@dataclass(frozen=True)
class Crossover:
    """The crossover of one variant and one baseline.

    Attributes:
        kind: The kind of answer.
        text: The answer in words: ``1,230 [1,010, 1,480]``, ``not below 4,096``, ``below 64 (faster
            at every length)``, ``noisy at 1,024``.
        place: The crossover in the unit of the axis, or None if there is none. Interval ends beyond
            the range are set to the end of the range, which the text mentions; exact counts have no
            interval.
        compared: The first and the last place at which both were measured, or None.
        num_changes: How often the faster one changes.
        unsure: The places at which a variant that is faster at every length is not significantly
            so.
    """

    kind: CrossoverKind
    text: str
    place: Estimate | None = None
    compared: tuple[int, int] | None = None
    num_changes: int = 0
    unsure: tuple[int, ...] = ()


def crossover(growth: Growth, variant: str, baseline: str) -> Crossover:
    """Return the place from which the variant becomes cheaper than the baseline, as the axis grows.

    If there are several crossovers, the last one counts, and the text gives their number. The
    result is noisy if a measurement next to the crossover is noisy and neither variant is certainly
    ahead.
    """
    full = _ratios(growth, variant, baseline)
    if variant == baseline or len(full.places) < 2:
        return Crossover(
            CrossoverKind.NOT_MEASURED, "the baseline" if variant == baseline else "not measured"
        )
    is_ahead = full.means < 0
    changes = [int(index) for index in np.flatnonzero(is_ahead[:-1] != is_ahead[1:])]
    noisy = [place for place in full.places if _is_uncertain(growth, (variant, baseline), place)]
    found = _answer(growth, full, changes, noisy)
    return replace(found, compared=(full.places[0], full.places[-1]), num_changes=len(changes))


def _answer(
    growth: Growth, full: LogMeans, changes: Sequence[int], noisy: Sequence[int]
) -> Crossover:
    """Return the answer from the ratios, the places before a change, and the noisy places."""
    is_ahead = full.means < 0
    beside = full.places[-1:] if not changes else full.places[changes[-1] : changes[-1] + 2]
    if set(beside) & set(noisy):
        where = " and ".join(f"{place:,}" for place in beside if place in noisy)
        return Crossover(CrossoverKind.NOISY, f"noisy at {where}")
    clean = LogMeans({p: some for p, some in full.samples.items() if p not in noisy})
    least = np.array([growth.resolution(place) for place in clean.places])
    if not changes:
        return _unchanged(clean, least, is_ahead=bool(is_ahead[-1]))
    place, text = _crossing(clean, least, clean.places.index(beside[0]))
    if place is None:
        return Crossover(CrossoverKind.UNDECIDED, text)
    several = f" (the last of {len(changes)} changes)" if len(changes) > 1 else ""
    if is_ahead[-1]:
        return Crossover(CrossoverKind.FASTER_FROM, text + several, place)
    return Crossover(CrossoverKind.FASTER_BELOW, f"faster only below {text}{several}", place)


def _is_uncertain(growth: Growth, pair: tuple[str, str], place: int) -> bool:
    """Return True if one of the pair is noisy at the place and neither is certainly ahead."""
    is_noisy = any(growth.is_noisy(variant, place) for variant in pair)
    if not is_noisy:
        return False
    a, b = (growth.of(variant, place) for variant in pair)
    return not compare(a, b, growth.resolution(place)).is_certain


def _ratios(growth: Growth, variant: str, baseline: str) -> LogMeans:
    """Return the log of variant over baseline, one per process, at each place that both have."""
    found = {}
    for place in growth.places:
        refuse_different_environments(growth.of(variant, place), growth.of(baseline, place))
        logs = log_ratios(growth.values(variant, place), growth.values(baseline, place))
        if logs:
            found[place] = tuple(logs.values())
    return LogMeans(found)


def _unchanged(means: LogMeans, resolutions: Array, *, is_ahead: bool) -> Crossover:
    """Return the result for a pair of which one is ahead at every length."""
    error = means.quantile * means.spread / np.sqrt(means.counts) if means.freedom else 0.0
    is_sure = np.abs(means.means) > np.maximum(error, resolutions)
    unsure = tuple(place for place, sure in zip(means.places, is_sure, strict=True) if not sure)
    if not is_sure.any():
        return Crossover(CrossoverKind.UNDECIDED, _alike(means))
    if is_ahead:
        where = ", ".join(f"{place:,}" for place in unsure)
        doubt = f", but not significantly at {where}" if unsure else ""
        text = f"below {means.places[0]:,} (faster at every length{doubt})"
        return Crossover(CrossoverKind.ALWAYS, text, unsure=unsure)
    last = f"{means.places[-1]:,}"
    if means.places[-1] in unsure:
        text = f"not seen below {last}, where the difference is not significant"
        return Crossover(CrossoverKind.UNDECIDED, text)
    return Crossover(CrossoverKind.NEVER, f"not below {last}")


def _alike(means: LogMeans) -> str:
    first, last = means.places[0], means.places[-1]
    return f"no significant difference from {first:,} to {last:,}"


def _crossing(means: LogMeans, resolutions: Array, index: int) -> tuple[Estimate | None, str]:
    """Return the crossover between the places `index` and `index + 1`, as numbers and as text."""
    logs = np.log(np.array(means.places, dtype=np.float64))
    before, after = means.means[index], means.means[index + 1]
    at = logs[index] + (logs[index + 1] - logs[index]) * before / (before - after)
    point, n = math.exp(at), int(means.counts.sum())
    if not means.freedom:
        return Estimate(n=n, point=rounded(point, _SURE)), _written(point)
    first, last = float(logs[0]), float(logs[-1])
    low, high = _ends(means, resolutions, logs, at)
    if low <= first and high >= last:
        return None, _alike(means)
    ends = (rounded(x, _SURE) for x in (point, math.exp(low), math.exp(high)))
    place = Estimate(n=n, point=next(ends), low=next(ends), high=next(ends))
    start = f"below {means.places[0]:,}" if low <= first else _written(math.exp(low))
    end = f"beyond {means.places[-1]:,}" if high >= last else _written(math.exp(high))
    return place, f"{_written(point)} [{start}, {end}]"


def _ends(means: LogMeans, resolutions: Array, logs: Array, at: float) -> tuple[float, float]:
    """Return the log places around `at` between which the ratio cannot be told from 1."""
    steps = [np.linspace(a, b, _STEPS, endpoint=False) for a, b in pairwise(logs)]
    grid = np.concatenate([*steps, logs[-1:]])
    weights = np.stack([np.interp(grid, logs, row) for row in np.eye(len(logs))], axis=1)
    error = means.spread * np.sqrt(weights**2 @ (1 / means.counts))
    slack = means.quantile * error + _curvature_error(means, logs, grid)
    is_apart = np.abs(weights @ means.means) > np.maximum(slack, weights @ resolutions)
    below, above = grid[is_apart & (grid < at)], grid[is_apart & (grid > at)]
    return float([logs[0], *below][-1]), float([*above, logs[-1]][0])


def _curvature_error(means: LogMeans, logs: Array, grid: Array) -> Array:
    """Return a bound of the interpolation error, `[grid]`, from the second differences."""
    if len(logs) < 3:
        return np.zeros_like(grid)
    slopes = np.diff(means.means) / np.diff(logs)
    bends = np.abs(2 * np.diff(slopes) / (logs[2:] - logs[:-2]))
    widest = np.maximum(np.append(bends, 0.0), np.insert(bends, 0, 0.0))  # [step]
    step = np.clip(np.searchsorted(logs, grid, side="right") - 1, 0, len(logs) - 2)
    missed: Array = widest[step] / 2 * (grid - logs[step]) * (logs[step + 1] - grid)
    return missed


def _written(value: float) -> str:
    """Return a whole number of at most three significant digits, with thousands separators."""
    digits = _DIGITS - 1 - math.floor(math.log10(value))
    return f"{round(value, min(0, digits)):,.0f}"
