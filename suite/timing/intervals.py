"""Bound the median by two samples: an interval that supposes no distribution.

Of n independent samples the number below the true median is binomial with p = 1/2, whatever the
distribution: so the k-th smallest and the k-th largest enclose it with a known probability
(David and Nagaraja 2003, "Order Statistics", section 7.1).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Median:
    """Of samples, with an interval that holds the true one in 95 % of cases at least.

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
