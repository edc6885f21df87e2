"""Measure what a spin of a GPU costs, so that it can slow down a pass by a known time.

A spin is a kernel that waits for a number of cycles. It adds the time of one more kernel and that
of its cycles at the present clock. Both follow from differences of times of spins alone, in which
all other costs cancel, such as those of events, and of a launch after an idle moment. They never
follow from the pass that is slowed down.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

import torch

_CYCLES = 100_000  # 50 microseconds or more, so that the next launch is hidden
_NUM = 10


@dataclass(frozen=True)
class SpinCost:
    """The cost of a spin.

    Attributes:
        kernel_seconds: The seconds that any further kernel takes.
        cycles_per_second: The rate at which cycles pass.
    """

    kernel_seconds: float
    cycles_per_second: float

    def cycles(self, seconds: float) -> int:
        """Return the cycles of a spin that adds so many seconds; 0 if a kernel alone adds more."""
        return max(0, round((seconds - self.kernel_seconds) * self.cycles_per_second))


def spin(cycles: int) -> None:
    """Let the GPU wait for so many cycles after what was launched before."""
    torch.cuda._sleep(cycles)  # type: ignore[no-untyped-call]


def spins(num: int, cycles: int) -> Callable[[], None]:
    """Return a function that launches so many spins in a row."""

    def run() -> None:
        for _ in range(num):
            spin(cycles)

    return run


def pass_and_spin(
    seconds_of_pass: Callable[[], float],
    seconds_of_spins: Callable[[Callable[[], None]], Callable[[], float]],
    num_rounds: int,
) -> tuple[float, SpinCost]:
    """Return the seconds of a pass and the cost of a spin, measured in turn at the same clock.

    One short spin, one long spin and many short spins with as many cycles are timed. The long and
    the short spin differ in cycles alone, the long and the many in kernels alone.

    Args:
        seconds_of_pass: Function that times the pass.
        seconds_of_spins: Function that prepares a run of spins; it returns a function that times
            the run.
        num_rounds: The number of rounds, of which the medians count.
    """
    given = ((1, _CYCLES), (1, _NUM * _CYCLES), (_NUM, _CYCLES))
    timed = [seconds_of_pass, *(seconds_of_spins(spins(*each)) for each in given)]
    for time_once in timed:  # the first run wakes the device
        time_once()
    rounds = [[time_once() for time_once in timed] for _ in range(num_rounds)]
    seconds, short, long, many = (median(each) for each in zip(*rounds, strict=True))
    rate = (_NUM - 1) * _CYCLES / (long - short) if long > short else 0.0
    return seconds, SpinCost(max(0.0, (many - long) / (_NUM - 1)), rate)
