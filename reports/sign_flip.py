"""How surprising are paired differences, if each could as well have had the other sign?

Fisher's exact test of randomisation (The Design of Experiments, 1935, section 21): no distribution
is supposed, only that without a difference each sign is as likely as the other. Its price is that n
pairs have no p below 2 / 2^n, so that five can never reach 0.05.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

MOST_PAIRS = 40  # beyond, half of the signs no longer fits into memory
_ROUNDING = 1e-12  # sums this close, relative to the largest, are equal


@dataclass(frozen=True, kw_only=True)
class SignFlip:
    """The answer of the test.

    Attributes:
        n: Pairs.
        alpha: The level that matters.
        p: Two-sided; None where so few pairs cannot reach `alpha`, or there are over `MOST_PAIRS`.
        least_p: The least that n pairs can give.
        num_pairs_needed: The fewest pairs that could reach `alpha`.
    """

    n: int
    alpha: float
    p: float | None
    least_p: float
    num_pairs_needed: int


def sign_flip(differences: Sequence[float], alpha: float = 0.05) -> SignFlip:
    """The exact two-sided test that paired differences scatter about zero, over all 2^n signs.

    Args:
        differences: One a pair; finite.
        alpha: Between 0 and 1.
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
    """The fewest pairs with 2 / 2^n at or below `alpha`: 6 for 0.05, 9 for 0.005."""
    return math.ceil(math.log2(2 / alpha))


def _share_as_extreme(differences: Sequence[float]) -> float:
    """Share of the signs whose sum is at least as far from zero; each half's sums are met once."""
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
    """The sums under every choice of signs, ``[2^n]``."""
    sums = np.zeros(1)
    for difference in differences:
        sums = np.concatenate([sums + difference, sums - difference])
    return sums
