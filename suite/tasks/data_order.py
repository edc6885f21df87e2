"""Which examples a training step sees: pure functions of (seed, step), alike in every process.

The numbers are the raw output of Philox 4x64 (Salmon et al. 2011, "Parallel random numbers: as
easy as 1, 2, 3"), a counter-based generator whose key is the pair itself. NumPy guarantees the
raw stream of a bit generator for good, which it does not for `Generator.integers` or
`Generator.permutation`; hence the arithmetic here.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray


def random_starts(*, seed: int, step: int, batch: int, num_starts: int) -> NDArray[np.int64]:
    """`[batch]` integers in 0..num_starts-1, uniform and independent.

    The remainder favours small numbers by less than num_starts / 2**64.
    """
    return (_random_bits(seed, step, batch) % np.uint64(num_starts)).astype(np.int64)


def shuffled_indices(*, seed: int, step: int, batch: int, num_examples: int) -> NDArray[np.int64]:
    """`[batch]` indices into a data set that is shuffled afresh each epoch.

    The epochs' orders are laid end to end, and step k takes the places from k * batch on: within
    an epoch no example comes twice, and each comes once, whatever the batch size.
    """
    places = np.arange(step * batch, (step + 1) * batch)
    epochs = places // num_examples
    orders = [
        _epoch_order(seed, epoch, num_examples)[places[epochs == epoch] % num_examples]
        for epoch in range(int(epochs[0]), int(epochs[-1]) + 1)
    ]
    return np.concatenate(orders)


@lru_cache(maxsize=8)
def _epoch_order(seed: int, epoch: int, num_examples: int) -> NDArray[np.int64]:
    return np.argsort(_random_bits(seed, epoch, num_examples), kind="stable")


def _random_bits(seed: int, stream: int, count: int) -> NDArray[np.uint64]:
    return np.random.Philox(key=np.array([seed, stream], dtype=np.uint64)).random_raw(count)
