"""Compares how long several ways to do the same take; they take turns in one process.

Every candidate runs once a round, in an order drawn anew, so that a busy moment of the machine
hits all alike; what is compared is the ratio of medians, and rounds are drawn again, whole, for
its interval. Rounds go on until the interval is narrow or the time is up.
"""

from __future__ import annotations

import math
import random
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from suite.timing.fixed_conditions import memory_kept, no_garbage_collection

Candidates = Mapping[str, Callable[[], object]]

_RESAMPLES = 2000
_FEWEST_ROUNDS = 3
_ROUNDS_BETWEEN_LOOKS = 4


@dataclass(frozen=True, kw_only=True)
class Limits:
    """When a timing run is over: narrow enough, or out of rounds, or out of time.

    Attributes:
        warm_up_rounds: At least so many rounds do not count.
        warm_up_seconds: Nor does what begins before so many seconds are over.
        least_rounds: So many count, however narrow the interval.
        most_rounds: And never more.
        seconds: For the rounds that count, beyond the fewest.
        patience: Seconds for the fewest too: a timing run so slow is over after three rounds.
        half_width: Of the interval of a ratio, as a share of the ratio, that is narrow enough.
        least_sample: Seconds; a shorter pass is repeated until a sample takes so long.
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
    """Of two medians, with a bootstrap interval of 95 %."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.2f} [{self.low:.2f}, {self.high:.2f}]"

    def is_narrow(self, half_width: float) -> bool:
        """Whether the interval reaches at most so far from the ratio, as a share of it."""
        return self.high - self.low <= 2 * half_width * self.value


@dataclass(frozen=True)
class Times:
    """Seconds of one pass of each candidate, one number a round."""

    seconds: Mapping[str, tuple[float, ...]]

    def median(self, name: str) -> float:
        """Seconds."""
        return statistics.median(self.seconds[name])

    def ratio(self, name: str, other: str) -> Ratio:
        """How many times as long `name` takes; whole rounds are drawn again, with a fixed seed."""
        mine, others = np.array(self.seconds[name]), np.array(self.seconds[other])
        drawn = np.random.default_rng(0).integers(mine.size, size=(_RESAMPLES, mine.size))
        ratios = np.median(mine[drawn], axis=1) / np.median(others[drawn], axis=1)
        low, high = np.quantile(ratios, [0.025, 0.975])
        return Ratio(self.median(name) / self.median(other), float(low), float(high))


@dataclass(frozen=True)
class TimingRun:
    """Candidates who take turns; the first is the one that the others are held against.

    Attributes:
        candidates: Each does one pass when called.
        limits: When it is over.
        settle: Waits until the device is idle; called before and after each sample.
        clock: Seconds.
        seed: Of the order within the rounds.
    """

    candidates: Candidates
    limits: Limits = Limits()
    settle: Callable[[], None] = lambda: None
    clock: Callable[[], float] = time.perf_counter
    seed: int = 0

    def run(self) -> Times:
        """Warm up, then count rounds.

        As in timing trials nothing is collected as garbage meanwhile, and what is freed stays with
        the process: else one of two alike is slower, whose memory glibc gives back.
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
        """Passes to a sample, so that the fastest candidate's is long enough for the clock."""
        begun, num_rounds, least = self.clock(), 0, math.inf
        while (
            num_rounds < self.limits.warm_up_rounds
            or self.clock() - begun < self.limits.warm_up_seconds
        ):
            least = min(sample for _, sample in self._round(turns, 1))
            num_rounds += 1
        return max(1, math.ceil(self.limits.least_sample / max(least, 1e-9)))

    def _round(self, turns: random.Random, num_passes: int) -> Iterator[tuple[str, float]]:
        """Every candidate once, in an order of chance: its name, and seconds of one pass."""
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
