"""Decide which of two variants is faster, from times in paired processes.

Each process gives one median per variant, timed in turns in the same process: so the logarithm of
their ratio is one number per process, and disturbances that affect both cancel. The interval is
Student's t at 95 % of the mean of these logarithms (the effect-size interval of the ratio that
Kalibera and Jones, ISMM 2013, recommend, with processes as the repeated level). A percentile
bootstrap is not used: at three processes a nominal 95 % covers three times in four.

The verdict starts from AMBIGUOUS and is upgraded only with evidence, at the thresholds of
nvbench-compare-robust. It is FASTER or SLOWER if the whole interval lies more than 0.5 % from 1,
and SAME if it lies within 2 %; the first rule takes precedence, so a small but certain difference
is a difference. It is NOISY if fewer than three processes have both times. It is also NOISY, in
place of SAME and AMBIGUOUS, if most processes missed their own stopping criterion: the
between-process interval already includes within-process noise, so a certain difference stands, but
noisy measurements do not show that two variants are equal. It is also AMBIGUOUS if the ratio does
not exceed the ratio that the baseline showed against itself in the same processes: the instrument
cannot resolve such a difference, however narrow the interval. Thresholds apply to the logarithm, so
that the comparisons of a with b and of b with a agree.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from scipy.special import nctdtrinc, stdtrit

from bakeoff.reports.results.reading import Reading, is_noisy
from bakeoff.reports.stats.intervals import CONFIDENCE, Estimate, mean_interval
from bakeoff.suite.schema import Status

MIN_PROCESSES = 3
CLEAR_GAP, SAME_WITHIN = 1.005, 1.02
POWER = 0.8


class TimeOutcome(StrEnum):
    """The outcome for the first variant, relative to the second."""

    FASTER = "faster"
    SLOWER = "slower"
    SAME = "same"
    AMBIGUOUS = "ambiguous"
    NOISY = "noisy"


class DifferentEnvironments(ValueError):
    """Raised if times of two environments are compared; the message names both."""


@dataclass(frozen=True, kw_only=True)
class TimeComparison:
    """The verdict on a pair.

    Attributes:
        ratio: Time of the first over that of the second; below 1 the first is faster. `n` is the
            number of processes that have both.
        outcome: The outcome for the first.
        reason: A sentence with the reason if the verdict is not certain; else empty.
    """

    ratio: Estimate
    outcome: TimeOutcome
    reason: str = ""

    @property
    def is_certain(self) -> bool:
        """True if the outcome is faster, slower or same."""
        return self.outcome in (TimeOutcome.FASTER, TimeOutcome.SLOWER, TimeOutcome.SAME)


@dataclass(frozen=True, kw_only=True)
class Share:
    """A count out of a total, written as ``1 of 14``."""

    num: int
    num_total: int

    def __str__(self) -> str:
        return f"{self.num} of {self.num_total}"


def compare(a: Sequence[Reading], b: Sequence[Reading], resolution: float = 0.0) -> TimeComparison:
    """Return the verdict on `a` relative to `b`: one reading per process each, paired by seed.

    Args:
        a: Readings of the first.
        b: Readings of the second.
        resolution: The logarithm of the ratio that the baseline showed against itself; see
            `bakeoff.reports.results.reading.resolution_of`.

    Raises:
        DifferentEnvironments: if they were not all measured in one environment.
    """
    refuse_different_environments(a, b)
    found = _judged(tuple(log_ratios(_values(a), _values(b)).values()), a, b)
    point = found.ratio.point
    is_within = point is not None and abs(math.log(point)) <= resolution
    if not is_within or found.outcome not in (TimeOutcome.FASTER, TimeOutcome.SLOWER):
        return found
    reason = (
        f"repeated measurements of the baseline differ by a ratio of {math.exp(resolution):.3f}"
    )
    return replace(found, outcome=TimeOutcome.AMBIGUOUS, reason=reason)


def judge_ratio(readings: Sequence[Reading]) -> TimeComparison:
    """Return the verdict on ratios measured by the instrument itself, one per process.

    These are the ratios of A/A pairs and of injected slow-downs.

    Raises:
        DifferentEnvironments: if they were not all measured in one environment.
    """
    refuse_different_environments(readings, ())
    logs = [math.log(value) for value in _values(readings).values()]
    return _judged(logs, readings)


def log_ratios(a: Mapping[int, float], b: Mapping[int, float]) -> dict[int, float]:
    """Return seed -> natural logarithm of a / b, for each seed of which both are positive."""
    both = sorted(a.keys() & b.keys())
    return {s: math.log(a[s] / b[s]) for s in both if a[s] > 0 and b[s] > 0}


def refuse_different_environments(a: Sequence[Reading], b: Sequence[Reading]) -> None:
    """Raise if the readings with a number are of more than one environment.

    Raises:
        DifferentEnvironments: with the ids.
    """
    ids = sorted({r.environment_id for r in (*a, *b) if r.has_number})
    if len(ids) > 1:
        raise DifferentEnvironments(
            f"these were measured in {' and '.join(ids)}; times of different devices, thread "
            "counts or torch versions are never compared."
        )


def smallest_detectable_effect(again: Sequence[TimeComparison]) -> float | None:
    """Return the slow-down detected four times in five by such comparisons, as 0.031 for 3.1 %.

    It is computed from A/A pairs, whose spread is pure noise. Their variances between processes are
    pooled to one standard deviation s of a process's log ratio. With P processes a difference d is
    detected if (mean - log 1.005) / (s / sqrt P) exceeds Student's t, and that quotient is
    noncentral t around (d - log 1.005) / (s / sqrt P): the result is the d for which this has a
    probability of 0.8. P is the smallest number of processes of the pairs. Noisy pairs get no
    verdict and are left out.

    Args:
        again: A/A comparisons, as returned by `judge_ratio`, of all coordinates.

    Returns:
        The relative slow-down, or None if no pair has an interval.
    """
    judged = [c for c in again if c.outcome is not TimeOutcome.NOISY and c.ratio.low is not None]
    if not judged:
        return None
    squares = math.fsum((c.ratio.n - 1) * _spread(c.ratio) ** 2 for c in judged)
    spread = math.sqrt(squares / sum(c.ratio.n - 1 for c in judged))
    n = min(c.ratio.n for c in judged)
    steps = float(nctdtrinc(n - 1, 1 - POWER, _quantile(n)))  # in standard errors
    return math.expm1(math.log(CLEAR_GAP) + steps * spread / math.sqrt(n))


def false_alarms(again: Sequence[TimeComparison]) -> Share:
    """Return how many A/A pairs were called different, out of those that were judged."""
    judged = [c for c in again if c.outcome is not TimeOutcome.NOISY]
    wrong = [c for c in judged if c.outcome in (TimeOutcome.FASTER, TimeOutcome.SLOWER)]
    return Share(num=len(wrong), num_total=len(judged))


def found(slowed: Sequence[TimeComparison]) -> Share:
    """Return how many of all injected slow-downs were called slower: noise hides some of them."""
    return Share(num=sum(c.outcome is TimeOutcome.SLOWER for c in slowed), num_total=len(slowed))


def _values(readings: Sequence[Reading]) -> dict[int, float]:
    return {r.seed: r.value for r in readings if r.is_usable and r.value > 0}


def _judged(logs: Sequence[float], *sides: Sequence[Reading]) -> TimeComparison:
    interval = mean_interval(logs)
    ratio = exponential(interval)
    if interval.n < MIN_PROCESSES:
        reason = f"{interval.n} paired processes, and at least {MIN_PROCESSES} are needed"
        return TimeComparison(ratio=ratio, outcome=TimeOutcome.NOISY, reason=reason)
    outcome = _outcome(interval)
    if outcome in (TimeOutcome.FASTER, TimeOutcome.SLOWER):
        return TimeComparison(ratio=ratio, outcome=outcome)
    if noise := _noise(sides):
        return TimeComparison(ratio=ratio, outcome=TimeOutcome.NOISY, reason=noise)
    if outcome is TimeOutcome.SAME:
        return TimeComparison(ratio=ratio, outcome=outcome)
    reason = (
        f"the interval of the ratio, {ratio.low:.3f} to {ratio.high:.3f}, is neither entirely more "
        f"than {CLEAR_GAP - 1:.1%} from 1 nor entirely within {SAME_WITHIN - 1:.0%}"
    )
    return TimeComparison(ratio=ratio, outcome=outcome, reason=reason)


def _noise(sides: Sequence[Sequence[Reading]]) -> str:
    """Return the reason of the first noisy reading of a noisy side; empty if no side is noisy."""
    noisy = (reading for side in sides if is_noisy(side) for reading in side)
    reasons = (r.reason or "a noisy reading" for r in noisy if r.status is Status.NOISY)
    return next(reasons, "")


def _outcome(interval: Estimate) -> TimeOutcome:
    assert interval.low is not None, "three values have an interval"
    assert interval.high is not None, "three values have an interval"
    gap, margin = math.log(CLEAR_GAP), math.log(SAME_WITHIN)
    if interval.high < -gap:
        return TimeOutcome.FASTER
    if interval.low > gap:
        return TimeOutcome.SLOWER
    is_same = -margin < interval.low and interval.high < margin
    return TimeOutcome.SAME if is_same else TimeOutcome.AMBIGUOUS


def exponential(interval: Estimate) -> Estimate:
    """Return the ratio whose logarithm is given; numbers above e^700 are set to e^700."""
    ends = (interval.point, interval.low, interval.high)
    point, low, high = (None if end is None else math.exp(min(end, 700.0)) for end in ends)
    return Estimate(n=interval.n, point=point, low=low, high=high)


def _quantile(n: int) -> float:
    return float(stdtrit(n - 1, 0.5 + CONFIDENCE / 2))


def _spread(ratio: Estimate) -> float:
    """Return the standard deviation of one process's log ratio, computed from the interval."""
    assert ratio.low is not None, "it has an interval"
    assert ratio.high is not None, "it has an interval"
    return math.log(ratio.high / ratio.low) / 2 / _quantile(ratio.n) * math.sqrt(ratio.n)
