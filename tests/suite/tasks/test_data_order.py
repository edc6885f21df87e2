"""Which examples a step sees: the same for good, each once an epoch."""

import numpy as np
import pytest

from suite.tasks.data_order import random_starts, shuffled_indices


def test_the_order_is_the_recorded_one() -> None:
    """Another order is another experiment: it must raise the version of every task."""
    starts = random_starts(seed=0, step=0, batch=4, num_starts=1000)
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


def test_starts_are_uniform_over_the_whole_range() -> None:
    starts = np.concatenate(
        [random_starts(seed=5, step=step, batch=100, num_starts=10) for step in range(200)]
    )
    counts = np.bincount(starts, minlength=10)
    assert len(counts) == 10
    chi_squared = ((counts - 2000) ** 2 / 2000).sum()
    assert chi_squared < 27.9  # 99.9 % of chi-squared with 9 degrees of freedom


def test_neighbouring_seeds_and_steps_are_unrelated() -> None:
    def draw(seed: int, step: int) -> np.ndarray:
        return random_starts(seed=seed, step=step, batch=2000, num_starts=10**6).astype(float)

    for other in (draw(0, 1), draw(1, 0), draw(1, 1)):
        assert abs(np.corrcoef(draw(0, 0), other)[0, 1]) < 0.1
    assert not np.array_equal(draw(2, 3), draw(3, 2))
