"""Test that pooled numbers are correct and reproducible, and the coverage of their intervals."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from bakeoff.reports.stats.aggregate import improvement, interquartile_mean, pooled_interval
from bakeoff.reports.stats.intervals import mean_interval

TASKS = {"x": [1.0, 1.2, 1.1], "y": [0.2, 0.4, 0.1], "z": [3.0, 2.0, 2.5]}


def test_the_middle_half_is_that_of_scipy() -> None:
    values = np.random.default_rng(0).normal(size=(5, 4))
    by_task = {str(index): row.tolist() for index, row in enumerate(values)}
    assert interquartile_mean(by_task) == pytest.approx(stats.trim_mean(values, 0.25, axis=None))


def test_two_tasks_are_averaged_and_none_is_no_number() -> None:
    assert interquartile_mean({"x": [1.0, 2.0, 3.0], "y": [10.0]}) == 6.0
    assert math.isnan(interquartile_mean({"x": []}))
    assert pooled_interval({}).n == 0


def test_an_outlying_task_does_not_carry_it() -> None:
    wild = TASKS | {"w": [0.5, 0.6, 0.7], "z": [300.0, 200.0, 250.0]}
    assert interquartile_mean(wild) == pytest.approx((0.5 + 0.6 + 0.7 + 1.0 + 1.1 + 1.2) / 6)


def test_same_seed_same_bits_and_the_global_generator_is_left_alone() -> None:
    np.random.seed(1)
    before = np.random.get_state()[1].tolist()
    first = pooled_interval(TASKS, seed=3)
    assert np.random.get_state()[1].tolist() == before
    turned = dict(reversed(TASKS.items()))
    assert pooled_interval(turned, seed=3) == first
    many = {"x": np.random.default_rng(0).normal(size=10).tolist()}
    assert pooled_interval(many, seed=4) != pooled_interval(many, seed=3)
    assert first.n == 9
    assert first.low < first.point < first.high


def test_scale_and_shift_go_along() -> None:
    first = pooled_interval(TASKS)
    moved = pooled_interval({task: [5 + 2 * x for x in v] for task, v in TASKS.items()})
    assert (moved.point, moved.low, moved.high) == pytest.approx(
        tuple(5 + 2 * (x or 0) for x in (first.point, first.low, first.high))
    )


def test_one_task_is_close_to_the_interval_of_t() -> None:
    values = np.random.default_rng(2).normal(size=10).tolist()
    pooled, plain = pooled_interval({"x": values}), mean_interval(values)
    assert pooled.point == pytest.approx(plain.point)
    assert pooled.half_width == pytest.approx(plain.half_width, rel=0.1)


def test_one_pair_shows_no_spread_and_equal_pairs_have_none() -> None:
    lone = pooled_interval({"x": [1.0, 2.0], "y": [3.0]})
    assert lone.point == 2.25
    assert lone.low is None
    same = pooled_interval({"x": [1.0, 1.0], "y": [1.0, 1.0], "z": [1.0, 1.0]})
    assert (same.low, same.high) == (1.0, 1.0)


def test_tiny_spreads_do_not_vanish() -> None:
    tiny = pooled_interval({task: [1e-200 * x for x in v] for task, v in TASKS.items()})
    assert tiny.half_width > 0


def test_improvement_by_hand() -> None:
    found = improvement([0.5, 0.0, -math.inf, math.inf])
    assert (found.num_better, found.num_equal) == (2, 1)
    assert found.probability.point == 2.5 / 4
    assert improvement([]).probability.point is None


@pytest.mark.parametrize(("num", "n"), [(3, 3), (0, 3), (7, 10)])
def test_its_interval_is_that_of_clopper_and_pearson(num: int, n: int) -> None:
    found = improvement([1.0] * num + [-1.0] * (n - num)).probability
    theirs = stats.binomtest(num, n).proportion_ci(0.95, method="exact")
    assert (found.low, found.high) == pytest.approx((theirs.low, theirs.high))


@pytest.mark.parametrize("n", [3, 5, 10])
def test_its_interval_covers_at_least_as_often_as_it_says(n: int) -> None:
    """Compute the exact coverage as a sum over every outcome."""
    intervals = [improvement([1.0] * k + [-1.0] * (n - k)).probability for k in range(n + 1)]
    for p in np.linspace(0.01, 0.99, 99):
        covered = sum(
            stats.binom.pmf(k, n, p)
            for k, each in enumerate(intervals)
            if (each.low or 0) <= p <= (each.high or 0)
        )
        assert covered >= 0.95
