"""Test the rule for enough rounds and the message if there were too few."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest

from bakeoff.suite.timing.stopping import (
    DEFAULT,
    Limits,
    SampleSeries,
    has_enough,
    median_of,
    noise,
)

LIMITS = Limits(least_rounds=10, least_seconds=0.05, half_width=0.02, most_half_width=0.05)


@pytest.mark.parametrize(
    ("samples", "num_passes", "elapsed", "said"),
    [
        ([0.1] * 9, 1, 5.0, "fewer than 10 rounds, after 9 rounds and 5 s"),
        ([3.0], 1, 120.25, "fewer than 10 rounds, after 1 round and 120 s"),
        (
            [1e-3] * 20,
            1,
            4.0,
            "samples of 0.02 s together, under 0.05 s, after 20 rounds and 4 s",
        ),
        ([1e-4] * 20, 10, 4.0, "samples of 0.02 s together, under 0.05 s, after 20 rounds and 4 s"),
        ([1e-4] * 20, 30, 4.0, ""),
        (
            [0.1, 0.2] * 15,
            1,
            8.04,
            "interval of the median ±33.3 %, over 5 %, after 30 rounds and 8.04 s",
        ),
        ([0.1, 0.107] * 15, 1, 8.0, ""),
    ],
    ids=["rounds", "one round", "seconds", "of short passes", "of many", "interval", "enough"],
)
def test_the_criterion_that_is_missed_has_words(
    samples: list[float], num_passes: int, elapsed: float, said: str
) -> None:
    assert noise(SampleSeries(samples, num_passes), LIMITS, elapsed) == said


@pytest.mark.parametrize(
    ("samples", "enough"),
    [
        ([0.1, 0.101] * 15, True),
        ([0.1, 0.107] * 15, False),  # acceptable, although not the goal
        ([0.1] * 9, False),
        ([1e-3] * 20, False),
    ],
)
def test_what_is_aimed_at_is_more_than_what_is_put_up_with(
    samples: list[float], enough: bool
) -> None:
    assert has_enough(SampleSeries(samples, 1), LIMITS) is enough


@pytest.mark.parametrize(
    ("elapsed", "num_quiet", "num_disturbed", "is_up"),
    [
        (3.9, 100, 0, False),  # time is left
        (4.0, 100, 0, True),
        (4.0, 9, 0, False),  # rounds take long
        (120.0, 9, 0, True),  # too long
        (4.0, 9, 5, False),  # a few more quiet rounds suffice
        (4.0, 9, 10, True),  # quiet rounds are too rare
        (4.0, 0, 9, False),  # too few in total
        (4.0, 0, 10, True),
    ],
)
def test_when_time_is_up(elapsed: float, num_quiet: int, num_disturbed: int, is_up: bool) -> None:
    limits = Limits(least_rounds=10, seconds=4.0, patience=120.0)
    assert limits.is_time_up(elapsed, num_quiet, num_disturbed) is is_up


@pytest.mark.parametrize(
    ("elapsed", "num_quiet", "num_disturbed", "is_worth_more"),
    [(5.9, 10, 0, True), (6.0, 10, 0, False), (5.0, 10, 9, True), (5.0, 10, 10, False)],
)
def test_noise_is_given_a_little_longer_on_a_quiet_machine(
    elapsed: float, num_quiet: int, num_disturbed: int, is_worth_more: bool
) -> None:
    limits = Limits(most_seconds=6.0)
    assert limits.is_worth_more(elapsed, num_quiet, num_disturbed) is is_worth_more


def test_many_candidates_have_longer() -> None:
    """Check that longer rounds of many candidates do not reduce their number."""
    limits = Limits(most_seconds=6.0, seconds_each=0.5)
    assert not limits.is_worth_more(6.0, 10, 0, 12)
    assert limits.is_worth_more(14.9, 10, 0, 30)
    assert not limits.is_worth_more(15.0, 10, 0, 30)


def test_a_large_machine_is_allowed_a_larger_hum() -> None:
    assert DEFAULT.most_cores_of_others(2) == 0.15
    assert DEFAULT.most_cores_of_others(64) == pytest.approx(1.28)


def test_samples_are_longer_where_there_are_fewer() -> None:
    limits = Limits(seconds=2.0, least_rounds=9, least_seconds=0.05, least_sample=1e-3)
    assert limits.least_sample_in(0.01) == 1e-3
    assert limits.least_sample_in(0.1) == pytest.approx(3.75e-3)  # 20 rounds
    assert limits.least_sample_in(5.0) == pytest.approx(0.075 / 9)


@pytest.mark.parametrize(
    ("num_samples", "ranks"),
    [(6, (1, 6)), (9, (2, 8)), (10, (2, 9)), (30, (10, 21)), (100, (40, 61))],
)
def test_the_ranks_are_those_of_the_tables(num_samples: int, ranks: tuple[int, int]) -> None:
    """Compute the largest k with P(binomial(n, 1/2) < k) <= 0.025 for five n."""
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
        (lambda chance: 1.0 + chance.paretovariate(1.1), 1.0 + 2 ** (1 / 1.1)),  # heavy tails
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
