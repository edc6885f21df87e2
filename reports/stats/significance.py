"""Compute significance: the sign-flip test, corrections for several tests, and power.

Sign flip: Fisher's exact test of randomisation (The Design of Experiments, 1935, section 21). It
assumes no distribution, only that without a difference both signs are equally likely. Its cost is
that n pairs cannot give a p below 2 / 2^n, so that five can never reach 0.05.

Many claims: the q-value of a claim (Benjamini and Hochberg, J. R. Statist. Soc. B 57, 1995) is the
least share of false findings, on average, among all claims with a p as small as its own or smaller.

Many comparisons of two sweeps: Holm's step-down rule (Scandinavian Journal of Statistics 6, 1979)
keeps the probability of any false finding below a level. The smallest of m p-values is multiplied
by m, the next by m - 1, and so on; none of the products may be smaller than those before it.

Power: the mean of n paired differences, whose true mean is d and whose standard deviation is s,
over its standard error is noncentral t with n - 1 degrees of freedom around d sqrt(n) / s. If s is
estimated from few pairs, the power at the estimated effect is averaged over all estimates: at the
effect for a known spread, three pairs would give 63 % instead of 80 %.
"""

from __future__ import annotations

import bisect
import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtri, nctdtr, nctdtrinc, ndtr, stdtrit
from scipy.stats import false_discovery_control

MOST_PAIRS = 40  # with more, the sums of half of the signs do not fit into memory
_ROUNDING = 1e-12  # sums that differ by less, relative to the largest, are equal


@dataclass(frozen=True, kw_only=True)
class SignFlip:
    """The result of the sign-flip test.

    Attributes:
        n: The number of pairs.
        alpha: The level of the test.
        p: The two-sided p, or None if there are too few pairs to reach `alpha`, or over
            `MOST_PAIRS`.
        least_p: The smallest p that n pairs can give.
        num_pairs_needed: The smallest number of pairs that can reach `alpha`.
    """

    n: int
    alpha: float
    p: float | None
    least_p: float
    num_pairs_needed: int


def sign_flip(differences: Sequence[float], alpha: float = 0.05) -> SignFlip:
    """Return the exact two-sided sign-flip test of paired differences, over all 2^n signs.

    Args:
        differences: One per pair; finite.
        alpha: The level, between 0 and 1.
    """
    n, needed = len(differences), num_pairs_needed(alpha)
    can_tell = needed <= n <= MOST_PAIRS
    return SignFlip(
        n=n,
        alpha=alpha,
        p=_share_as_extreme(differences) if can_tell else None,
        least_p=min(1.0, 2.0 ** (1 - n)),
        num_pairs_needed=needed,
    )


def num_pairs_needed(alpha: float) -> int:
    """Return the fewest pairs with 2 / 2^n at or below `alpha`: 6 for 0.05, 9 for 0.005."""
    return math.ceil(math.log2(2 / alpha))


def _share_as_extreme(differences: Sequence[float]) -> float:
    """Return the share of sign choices whose sum is at least as far from zero as that of the data.

    The sums of each half are computed once, and combined by binary search.
    """
    half = len(differences) // 2
    left = np.sort(_signed_sums(differences[:half]))
    right = _signed_sums(differences[half:])
    slack = _ROUNDING * math.fsum(abs(d) for d in differences)
    least = abs(math.fsum(differences)) - slack
    if least <= 0:
        return 1.0
    above = left.size - np.searchsorted(left, least - right, side="left")
    below = np.searchsorted(left, -least - right, side="right")
    return float(int(above.sum()) + int(below.sum())) / 2.0 ** len(differences)


def _signed_sums(differences: Sequence[float]) -> NDArray[np.float64]:
    """Return the sums under every choice of signs, ``[2^n]``."""
    sums = np.zeros(1)
    for difference in differences:
        sums = np.concatenate([sums + difference, sums - difference])
    return sums


ALPHA = 0.05


def q_values(ps: Mapping[str, float]) -> dict[str, float]:
    """Return the q-value of each claim, given its p."""
    if not ps:
        return {}
    return dict(zip(ps, false_discovery_control([*ps.values()]).tolist(), strict=True))


def holm(ps: Mapping[str, float]) -> dict[str, float]:
    """Return the p of each test, corrected for all of them."""
    corrected: dict[str, float] = {}
    largest = 0.0
    for place, name in enumerate(sorted(ps, key=lambda name: ps[name])):
        largest = max(largest, min(1.0, (len(ps) - place) * ps[name]))
        corrected[name] = largest
    return corrected


POWER = 0.8
MIN_PAIRS = 3  # fewer pairs give no verdict
MOST_SEEDS = 1000
_NUM_QUANTILES = 200  # quantiles of an estimated spread
_PRECISION = 1e-4  # relative precision of an effect


def power(effect: float, spread: float, n: int, alpha: float = 0.05) -> float:
    """Return the probability that the (1 - alpha) interval of n pairs lies wholly above zero.

    Args:
        effect: The true mean of the differences; positive.
        spread: Their true standard deviation.
        n: The number of pairs, at least two.
        alpha: The level.
    """
    if spread == 0:
        return 1.0
    steps = effect * math.sqrt(n) / spread
    return 1 - float(nctdtr(n - 1, steps, _quantile(n, alpha)))


def smallest_effect(
    spread: float, n: int, alpha: float = 0.05, num_pairs: int | None = None
) -> float:
    """Return the true difference that n pairs of that spread tell from zero four times in five.

    Args:
        spread: Standard deviation of the paired differences.
        n: The number of pairs, at least two.
        alpha: The level.
        num_pairs: The number of pairs, at least two, from which the spread was estimated, or None
            if it is known. The fewer they are, the larger is the effect, so that the power holds on
            average over all estimates.
    """
    return _steps(n, alpha, num_pairs) * spread / math.sqrt(n)


@functools.cache
def _steps(n: int, alpha: float, num_pairs: int | None) -> float:
    """Return the smallest effect in standard errors; for an estimated spread, in estimated ones.

    Given both spreads the mean is normal, so the probability is the mean of normal probabilities
    over the quantiles of the two chi distributions: of the estimate, and of the future pairs.
    """
    if num_pairs is None:
        return float(nctdtrinc(n - 1, 1 - POWER, _quantile(n, alpha)))
    needed = _quantile(n, alpha) * _chi_quantiles(n - 1)
    estimated = _chi_quantiles(num_pairs - 1)[:, None]
    low, high = 0.0, 1.0
    while float(ndtr(high * estimated - needed).mean()) < POWER:
        low, high = high, 2 * high
    while high - low > _PRECISION * high:
        middle = (low + high) / 2
        is_enough = float(ndtr(middle * estimated - needed).mean()) >= POWER
        low, high = (low, middle) if is_enough else (middle, high)
    return high


def _chi_quantiles(df: int) -> NDArray[np.float64]:
    """Return quantiles of an estimated standard deviation of true value 1, ``[_NUM_QUANTILES]``."""
    shares = (np.arange(_NUM_QUANTILES) + 0.5) / _NUM_QUANTILES
    found: NDArray[np.float64] = np.sqrt(chdtri(df, 1 - shares) / df)
    return found


def num_seeds_to_find(
    effect: float, spread: float, alpha: float = 0.05, num_pairs: int | None = None
) -> int | None:
    """Return the fewest pairs that tell a true difference from zero four times in five.

    Args:
        effect: The true difference; positive.
        spread: Standard deviation of the paired differences.
        alpha: The level.
        num_pairs: The number of pairs from which the spread was estimated, as in `smallest_effect`.

    Returns:
        The number of pairs, or None if more than `MOST_SEEDS` are needed.
    """
    counts = range(MIN_PAIRS, MOST_SEEDS + 1)
    found = bisect.bisect_left(
        counts, True, key=lambda n: smallest_effect(spread, n, alpha, num_pairs) <= effect
    )
    return counts[found] if found < len(counts) else None


def num_seeds_to_settle(gap: float, spread: float, alpha: float = 0.05) -> int | None:
    """Return the fewest seeds whose interval decides, if mean and spread do not change.

    Args:
        gap: The distance of the mean from the value that the interval must exclude: zero if the
            mean is at least half the claimed size, else that size.
        spread: Standard deviation of the paired differences.
        alpha: The level.

    Returns:
        The number of seeds, or None if more than `MOST_SEEDS` are needed.
    """
    counts = range(MIN_PAIRS, MOST_SEEDS + 1)

    def is_settled(n: int) -> bool:
        return _quantile(n, alpha) * spread / math.sqrt(n) < gap

    found = bisect.bisect_left(counts, True, key=is_settled)
    return counts[found] if found < len(counts) else None


def _quantile(n: int, alpha: float) -> float:
    return float(stdtrit(n - 1, 1 - alpha / 2))
