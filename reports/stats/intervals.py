"""Means, medians and paired differences with confidence intervals.

Student's t, and no percentile bootstrap: at 3 seeds a nominal 95 % bootstrap interval covers the
truth three times in four, the t interval does nineteen in twenty (normal data).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scipy.special import stdtr, stdtrit

CONFIDENCE = 0.95


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A number with its interval, in the unit of the values.

    Attributes:
        n: How many values stand behind it.
        point: None where there are none.
        low: Lower end of the interval; None where there is no interval.
    """

    n: int
    point: float | None = None
    low: float | None = None
    high: float | None = None

    @property
    def half_width(self) -> float | None:
        """Half the interval."""
        return None if self.low is None or self.high is None else (self.high - self.low) / 2

    @property
    def excludes_zero(self) -> bool:
        """Whether the whole interval lies on one side of zero."""
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)


def mean_interval(values: Sequence[float], confidence: float = CONFIDENCE) -> Estimate:
    """Mean and two-sided Student-t interval, n - 1 degrees of freedom; normality is assumed.

    One value has no interval; none has no mean.
    """
    n = len(values)
    if n == 0:
        return Estimate(n=0)
    mean = math.fsum(values) / n
    if n == 1:
        return Estimate(n=1, point=mean)
    half = float(stdtrit(n - 1, 0.5 + confidence / 2)) * standard_deviation(values) / math.sqrt(n)
    return Estimate(n=n, point=mean, low=mean - half, high=mean + half)


def standard_deviation(values: Sequence[float]) -> float:
    """With n - 1 in the denominator; NaN of fewer than two values."""
    n = len(values)
    if n < 2:
        return math.nan
    mean = math.fsum(values) / n
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (n - 1))


def smallest_level(values: Sequence[float], truth: float = 0.0) -> float:
    """The level alpha at which the (1 - alpha) interval of the mean comes to leave `truth` out.

    That is the two-sided p of the t test; 1 of fewer than two values.
    """
    n = len(values)
    if n < 2:
        return 1.0
    gap = abs(math.fsum(values) / n - truth)
    error = standard_deviation(values) / math.sqrt(n)
    if error == 0:
        return 0.0 if gap else 1.0
    return 2 * float(stdtr(n - 1, -gap / error))


def median_range(values: Sequence[float]) -> Estimate:
    """Median, with the smallest and the largest value: for times, whose errors are one-sided."""
    if not values:
        return Estimate(n=0)
    point = statistics.median(values)
    if len(values) == 1:
        return Estimate(n=1, point=point)
    return Estimate(n=len(values), point=point, low=min(values), high=max(values))


def paired_differences(a: Mapping[int, float], b: Mapping[int, float]) -> tuple[float, ...]:
    """The differences a - b, one for each seed that both have, in the order of the seeds."""
    return tuple(a[seed] - b[seed] for seed in sorted(a.keys() & b.keys()))


def paired_ratio(a: Mapping[int, float], b: Mapping[int, float]) -> float | None:
    """Median of a / b over the seeds that both have; None where there is none."""
    ratios = [a[seed] / b[seed] for seed in sorted(a.keys() & b.keys()) if b[seed] != 0]
    return statistics.median(ratios) if ratios else None
