"""Decide when a contest has lasted long enough, and what is missing where it ended before."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

CONFIDENCE = 0.95


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The same for every trial. Seconds, unless something else is said.

    A contestant has enough once it has `least_rounds` samples which add up to `least_seconds` and
    the interval of whose median is narrow. The contest ends when all have enough, or at `seconds`;
    later only while somebody would be noisy, up to `most_seconds` or, where there are many, up to
    `seconds_each` for each contestant; and up to `patience` only while there are fewer than
    `least_rounds` rounds, quiet ones unless most are disturbed anyway. Who has
    too little then is noisy, but for an interval up to `most_half_width`: verdicts are made of
    ratios, from several processes, and their own interval says what they are worth.

    Attributes:
        least_sample: A shorter pass is repeated until a sample takes so long, which averages over
            what disturbs single passes; longer where rounds are few, so that samples add up to
            `least_seconds`.
        cold_pass: A shorter pass is run once before each sample, outside the clock, since what the
            last contestant has left in the caches would be a part of its time.
        least_rounds: Samples of each contestant.
        least_seconds: That the samples of a contestant add up to.
        half_width: Of the 95 % interval of a median, as a share of the median: what is aimed at.
        most_half_width: What is accepted at most.
        seconds: Of the rounds of one trial, warm-up apart.
        most_seconds: Of the same, where somebody would be noisy.
        seconds_each: Of the same, for each contestant: a round of thirty takes as long as ten of
            three, and an interval is narrow by the number of rounds.
        patience: Of the same, where few rounds take long.
        cell_seconds: That the samples of one contestant add up to at most: no more are taken.
        stretch: Rounds are held so long together before others' load is looked at.
        most_cores: Of CPU time that others may take in a stretch, on average.
        most_share: Of the machine's CPU time that they may take, where that is more.
        warm_up_rounds: Passes of each contestant that do not count, the first call included.
        warm_up_seconds: Nor does what begins before so many seconds of warm-up are over.
        most_warm_up_seconds: A trend ends the warm-up no later than this.
    """

    least_sample: float = 0.02
    cold_pass: float = 8e-3  # a megabyte from memory takes 0.1 ms: a hundredth of more is nothing
    least_rounds: int = 9  # the interval leaves out the fastest and the slowest from here on
    least_seconds: float = 0.03
    half_width: float = 0.02
    most_half_width: float = 0.1
    seconds: float = 3.0
    most_seconds: float = 5.0
    seconds_each: float = 1.0
    patience: float = 120.0
    cell_seconds: float = 30.0
    stretch: float = 0.25
    most_cores: float = 0.15  # Ray's daemons alone take 0.05, and ticks are good to 0.04
    most_share: float = 0.02
    warm_up_rounds: int = 2
    warm_up_seconds: float = 0.3
    most_warm_up_seconds: float = 1.0

    def most_cores_of_others(self, num_cpus: int) -> float:
        """Cores that others may keep busy in a stretch, on a machine of so many CPUs."""
        return max(self.most_cores, self.most_share * num_cpus)

    def least_sample_in(self, round_seconds: float) -> float:
        """Seconds of a sample where a round takes so long, half as much again."""
        num_rounds = max(self.least_rounds, self.seconds / round_seconds)
        return max(self.least_sample, 1.5 * self.least_seconds / num_rounds)

    def is_time_up(self, elapsed: float, num_quiet: int, num_disturbed: int) -> bool:
        """Whether a contest ends although somebody has not what is aimed at, after such rounds."""
        if elapsed < self.seconds:
            return False
        if elapsed >= self.patience:
            return True
        if num_quiet + num_disturbed < self.least_rounds:
            return False
        return num_quiet >= self.least_rounds or num_disturbed > num_quiet

    def is_worth_more(
        self, elapsed: float, num_quiet: int, num_disturbed: int, num_contestants: int = 1
    ) -> bool:
        """Whether rounds continue for a noisy contestant: not on a machine that is busy anyway."""
        limit = max(self.most_seconds, self.seconds_each * num_contestants)
        return elapsed < limit and num_quiet > num_disturbed


DEFAULT = Limits()


@dataclass(frozen=True)
class SampleSeries:
    """What a contestant has to show.

    Attributes:
        samples: Seconds of one pass each.
        num_passes: That each sample is the mean of.
    """

    samples: Sequence[float]
    num_passes: int

    @property
    def seconds(self) -> float:
        """That it took."""
        return sum(self.samples) * self.num_passes


def has_enough(series: SampleSeries, limits: Limits) -> bool:
    """Whether a contestant has what is aimed at."""
    return not _unmet(series, limits, limits.half_width)


def noise(series: SampleSeries, limits: Limits, elapsed: float) -> str:
    """Why not to trust the samples after so many seconds, in words; empty where they suffice."""
    num = len(series.samples)
    missed = _unmet(series, limits, limits.most_half_width)
    after = f"after {num} {'round' if num == 1 else 'rounds'} and {elapsed:.3g} s"
    return f"{missed}, {after}" if missed else ""


def _unmet(series: SampleSeries, limits: Limits, most_half_width: float) -> str:
    """The criterion that is missed, in words."""
    if len(series.samples) < limits.least_rounds:
        return f"fewer than {limits.least_rounds} rounds"
    if series.seconds < limits.least_seconds:
        return f"samples of {series.seconds:.2g} s together, under {limits.least_seconds:g} s"
    half_width = median_of(series.samples).half_width
    if half_width > most_half_width:
        percent = f"{100 * half_width:.1f} %, over {100 * most_half_width:g} %"
        return f"interval of the median ±{percent}"
    return ""


@dataclass(frozen=True)
class Median:
    """Of samples, with an interval that holds the true one in 95 % of cases at least.

    Of n independent samples the number below the true median is binomial with p = 1/2, whatever the
    distribution: so the k-th smallest and the k-th largest enclose it with a known probability
    (David and Nagaraja 2003, "Order Statistics", section 7.1).

    Attributes:
        low: Minus infinity where there are too few samples for such an interval, below six.
        high: Then infinity.
    """

    value: float
    low: float
    high: float

    @property
    def is_bounded(self) -> bool:
        """Whether there are enough samples for an interval."""
        return math.isfinite(self.low)

    @property
    def half_width(self) -> float:
        """Of the interval, as a share of the median."""
        return (self.high - self.low) / 2 / self.value


def median_of(samples: Sequence[float]) -> Median:
    """The median of at least one sample."""
    ordered = sorted(samples)
    value, rank = statistics.median(ordered), _rank(len(ordered))
    if rank == 0:
        return Median(value, -math.inf, math.inf)
    return Median(value, ordered[rank - 1], ordered[-rank])


@cache
def _rank(num_samples: int) -> int:
    """The largest k for which the k-th smallest and the k-th largest are far enough out."""
    below, rank = 0.0, 0
    for k in range(num_samples // 2 + 1):
        below += math.comb(num_samples, k) / 2**num_samples
        if below > (1 - CONFIDENCE) / 2:
            break
        rank = k + 1
    return rank
