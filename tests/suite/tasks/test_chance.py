"""Random numbers: the recorded ones, for good, and by the laws that they are said to have."""

import numpy as np
import pytest

from suite.tasks.chance import HELD_OUT_SEED, Chance


def test_the_numbers_are_the_recorded_ones() -> None:
    """Other numbers are another experiment: they must raise the version of every task."""
    chance = Chance(3, 5)
    assert chance.integers(2, 3, low=10, high=20).tolist() == [[11, 19, 10], [17, 16, 10]]
    assert chance.uniform(2).tolist() == [0.09952019196994921, 0.488679495860607]
    assert chance.distinct(2, 3, 5).tolist() == [[2, 4, 3], [3, 4, 2]]
    assert Chance(HELD_OUT_SEED, 0).integers(4, low=0, high=1000).tolist() == [347, 199, 260, 150]


def test_streams_and_seeds_are_unrelated() -> None:
    first = Chance(0, 0).uniform(4000)
    for other in (Chance(0, 1), Chance(1, 0), Chance(HELD_OUT_SEED, 0)):
        assert abs(np.corrcoef(first, other.uniform(4000))[0, 1]) < 0.06


def test_integers_are_uniform_and_keep_to_their_bounds() -> None:
    counts = np.bincount(Chance(0, 0).integers(100, 200, low=3, high=13).ravel(), minlength=13)
    assert counts[:3].sum() == 0
    chi_squared = ((counts[3:] - 2000) ** 2 / 2000).sum()
    assert chi_squared < 27.9  # 99.9 % of chi-squared with 9 degrees of freedom


def test_uniform_numbers_lie_strictly_between_0_and_1() -> None:
    drawn = Chance(0, 0).uniform(20_000)
    assert 0 < drawn.min() < 0.001
    assert 0.999 < drawn.max() < 1
    assert drawn.mean() == pytest.approx(0.5, abs=0.007)


def test_distinct_numbers_are_distinct_and_every_order_is_as_likely() -> None:
    drawn = Chance(0, 0).distinct(24_000, 3, 4)
    assert (np.diff(np.sort(drawn, axis=1), axis=1) > 0).all()
    orders, counts = np.unique(drawn, axis=0, return_counts=True)
    assert len(orders) == 24
    chi_squared = ((counts - 1000) ** 2 / 1000).sum()
    assert chi_squared < 49.7  # 99.9 % with 23 degrees of freedom


def test_all_numbers_may_be_drawn() -> None:
    drawn = Chance(0, 0).distinct(3, 50, 50)
    assert (np.sort(drawn, axis=1) == np.arange(50)).all()


def test_weighted_numbers_are_drawn_one_after_the_other_by_weight() -> None:
    """The chance of (i, j) is w_i / W * w_j / (W - w_i)."""
    weights = np.array([6.0, 3.0, 1.0])
    drawn = Chance(0, 0).weighted_distinct(40_000, 2, weights)
    for i in range(3):
        for j in set(range(3)) - {i}:
            share = ((drawn[:, 0] == i) & (drawn[:, 1] == j)).mean()
            expected = weights[i] / 10 * weights[j] / (10 - weights[i])
            assert share == pytest.approx(expected, abs=0.01)
