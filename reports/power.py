"""How many seeds would it take, and what could these have found? Planning by the noncentral t.

The mean of n paired differences, whose truth is d and whose standard deviation is s, over its
standard error is noncentral t with n - 1 degrees of freedom around d sqrt(n) / s.
"""

from __future__ import annotations

import bisect
import math

from scipy.special import nctdtr, nctdtrinc, stdtrit

POWER = 0.8
MIN_PAIRS = 3  # fewer have no verdict
MOST_SEEDS = 1000


def power(effect: float, spread: float, n: int, alpha: float = 0.05) -> float:
    """Chance that the (1 - alpha) interval of n pairs lies wholly above zero.

    Args:
        effect: The true mean of the differences; positive.
        spread: Their true standard deviation.
        n: Pairs, at least two.
        alpha: The level.
    """
    if spread == 0:
        return 1.0
    steps = effect * math.sqrt(n) / spread
    return 1 - float(nctdtr(n - 1, steps, _quantile(n, alpha)))


def smallest_effect(spread: float, n: int, alpha: float = 0.05) -> float:
    """The true difference that n pairs of that spread tell from zero four times in five."""
    steps = float(nctdtrinc(n - 1, 1 - POWER, _quantile(n, alpha)))
    return steps * spread / math.sqrt(n)


def num_seeds_to_settle(gap: float, spread: float, alpha: float = 0.05) -> int | None:
    """The fewest seeds whose interval decides, if mean and spread stay as they are.

    Args:
        gap: How far the mean lies from what the interval must leave out: from zero where it
            reaches the claimed size, else from that size.
        spread: Standard deviation of the paired differences.
        alpha: The level.

    Returns:
        None where it takes more than `MOST_SEEDS`.
    """
    counts = range(MIN_PAIRS, MOST_SEEDS + 1)

    def is_settled(n: int) -> bool:
        return _quantile(n, alpha) * spread / math.sqrt(n) < gap

    found = bisect.bisect_left(counts, True, key=is_settled)
    return counts[found] if found < len(counts) else None


def _quantile(n: int, alpha: float) -> float:
    return float(stdtrit(n - 1, 1 - alpha / 2))
