"""The interval of a median holds the true one as often as it says, whatever the distribution."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest

from suite.timing.intervals import median_of


@pytest.mark.parametrize(
    ("num_samples", "ranks"),
    [(6, (1, 6)), (9, (2, 8)), (10, (2, 9)), (30, (10, 21)), (100, (40, 61))],
)
def test_the_ranks_are_those_of_the_tables(num_samples: int, ranks: tuple[int, int]) -> None:
    """The largest k with P(binomial(n, 1/2) < k) of at most 0.025, counted out for five n."""
    found = median_of([float(rank) for rank in range(num_samples, 0, -1)])
    assert (found.low, found.high) == ranks
    assert found.value == (num_samples + 1) / 2


def test_fewer_than_six_samples_bound_nothing() -> None:
    for number in range(1, 6):
        found = median_of([1.0] * number)
        assert not found.is_bounded
        assert found.half_width == math.inf
    assert median_of([1.0] * 6).is_bounded


@pytest.mark.parametrize("num_samples", [7, 10, 31])
@pytest.mark.parametrize(
    ("draw", "median"),
    [
        (lambda chance: chance.gauss(5.0, 1.0), 5.0),
        (lambda chance: chance.expovariate(1.0), math.log(2)),
        (lambda chance: 1.0 + chance.paretovariate(1.1), 1.0 + 2 ** (1 / 1.1)),  # wild tails
    ],
    ids=["normal", "exponential", "pareto"],
)
def test_it_covers_the_true_median_in_95_of_100_cases(
    num_samples: int, draw: Callable[[random.Random], float], median: float
) -> None:
    chance, num_trials = random.Random(1), 2000
    covered = 0
    for _ in range(num_trials):
        found = median_of([draw(chance) for _ in range(num_samples)])
        covered += found.low <= median <= found.high
    assert 0.94 <= covered / num_trials < 0.995


def test_the_half_width_is_a_share_of_the_median() -> None:
    assert median_of([9.0, 11.0] * 15).half_width == pytest.approx(0.1)


def test_thousands_of_samples_are_no_trouble() -> None:
    found = median_of([float(i) for i in range(4001)])
    assert found.value == 2000.0
    assert 55 <= 2000 - found.low <= 70  # 1.96 * sqrt(4001) / 2 is 62
