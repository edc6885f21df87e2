"""Test the order of examples: it is stable, and each example occurs once per epoch."""

import numpy as np
import pytest

from bakeoff.suite.tasks.data_order import HELD_OUT_SEED, RandomStream, chances_of, shuffled_indices


def test_the_order_is_the_recorded_one() -> None:
    """Another order is another experiment and must raise the version of every task."""
    starts = RandomStream(0, 0).integers(4, low=0, high=1000)
    assert starts.tolist() == [259, 458, 49, 556]
    order = shuffled_indices(seed=1, step=0, batch=6, num_examples=6)
    assert order.tolist() == [3, 5, 2, 0, 1, 4]


@pytest.mark.parametrize("batch", [1, 7, 10, 25, 64])
def test_each_example_comes_once_an_epoch(batch: int) -> None:
    num_examples, num_epochs = 25, 64
    num_steps = num_examples * num_epochs // batch
    order = np.concatenate(
        [
            shuffled_indices(seed=4, step=step, batch=batch, num_examples=num_examples)
            for step in range(num_steps)
        ]
    )
    whole = order[: len(order) // num_examples * num_examples].reshape(-1, num_examples)
    assert (np.sort(whole, axis=1) == np.arange(num_examples)).all()
    assert len({tuple(epoch) for epoch in whole}) == len(whole)


def test_the_batch_size_only_cuts_the_order() -> None:
    whole = shuffled_indices(seed=0, step=0, batch=60, num_examples=25)
    parts = [shuffled_indices(seed=0, step=step, batch=6, num_examples=25) for step in range(10)]
    assert np.array_equal(whole, np.concatenate(parts))


def test_the_numbers_are_the_recorded_ones() -> None:
    """Other numbers are another experiment and must raise the version of every task."""
    stream = RandomStream(3, 5)
    assert stream.integers(2, 3, low=10, high=20).tolist() == [[11, 19, 10], [17, 16, 10]]
    assert stream.uniform(2).tolist() == [0.09952019196994921, 0.488679495860607]
    assert stream.distinct(2, 3, 5).tolist() == [[2, 4, 3], [3, 4, 2]]
    assert RandomStream(HELD_OUT_SEED, 0).integers(4, low=0, high=1000).tolist() == [
        347,
        199,
        260,
        150,
    ]


def test_streams_and_seeds_are_unrelated() -> None:
    first = RandomStream(0, 0).uniform(4000)
    for key in ((0, 1), (1, 0), (1, 1), (HELD_OUT_SEED, 0)):
        assert abs(np.corrcoef(first, RandomStream(*key).uniform(4000))[0, 1]) < 0.06
    assert not np.array_equal(RandomStream(2, 3).bits(9), RandomStream(3, 2).bits(9))


def test_integers_are_uniform_and_keep_to_their_bounds() -> None:
    counts = np.bincount(
        RandomStream(0, 0).integers(100, 200, low=3, high=13).ravel(), minlength=13
    )
    assert counts[:3].sum() == 0
    chi_squared = ((counts[3:] - 2000) ** 2 / 2000).sum()
    assert chi_squared < 27.9  # 99.9 % of chi-squared with 9 degrees of freedom


def test_uniform_numbers_lie_strictly_between_0_and_1() -> None:
    drawn = RandomStream(0, 0).uniform(20_000)
    assert 0 < drawn.min() < 0.001
    assert 0.999 < drawn.max() < 1
    assert drawn.mean() == pytest.approx(0.5, abs=0.007)


def test_distinct_numbers_are_distinct_and_every_order_is_as_likely() -> None:
    drawn = RandomStream(0, 0).distinct(24_000, 3, 4)
    assert (np.diff(np.sort(drawn, axis=1), axis=1) > 0).all()
    orders, counts = np.unique(drawn, axis=0, return_counts=True)
    assert len(orders) == 24
    chi_squared = ((counts - 1000) ** 2 / 1000).sum()
    assert chi_squared < 49.7  # 99.9 % with 23 degrees of freedom


def test_all_numbers_may_be_drawn() -> None:
    drawn = RandomStream(0, 0).distinct(3, 50, 50)
    assert (np.sort(drawn, axis=1) == np.arange(50)).all()


def test_weighted_numbers_are_drawn_one_after_the_other_by_weight() -> None:
    """Compare the probability of (i, j) with w_i / W * w_j / (W - w_i)."""
    weights = np.array([6.0, 3.0, 1.0])
    drawn = RandomStream(0, 0).weighted_distinct(40_000, 2, weights)
    for i in range(3):
        for j in set(range(3)) - {i}:
            share = ((drawn[:, 0] == i) & (drawn[:, 1] == j)).mean()
            expected = weights[i] / 10 * weights[j] / (10 - weights[i])
            assert share == pytest.approx(expected, abs=0.01)


def test_normal_numbers_are_normal() -> None:
    numbers = RandomStream(1, 2).normal(100_000)
    assert numbers.mean() == pytest.approx(0.0, abs=0.02)
    assert numbers.std() == pytest.approx(1.0, abs=0.02)
    assert (np.abs(numbers) < 1.96).mean() == pytest.approx(0.95, abs=0.005)


def test_chances_are_of_an_example_and_not_of_its_batch() -> None:
    captions = np.array([[1, 2, 3], [1, 2, 4], [1, 2, 3], [2, 1, 3]])
    found = chances_of(captions, 50)
    assert found.shape == (4, 50)
    assert (found[0] == found[2]).all()
    assert (chances_of(captions[3:], 50)[0] == found[3]).all()
    assert len({round(each, 6) for each in found[[0, 1, 3]].flatten().tolist()}) > 140
    assert 0 < found.min() < 0.05
    assert 0.95 < found.max() < 1
