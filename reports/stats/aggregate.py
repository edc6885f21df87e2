"""The interquartile mean over several tasks, with an interval over their seeds.

Agarwal et al. 2021 (arXiv:2108.13264) pool over tasks by the mean of the middle half of all values,
and take its interval from a percentile bootstrap, stratified by task. That bootstrap promises too
much where a task has few seeds: the variance of what it draws of n values is (n - 1) / n of what it
should be, and its quantiles are a normal's where Student's are due. So drawn values are moved off
their task's mean by sqrt(n / (n - 1)) (Rao and Wu, JASA 83, 1988), and the interval is stretched by
t over z with Satterthwaite's degrees of freedom. docs/statistics.md has the coverage of both.

The generator is one of numpy's own, seeded here: the global one is neither read nor moved.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, ndtri, stdtrit

from reports.stats.intervals import CONFIDENCE, Estimate

NUM_RESAMPLES = 4000
MIN_TASKS_TO_TRIM = 3

_Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Improvement:
    """How often one was better than the other, pair by pair, each pair in the denominator.

    Attributes:
        probability: Pairs in which it was better, equal ones counted half, over all pairs; its
            interval is that of Clopper and Pearson at 95 %, which covers at least as often as
            it says. Over several tasks it is wider than it need be (Hoeffding 1956).
    """

    num_better: int
    num_equal: int
    probability: Estimate


def interquartile_mean(values_by_task: Mapping[str, Sequence[float]]) -> float:
    """Mean of the middle half of all values of all tasks; with fewer than 3 tasks the plain mean.

    A quarter of the values, rounded down, is cut off each end. The plain mean is that of the means
    of the tasks. NaN where there is no value.

    Args:
        values_by_task: Task -> one value a seed, all on one scale.
    """
    strata = _strata(values_by_task)
    return float(_centre(strata)[0]) if strata else math.nan


def pooled_interval(differences_by_task: Mapping[str, Sequence[float]], seed: int = 0) -> Estimate:
    """`interquartile_mean` of paired differences, with its 95 % interval over seeds.

    The tasks are what they are; only seeds vary. A task with one pair shows no spread: no interval.

    Args:
        differences_by_task: Task -> paired differences by seed, all on one scale.
        seed: Of the bootstrap; the same gives the same bits.

    Returns:
        `n` is the number of pairs of all tasks.
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
    """How often a difference is above zero; infinite ones stand for a side that has no end."""
    pairs = list(differences)
    num_better, num_equal = sum(d > 0 for d in pairs), sum(d == 0 for d in pairs)
    return Improvement(
        num_better=num_better,
        num_equal=num_equal,
        probability=_clopper_pearson(num_better + num_equal / 2, len(pairs)),
    )


def _strata(values_by_task: Mapping[str, Sequence[float]]) -> list[_Floats]:
    """One array ``[1, seeds]`` a task, in the order of their names."""
    tasks = sorted(task for task, values in values_by_task.items() if len(values))
    return [np.asarray([values_by_task[task]], dtype=np.float64) for task in tasks]


def _centre(strata: Sequence[_Floats]) -> _Floats:
    """Parts ``[resamples, seeds]``, one a task -> the statistic, ``[resamples]``."""
    if len(strata) < MIN_TASKS_TO_TRIM:
        means: _Floats = np.mean([part.mean(axis=1) for part in strata], axis=0)
        return means
    pooled = np.sort(np.concatenate(strata, axis=1), axis=1)
    cut = pooled.shape[1] // 4
    middle: _Floats = pooled[:, cut : pooled.shape[1] - cut].mean(axis=1)
    return middle


def _resampled(values: _Floats, rng: np.random.Generator) -> _Floats:
    """Values ``[seeds]`` of one task, drawn with replacement: ``[resamples, seeds]``."""
    n, mean = values.size, values.mean()
    drawn = values[rng.integers(n, size=(NUM_RESAMPLES, n))]
    moved: _Floats = mean + math.sqrt(n / (n - 1)) * (drawn - mean)
    return moved


def _stretch(strata: Sequence[_Floats], tail: float) -> float:
    """Student's quantile over the normal one, degrees of freedom after Satterthwaite (1946)."""
    sizes = [part.shape[1] for part in strata]
    shares = [float(part.var(ddof=1)) / part.shape[1] for part in strata]
    largest = max(shares)
    if largest == 0:
        return 1.0
    scaled = [share / largest for share in shares]  # squares of small spreads would vanish
    below = math.fsum(s * s / (n - 1) for s, n in zip(scaled, sizes, strict=True))
    return float(stdtrit(math.fsum(scaled) ** 2 / below, 1 - tail) / ndtri(1 - tail))


def _clopper_pearson(num: float, n: int) -> Estimate:
    if n == 0:
        return Estimate(n=0)
    tail = (1 - CONFIDENCE) / 2
    low = 0.0 if num == 0 else float(betaincinv(num, n - num + 1, tail))
    high = 1.0 if num == n else float(betaincinv(num + 1, n - num, 1 - tail))
    return Estimate(n=n, point=num / n, low=low, high=high)
