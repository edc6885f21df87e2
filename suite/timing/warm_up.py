"""Is a contestant still getting faster? Until it is not, samples do not count.

The test: among the last ten samples, Mann's (1945, "Nonparametric tests against trend"), which
counts the pairs that rise less those that fall. Of the 45 pairs a difference of 29 comes about by
chance in fewer than 1 of 100 cases. What is significant may still be too small to matter, so the
medians of the two halves must differ by more than a hundredth too.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterable, Sequence

from suite.timing.stopping import Limits

NUM_SAMPLES = 10
_MOST_BY_CHANCE = 28
_DIFFERENCE = 0.01


def has_trend(samples: Sequence[float]) -> bool:
    """Whether the last ten rise or fall; fewer show nothing."""
    last = samples[-NUM_SAMPLES:]
    if len(last) < NUM_SAMPLES:
        return False
    pairs = itertools.combinations(last, 2)
    balance = sum((later > earlier) - (later < earlier) for earlier, later in pairs)
    before, after = (statistics.median(half) for half in (last[:5], last[5:]))
    return abs(balance) > _MOST_BY_CHANCE and abs(after - before) > _DIFFERENCE * after


def is_warm(
    samples: Iterable[Sequence[float]], num_rounds: int, elapsed: float, limits: Limits
) -> bool:
    """Whether the warm-up of all contestants is over.

    Args:
        samples: Of each contestant, first calls left out.
        num_rounds: Passes of each so far, first calls included.
        elapsed: Seconds since the warm-up began.
        limits: How long it may take.
    """
    if num_rounds < limits.warm_up_rounds or elapsed < limits.warm_up_seconds:
        return False
    if elapsed >= limits.most_warm_up_seconds:
        return True
    some = list(samples)
    return all(len(s) >= NUM_SAMPLES for s in some) and not any(has_trend(s) for s in some)
