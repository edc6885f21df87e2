"""Compare the times of several implementations, which run in turns in one process.

Every candidate runs once in each round, in an order drawn anew, so that a busy moment of the
machine affects all alike. The result is the ratio of medians; its interval comes from a bootstrap
over whole rounds. Rounds go on until the interval is narrow or the time is up.
"""

from __future__ import annotations

import math
import random
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from bakeoff.suite.timing.fixed_conditions import memory_kept, no_garbage_collection

Candidates = Mapping[str, Callable[[], object]]

_RESAMPLES = 2000
_FEWEST_ROUNDS = 3
_ROUNDS_BETWEEN_LOOKS = 4


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The conditions that end a timing run: a narrow interval, enough rounds, or enough time.

    Attributes:
        warm_up_rounds: The least number of rounds that do not count.
        warm_up_seconds: The time before which rounds do not count.
        least_rounds: The least number of rounds that count, however narrow the interval.
        most_rounds: The largest number of rounds that count.
        seconds: The time for the rounds that count, beyond the fewest.
        patience: The time for the fewest rounds; a slower timing run ends after three rounds.
        half_width: The half-width of a ratio's interval, as a share of the ratio, that is narrow
            enough.
        least_sample: The least seconds of a sample; a shorter pass is repeated within a sample.
    """

    warm_up_rounds: int = 3
    warm_up_seconds: float = 0.5
    least_rounds: int = 9
    most_rounds: int = 60
    seconds: float = 4.0
    patience: float = 15.0
    half_width: float = 0.015
    least_sample: float = 1e-3


@dataclass(frozen=True)
class Ratio:
    """The ratio of two medians, with a bootstrap interval of 95 %."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.2f} [{self.low:.2f}, {self.high:.2f}]"

    def is_narrow(self, half_width: float) -> bool:
        """Return True if the interval reaches at most this share of the ratio to either side."""
        return self.high - self.low <= 2 * half_width * self.value


@dataclass(frozen=True)
class Times:
    """The seconds of one pass of each candidate, one number for each round."""

    seconds: Mapping[str, tuple[float, ...]]

    def median(self, name: str) -> float:
        """Return the median seconds of one pass."""
        return statistics.median(self.seconds[name])

    def ratio(self, name: str, other: str) -> Ratio:
        """Return the ratio of `name` to `other`; resample whole rounds by a fixed seed."""
        mine, others = np.array(self.seconds[name]), np.array(self.seconds[other])
        drawn = np.random.default_rng(0).integers(mine.size, size=(_RESAMPLES, mine.size))
        ratios = np.median(mine[drawn], axis=1) / np.median(others[drawn], axis=1)
        low, high = np.quantile(ratios, [0.025, 0.975])
        return Ratio(self.median(name) / self.median(other), float(low), float(high))


@dataclass(frozen=True)
class TimingRun:
    """Candidates that run in turns; the first is the one that the others are compared with.

    Attributes:
        candidates: Functions that do one pass each.
        limits: The conditions that end the run.
        settle: Waits until the device is idle; called before and after each sample.
        clock: Returns the time in seconds.
        seed: The seed of the order within the rounds.
    """

    candidates: Candidates
    limits: Limits = Limits()
    settle: Callable[[], None] = lambda: None
    clock: Callable[[], float] = time.perf_counter
    seed: int = 0

    def run(self) -> Times:
        """Warm up, then run the rounds that count.

        Garbage collection is off meanwhile, as in timing trials, and freed memory stays with the
        process: otherwise glibc returns the memory of one of two equal candidates, which becomes
        slower.
        """
        turns = random.Random(self.seed)
        with no_garbage_collection(), memory_kept():
            num_passes = self._warm_up(turns)
            seconds: dict[str, list[float]] = {name: [] for name in self.candidates}
            begun = self.clock()
            while not self._is_over(seconds, self.clock() - begun):
                for name, sample in self._round(turns, num_passes):
                    seconds[name].append(sample)
        return Times({name: tuple(samples) for name, samples in seconds.items()})

    def _warm_up(self, turns: random.Random) -> int:
        """Return the number of passes that make the fastest candidate's sample long enough."""
        begun, num_rounds, least = self.clock(), 0, math.inf
        while (
            num_rounds < self.limits.warm_up_rounds
            or self.clock() - begun < self.limits.warm_up_seconds
        ):
            least = min(sample for _, sample in self._round(turns, 1))
            num_rounds += 1
        return max(1, math.ceil(self.limits.least_sample / max(least, 1e-9)))

    def _round(self, turns: random.Random, num_passes: int) -> Iterator[tuple[str, float]]:
        """Run every candidate once in random order; yield its name and the seconds of one pass."""
        for name in turns.sample(list(self.candidates), len(self.candidates)):
            one_pass = self.candidates[name]
            self.settle()
            begun = self.clock()
            for _ in range(num_passes):
                one_pass()
            self.settle()
            yield name, (self.clock() - begun) / num_passes

    def _is_over(self, seconds: Mapping[str, list[float]], spent: float) -> bool:
        first, *others = seconds
        num_rounds = len(seconds[first])
        if num_rounds < self.limits.least_rounds:
            return spent >= self.limits.patience and num_rounds >= _FEWEST_ROUNDS
        if num_rounds >= self.limits.most_rounds or spent >= self.limits.seconds:
            return True
        if (num_rounds - self.limits.least_rounds) % _ROUNDS_BETWEEN_LOOKS:
            return False
        times = Times({name: tuple(samples) for name, samples in seconds.items()})
        ratios = [times.ratio(first, other) for other in others]
        return all(ratio.is_narrow(self.limits.half_width) for ratio in ratios)
