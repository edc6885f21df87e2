"""Decide when a timing run has lasted long enough, and what is missing if it ended earlier."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

CONFIDENCE = 0.95


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits of a timing run, the same for every trial on a CPU, and for every trial on a GPU.

    They are in seconds unless stated otherwise.

    A candidate has enough samples once it has `least_rounds` samples which add up to
    `least_seconds` and the interval of their median is narrow. The timing run ends when all
    candidates have enough, or at `seconds`. It ends later only while a candidate would be noisy, up
    to `most_seconds` or, with many candidates, up to `seconds_each` for each of them; and up to
    `patience` only while there are fewer than `least_rounds` rounds, counting only quiet ones
    unless most are disturbed anyway. A candidate that has too few samples then is noisy. An
    interval up to `most_half_width` is accepted: verdicts are based on ratios from several
    processes, which have their own interval.

    Attributes:
        least_sample: A shorter pass is repeated until a sample takes this long, which averages over
            disturbances of single passes. The sample is longer if rounds are few, so that the
            samples add up to `least_seconds`.
        cold_pass: A shorter pass is run once before each sample and not timed, since the state of
            the caches after the previous candidate would influence its time.
        least_rounds: Minimum number of samples of each candidate.
        least_seconds: Minimum sum of the samples of a candidate.
        half_width: Target for half of the 95 % interval of a median, as a share of the median.
        most_half_width: The largest accepted value of the same.
        seconds: Duration of the rounds of one trial, without the warm-up.
        most_seconds: The same, if a candidate would be noisy.
        seconds_each: The same for each candidate: a round of thirty takes as long as ten rounds of
            three, and an interval becomes narrow by the number of rounds.
        patience: The same, if a few rounds take long.
        cell_seconds: Maximum sum of the samples of one candidate; no more are taken.
        block: Duration of a block of rounds, after which the load of other processes is read.
        most_cores: Mean number of cores that other processes may take in a block.
        most_share: Share of the machine's CPU time that they may take, if that is more.
        warm_up_rounds: Passes of each candidate that do not count, including the first call.
        warm_up_seconds: Passes that begin earlier than this in the warm-up do not count either.
        most_warm_up_seconds: The latest end of the warm-up, even if there is a trend.
    """

    least_sample: float = 0.02
    cold_pass: float = 8e-3  # a megabyte from memory takes 0.1 ms, a hundredth of this
    least_rounds: int = 9  # from 9 samples on, the interval excludes the fastest and slowest
    least_seconds: float = 0.03
    half_width: float = 0.02
    most_half_width: float = 0.1
    seconds: float = 3.0
    most_seconds: float = 5.0
    seconds_each: float = 1.0
    patience: float = 120.0
    cell_seconds: float = 30.0
    block: float = 0.25
    most_cores: float = 0.15  # Ray's daemons alone take 0.05, and ticks are accurate to 0.04
    most_share: float = 0.02
    warm_up_rounds: int = 2
    warm_up_seconds: float = 0.3
    most_warm_up_seconds: float = 1.0

    def most_cores_of_others(self, num_cpus: int) -> float:
        """Return the cores that others may use in a block, on a machine with `num_cpus` CPUs."""
        return max(self.most_cores, self.most_share * num_cpus)

    def least_sample_in(self, round_seconds: float) -> float:
        """Return the seconds of a sample, given those of a round, with a margin of one half."""
        num_rounds = max(self.least_rounds, self.seconds / round_seconds)
        return max(self.least_sample, 1.5 * self.least_seconds / num_rounds)

    def is_time_up(self, elapsed: float, num_quiet: int, num_disturbed: int) -> bool:
        """Return True if a timing run ends although a candidate has too few samples."""
        if elapsed < self.seconds:
            return False
        if elapsed >= self.patience:
            return True
        if num_quiet + num_disturbed < self.least_rounds:
            return False
        return num_quiet >= self.least_rounds or num_disturbed > num_quiet

    def is_worth_more(
        self, elapsed: float, num_quiet: int, num_disturbed: int, num_candidates: int = 1
    ) -> bool:
        """Return True if rounds continue for a noisy candidate; never on a busy machine."""
        limit = max(self.most_seconds, self.seconds_each * num_candidates)
        return elapsed < limit and num_quiet > num_disturbed


DEFAULT = Limits()
# A graph takes the same time in each pass, and before each pass the cache is flushed. A trial of 11
# variants, whose operations are timed as graphs and as launches, takes about 10 seconds.
ON_GPU = Limits(
    least_sample=2e-3,
    cold_pass=2e-3,
    least_rounds=6,  # the interval is then from the fastest to the slowest
    least_seconds=0.01,
    seconds=1.5,
    most_seconds=2.0,
    seconds_each=0.0,
    block=0.1,
    warm_up_seconds=0.1,
    most_warm_up_seconds=0.2,
)


@dataclass(frozen=True)
class SampleSeries:
    """The samples of a candidate.

    Attributes:
        samples: Seconds of one pass each.
        num_passes: Number of passes of which each sample is the mean.
    """

    samples: Sequence[float]
    num_passes: int

    @property
    def seconds(self) -> float:
        """The time that all passes took."""
        return sum(self.samples) * self.num_passes


def has_enough(series: SampleSeries, limits: Limits) -> bool:
    """Return True if a candidate has enough samples, with a narrow interval."""
    return not _unmet(series, limits, limits.half_width)


def noise(series: SampleSeries, limits: Limits, elapsed: float) -> str:
    """Return why the samples after `elapsed` seconds are noisy; empty if they suffice."""
    num = len(series.samples)
    missed = _unmet(series, limits, limits.most_half_width)
    after = f"after {num} {'round' if num == 1 else 'rounds'} and {elapsed:.3g} s"
    return f"{missed}, {after}" if missed else ""


def _unmet(series: SampleSeries, limits: Limits, most_half_width: float) -> str:
    """Return a description of the criterion that is not fulfilled; empty if there is none."""
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
    """The median of samples, and an interval that contains the true one in at least 95 % of cases.

    Among n independent samples, the number below the true median is binomial with p = 1/2 for any
    continuous distribution: so the k-th smallest and the k-th largest sample enclose it with a
    known probability (David and Nagaraja 2003, "Order Statistics", section 7.1).

    Attributes:
        value: The median of the samples.
        low: The lower end; minus infinity if there are fewer than six samples, too few for an
            interval.
        high: The upper end; infinity in the same case.
    """

    value: float
    low: float
    high: float

    @property
    def is_bounded(self) -> bool:
        """True if there are enough samples for an interval."""
        return math.isfinite(self.low)

    @property
    def half_width(self) -> float:
        """Half of the interval, as a share of the median."""
        return (self.high - self.low) / 2 / self.value


def median_of(samples: Sequence[float]) -> Median:
    """Return the median of at least one sample."""
    ordered = sorted(samples)
    value, rank = statistics.median(ordered), _rank(len(ordered))
    if rank == 0:
        return Median(value, -math.inf, math.inf)
    return Median(value, ordered[rank - 1], ordered[-rank])


@cache
def _rank(num_samples: int) -> int:
    """Return the largest rank k of an interval with confidence `CONFIDENCE`; 0 if there is none."""
    below, rank = 0.0, 0
    for k in range(num_samples // 2 + 1):
        below += math.comb(num_samples, k) / 2**num_samples
        if below > (1 - CONFIDENCE) / 2:
            break
        rank = k + 1
    return rank
