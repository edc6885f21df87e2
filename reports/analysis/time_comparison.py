"""Decides which of two variants is faster, from times in paired processes.

Of two variants, each process gives one median each, taken in turns in the same process: so the
logarithm of their ratio is one number a process, and all that the machine did to both cancels. The
interval is Student's t at 95 % of the mean of these logarithms (the effect-size interval of the
ratio that Kalibera and Jones, ISMM 2013, ask for, with processes as the repeated level). No
percentile bootstrap: at three processes a nominal 95 % covers three times in four.

The verdict starts from AMBIGUOUS and is upgraded only with evidence, at the thresholds of
nvbench-compare-robust: FASTER or SLOWER where the whole interval lies more than 0.5 % from 1; SAME
where it lies within 2 %; a small difference that is certain is a difference, so the first rule goes
first. NOISY where fewer than three processes have both; and, in place of SAME and AMBIGUOUS, where
most processes did not meet their own stopping criterion: the interval between processes has paid
for what is noisy inside them, so a difference that it is sure of stands, but that two are alike is
not said of restless measurements. AMBIGUOUS too where the ratio is no larger than what the baseline
showed against itself in the same processes: what the instrument sees where there is nothing is no
difference, however narrow the interval. Thresholds are taken on the logarithm, so that a beside b
and b beside a say the same.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from scipy.special import nctdtrinc, stdtrit

from reports.results.reading import Reading, is_noisy
from reports.stats.intervals import CONFIDENCE, Estimate, mean_interval
from suite.schema import Status

MIN_PROCESSES = 3
CLEAR_GAP, SAME_WITHIN = 1.005, 1.02
POWER = 0.8


class TimeOutcome(StrEnum):
    """What can be said of the first, beside the second."""

    FASTER = "faster"
    SLOWER = "slower"
    SAME = "same"
    AMBIGUOUS = "ambiguous"
    NOISY = "noisy"


class DifferentEnvironments(ValueError):
    """Times of two environments were to be compared: one sentence that names both."""


@dataclass(frozen=True, kw_only=True)
class TimeComparison:
    """The verdict on a pair.

    Attributes:
        ratio: Time of the first over that of the second; below 1 the first is faster. `n` is the
            number of processes that have both.
        reason: One sentence, why it is no certain verdict; empty where it is one.
    """

    ratio: Estimate
    outcome: TimeOutcome
    reason: str = ""

    @property
    def is_certain(self) -> bool:
        """Whether it is one of faster, slower and same."""
        return self.outcome in (TimeOutcome.FASTER, TimeOutcome.SLOWER, TimeOutcome.SAME)


@dataclass(frozen=True, kw_only=True)
class Share:
    """So many of so many, as ``1 of 14``."""

    num: int
    num_total: int

    def __str__(self) -> str:
        return f"{self.num} of {self.num_total}"


def compare(a: Sequence[Reading], b: Sequence[Reading], resolution: float = 0.0) -> TimeComparison:
    """The verdict on `a` beside `b`: one reading a process each, paired by seed.

    Args:
        a: Of the first.
        b: Of the second.
        resolution: The logarithm of the ratio that the baseline showed against itself; see
            `reports.results.reading.resolution_of`.

    Raises:
        DifferentEnvironments: if they were not all measured in one.
    """
    refuse_different_environments(a, b)
    found = _judged(tuple(log_ratios(_values(a), _values(b)).values()), a, b)
    point = found.ratio.point
    is_within = point is not None and abs(math.log(point)) <= resolution
    if not is_within or found.outcome not in (TimeOutcome.FASTER, TimeOutcome.SLOWER):
        return found
    reason = f"the baseline showed a ratio of {math.exp(resolution):.3f} against itself"
    return replace(found, outcome=TimeOutcome.AMBIGUOUS, reason=reason)


def judge_ratio(readings: Sequence[Reading]) -> TimeComparison:
    """The verdict on a ratio that the instrument gives itself, one a process: A/A, or slowed.

    Raises:
        DifferentEnvironments: if they were not all measured in one.
    """
    refuse_different_environments(readings, ())
    logs = [math.log(value) for value in _values(readings).values()]
    return _judged(logs, readings)


def log_ratios(a: Mapping[int, float], b: Mapping[int, float]) -> dict[int, float]:
    """Seed -> natural logarithm of a / b, for each seed that both have with a positive number."""
    both = sorted(a.keys() & b.keys())
    return {s: math.log(a[s] / b[s]) for s in both if a[s] > 0 and b[s] > 0}


def refuse_different_environments(a: Sequence[Reading], b: Sequence[Reading]) -> None:
    """Raise where numbers of two environments would meet.

    Raises:
        DifferentEnvironments: naming the ids.
    """
    ids = sorted({r.environment_id for r in (*a, *b) if r.has_number})
    if len(ids) > 1:
        raise DifferentEnvironments(
            f"these were measured in {' and '.join(ids)}; times of different devices, thread "
            "counts or torch versions are never compared."
        )


def smallest_detectable_effect(again: Sequence[TimeComparison]) -> float | None:
    """The slow-down that comparisons like these find four times in five, as 0.031 for 3.1 %.

    From A/A pairs, whose spread is noise and nothing else. Their variances between processes are
    pooled to one standard deviation s of a process's log ratio. With P processes a difference d is
    called where (mean - log 1.005) / (s / sqrt P) exceeds Student's t, and that quotient is
    noncentral t around (d - log 1.005) / (s / sqrt P): d is taken where it exceeds with the
    probability 0.8. P is the least of the pairs. Noisy pairs get no verdict and are left out.

    Args:
        again: A/A comparisons, as `judge_ratio` gives them, of all coordinates.

    Returns:
        None where no pair has an interval.
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
    """How many A/A pairs were called different, of those that were judged."""
    judged = [c for c in again if c.outcome is not TimeOutcome.NOISY]
    wrong = [c for c in judged if c.outcome in (TimeOutcome.FASTER, TimeOutcome.SLOWER)]
    return Share(num=len(wrong), num_total=len(judged))


def found(slowed: Sequence[TimeComparison]) -> Share:
    """How many injected slow-downs were called slower, of all: noise hides some of them."""
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
        f"the interval of the ratio, {ratio.low:.3f} to {ratio.high:.3f}, lies neither wholly "
        f"beyond {CLEAR_GAP - 1:.1%} from 1 nor wholly within {SAME_WITHIN - 1:.0%}"
    )
    return TimeComparison(ratio=ratio, outcome=outcome, reason=reason)


def _noise(sides: Sequence[Sequence[Reading]]) -> str:
    """What the first noisy reading of a noisy side missed; empty where no side is noisy."""
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
    """The ratio whose logarithm is given; what no number can hold becomes e^700."""
    ends = (interval.point, interval.low, interval.high)
    point, low, high = (None if end is None else math.exp(min(end, 700.0)) for end in ends)
    return Estimate(n=interval.n, point=point, low=low, high=high)


def _quantile(n: int) -> float:
    return float(stdtrit(n - 1, 0.5 + CONFIDENCE / 2))


def _spread(ratio: Estimate) -> float:
    """Standard deviation of one process's log ratio, read back off the interval."""
    assert ratio.low is not None, "it has an interval"
    assert ratio.high is not None, "it has an interval"
    return math.log(ratio.high / ratio.low) / 2 / _quantile(ratio.n) * math.sqrt(ratio.n)
