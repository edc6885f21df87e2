"""When has a contest gone on for long enough, and what is missing where it ended before?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from suite.timing.intervals import median_of


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The same for every trial. Seconds, unless something else is said.

    A contestant has enough once it has `least_rounds` samples which add up to `least_seconds` and
    the interval of whose median is narrow. The contest ends when all have enough, or at `seconds`;
    later, up to `patience`, only while there are fewer than `least_rounds` rounds, quiet ones
    unless most are disturbed anyway.

    Attributes:
        least_sample: A shorter pass is repeated until a sample takes so long.
        least_rounds: Samples of each contestant.
        least_seconds: That the samples of a contestant add up to.
        half_width: Of the 95 % interval of a median, as a share of the median.
        seconds: Of the rounds of one trial, warm-up apart.
        patience: Of the same, where few rounds take long.
        cell_seconds: That the samples of one contestant add up to at most: then it sits out.
        stretch: Rounds are held so long together before others' load is looked at.
        most_cores: Of CPU time that others may take in a stretch, on average.
        most_share: Of the machine's CPU time that they may take, where that is more.
        warm_up_rounds: Passes of each contestant that do not count, the first call included.
        warm_up_seconds: Nor does what begins before so many seconds of warm-up are over.
        most_warm_up_seconds: A trend ends the warm-up no later than this.
    """

    least_sample: float = 1e-3
    least_rounds: int = 10
    least_seconds: float = 0.05
    half_width: float = 0.02
    seconds: float = 4.0
    patience: float = 120.0
    cell_seconds: float = 30.0
    stretch: float = 0.25
    most_cores: float = 0.1
    most_share: float = 0.02
    warm_up_rounds: int = 3
    warm_up_seconds: float = 0.3
    most_warm_up_seconds: float = 1.5

    def most_cores_of_others(self, num_cpus: int) -> float:
        """Cores that others may keep busy in a stretch, on a machine of so many CPUs."""
        return max(self.most_cores, self.most_share * num_cpus)

    def is_time_up(self, elapsed: float, num_quiet: int, num_disturbed: int) -> bool:
        """Whether a contest ends although somebody has not enough, after so many rounds."""
        if elapsed < self.seconds:
            return False
        if elapsed >= self.patience:
            return True
        if num_quiet + num_disturbed < self.least_rounds:
            return False
        return num_quiet >= self.least_rounds or num_disturbed > num_quiet


DEFAULT = Limits()


@dataclass(frozen=True)
class Series:
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


def unmet(series: Series, limits: Limits, elapsed: float) -> str:
    """The criterion that a contestant misses, in words; empty where it has enough.

    Args:
        series: What it has.
        limits: What is enough.
        elapsed: Seconds that the contest has lasted.
    """
    num = len(series.samples)
    after = f"after {num} {'round' if num == 1 else 'rounds'} and {elapsed:.3g} s"
    if num < limits.least_rounds:
        return f"fewer than {limits.least_rounds} rounds, {after}"
    if series.seconds < limits.least_seconds:
        return (
            f"samples of {series.seconds:.2g} s together, under {limits.least_seconds:g} s, {after}"
        )
    half_width = median_of(series.samples).half_width
    if half_width > limits.half_width:
        return (
            f"interval of the median ±{100 * half_width:.1f} %, "
            f"over {100 * limits.half_width:g} %, {after}"
        )
    return ""
