"""Warm-up ends when nobody gets faster any more, and at the latest at its cap."""

from __future__ import annotations

import itertools
import math
import random

import pytest

from suite.timing.stopping import Limits
from suite.timing.warm_up import has_trend, is_warm

LIMITS = Limits(warm_up_rounds=3, warm_up_seconds=0.3, most_warm_up_seconds=1.5)
LEVEL = [1.0, 1.02, 0.99, 1.01, 0.98, 1.0, 1.01, 0.99, 1.02, 1.0]
FALLING = [2.0 - 0.1 * i for i in range(10)]


def test_a_trend_is_seen_in_the_last_ten() -> None:
    assert has_trend(FALLING)
    assert has_trend(FALLING[::-1])  # slowing down, as a hot machine does
    assert not has_trend(LEVEL)
    assert has_trend(LEVEL + FALLING)
    assert not has_trend(FALLING + LEVEL)


def test_what_is_too_small_to_matter_is_no_trend() -> None:
    assert not has_trend([1.0 - 1e-4 * i for i in range(10)])


def test_few_samples_show_no_trend() -> None:
    assert not has_trend(FALLING[:9])


def test_chance_looks_like_a_trend_in_fewer_than_1_of_100_cases() -> None:
    """By the exact distribution of the number of inversions of ten values."""
    counts = {0: 1}
    for size in range(2, 11):
        longer: dict[int, int] = {}
        for (inversions, ways), more in itertools.product(counts.items(), range(size)):
            longer[inversions + more] = longer.get(inversions + more, 0) + ways
        counts = longer
    far = sum(ways for inversions, ways in counts.items() if abs(45 - 2 * inversions) > 28)
    assert sum(counts.values()) == math.factorial(10)
    assert 0.005 < far / math.factorial(10) < 0.01
    chance = random.Random(0)
    found = sum(has_trend([chance.gauss(1, 0.1) for _ in range(10)]) for _ in range(2000))
    assert 2 <= found <= 30


@pytest.mark.parametrize(
    ("samples", "num_rounds", "elapsed", "warm"),
    [
        ([LEVEL], 2, 1.0, False),  # too few rounds
        ([LEVEL], 11, 0.2, False),  # too short
        ([LEVEL], 11, 0.3, True),
        ([LEVEL, FALLING], 11, 0.3, False),
        ([LEVEL, FALLING], 11, 1.5, True),  # the cap
        ([LEVEL[:2]], 3, 1.0, False),  # too few to see a trend in
        ([LEVEL[:2]], 3, 1.5, True),
        ([LEVEL[:1]], 2, 60.0, False),  # never fewer than three rounds
    ],
)
def test_when_all_are_warm(
    samples: list[list[float]], num_rounds: int, elapsed: float, warm: bool
) -> None:
    assert is_warm(samples, num_rounds, elapsed, LIMITS) is warm
