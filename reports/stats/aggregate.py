"""Compute the interquartile mean over several tasks, with an interval over their seeds.

Agarwal et al. 2021 (arXiv:2108.13264) pool over tasks by the mean of the middle half of all values,
and take its interval from a percentile bootstrap, stratified by task. That bootstrap is too narrow
for tasks with few seeds: the variance of resamples of n values is (n - 1) / n of the true one, and
its quantiles are normal instead of Student's. So resampled values are scaled about their task's
mean by sqrt(n / (n - 1)) (Rao and Wu, JASA 83, 1988), and the interval is stretched by t over z
with Satterthwaite's degrees of freedom. docs/statistics.md gives the coverage of both.

The random numbers come from a numpy generator seeded here; the global one is neither read nor
changed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, ndtri, stdtrit

from bakeoff.reports.stats.intervals import CONFIDENCE, Estimate

NUM_RESAMPLES = 4000
MIN_TASKS_TO_TRIM = 3

_Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Improvement:
    """How often one side was better than the other, over all pairs.

    Attributes:
        num_better: Pairs in which it was better.
        num_equal: Pairs with equal values.
        probability: The share of pairs in which it was better, equal ones counted half; its
            interval is that of Clopper and Pearson at 95 %, whose coverage is at least nominal.
            Over several tasks it is wider than necessary (Hoeffding 1956).
    """

    num_better: int
    num_equal: int
    probability: Estimate


def interquartile_mean(values_by_task: Mapping[str, Sequence[float]]) -> float:
    """Return the mean of the middle half of all values, or the plain mean for fewer than 3 tasks.

    A quarter of the values, rounded down, is cut off each end. The plain mean is that of the means
    of the tasks. The result is NaN if there is no value.

    Args:
        values_by_task: Task -> one value per seed, all on one scale.
    """
    strata = _strata(values_by_task)
    return float(_centre(strata)[0]) if strata else math.nan


def pooled_interval(differences_by_task: Mapping[str, Sequence[float]], seed: int = 0) -> Estimate:
    """Return `interquartile_mean` of paired differences, with its 95 % interval over seeds.

    The tasks are fixed; only seeds vary. A task with one pair has no spread, so there is no
    interval.

    Args:
        differences_by_task: Task -> paired differences by seed, all on one scale.
        seed: Seed of the bootstrap; equal seeds give bitwise equal results.

    Returns:
        The estimate; `n` is the number of pairs of all tasks.
    """
    strata = _strata(differences_by_task)
    n = sum(part.shape[1] for part in strata)
    if not strata:
        return Estimate(n=0)
    point = float(_centre(strata)[0])
    if min(part.shape[1] for part in strata) < 2:
        return Estimate(n=n, point=point)
    rng = np.random.default_rng(seed)
    centres = _centre([_resampled(part[0], rng) for part in strata])
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(centres, [tail, 1 - tail])
    stretch = _stretch(strata, tail)
    ends = (point + (float(end) - point) * stretch for end in (low, high))
    return Estimate(n=n, point=point, low=next(ends), high=next(ends))


def improvement(differences: Iterable[float]) -> Improvement:
    """Return how often a difference is above zero; it is infinite if one side diverged."""
    pairs = list(differences)
    num_better, num_equal = sum(d > 0 for d in pairs), sum(d == 0 for d in pairs)
    return Improvement(
        num_better=num_better,
        num_equal=num_equal,
        probability=_clopper_pearson(num_better + num_equal / 2, len(pairs)),
    )


def _strata(values_by_task: Mapping[str, Sequence[float]]) -> list[_Floats]:
    """Return one array ``[1, seeds]`` per task, in the order of their names."""
    tasks = sorted(task for task, values in values_by_task.items() if len(values))
    return [np.asarray([values_by_task[task]], dtype=np.float64) for task in tasks]


def _centre(strata: Sequence[_Floats]) -> _Floats:
    """Return the statistic, ``[resamples]``, of one array ``[resamples, seeds]`` per task."""
    if len(strata) < MIN_TASKS_TO_TRIM:
        means: _Floats = np.mean([part.mean(axis=1) for part in strata], axis=0)
        return means
    pooled = np.sort(np.concatenate(strata, axis=1), axis=1)
    cut = pooled.shape[1] // 4
    middle: _Floats = pooled[:, cut : pooled.shape[1] - cut].mean(axis=1)
    return middle


def _resampled(values: _Floats, rng: np.random.Generator) -> _Floats:
    """Return values ``[seeds]`` of one task, drawn with replacement: ``[resamples, seeds]``."""
    n, mean = values.size, values.mean()
    drawn = values[rng.integers(n, size=(NUM_RESAMPLES, n))]
    moved: _Floats = mean + math.sqrt(n / (n - 1)) * (drawn - mean)
    return moved


def _stretch(strata: Sequence[_Floats], tail: float) -> float:
    """Return Student's quantile over the normal one, by Satterthwaite's (1946) degrees of freedom.

    Each stratum is an array ``[1, seeds]``; `tail` is the probability beyond each quantile.
    """
    sizes = [part.shape[1] for part in strata]
    shares = [float(part.var(ddof=1)) / part.shape[1] for part in strata]
    largest = max(shares)
    if largest == 0:
        return 1.0
    scaled = [share / largest for share in shares]  # squares of small spreads would underflow
    below = math.fsum(s * s / (n - 1) for s, n in zip(scaled, sizes, strict=True))
    return float(stdtrit(math.fsum(scaled) ** 2 / below, 1 - tail) / ndtri(1 - tail))


def _clopper_pearson(num: float, n: int) -> Estimate:
    if n == 0:
        return Estimate(n=0)
    tail = (1 - CONFIDENCE) / 2
    low = 0.0 if num == 0 else float(betaincinv(num, n - num + 1, tail))
    high = 1.0 if num == n else float(betaincinv(num + 1, n - num, 1 - tail))
    return Estimate(n=n, point=num / n, low=low, high=high)
