"""Choose and draw training examples as pure functions of (seed, step), equal in every process.

The numbers are the raw output of Philox 4x64 (Salmon et al. 2011, "Parallel random numbers: as easy
as 1, 2, 3"), a counter-based generator whose key is the pair itself. NumPy guarantees that the raw
stream of a bit generator never changes, but gives no such guarantee for `Generator.integers` or
`Generator.permutation`, so this module computes these from the raw stream.
"""

from __future__ import annotations

import hashlib
import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from bakeoff.suite.tasks.task import Split

Whole = NDArray[np.int64]


def shuffled_indices(*, seed: int, step: int, batch: int, num_examples: int) -> Whole:
    """Return `[batch]` indices into a data set that is shuffled anew in each epoch.

    The orders of the epochs are concatenated, and step k takes the positions from k * batch on:
    within an epoch each example occurs exactly once, whatever the batch size.
    """
    places = np.arange(step * batch, (step + 1) * batch)
    epochs = places // num_examples
    orders = [
        _epoch_order(seed, epoch, num_examples)[places[epochs == epoch] % num_examples]
        for epoch in range(int(epochs[0]), int(epochs[-1]) + 1)
    ]
    return np.concatenate(orders)


@lru_cache(maxsize=8)
def _epoch_order(seed: int, epoch: int, num_examples: int) -> Whole:
    return np.argsort(RandomStream(seed, epoch).bits(num_examples), kind="stable")


# No training has this seed, so held-out examples come from streams that no training reads.
HELD_OUT_SEED = 2**64 - 1


def held_out_stream(split: Split) -> RandomStream:
    """Return the stream from which a held-out split is drawn."""
    return RandomStream(HELD_OUT_SEED, ("validation", "test").index(split))


class RandomStream:
    """A stream of random numbers, a pure function of (seed, stream).

    Each draw advances the stream, so the order of the calls is part of a task's definition.

    Args:
        seed: A number of at least 0.
        stream: A number of at least 0; a different one for each training step.
    """

    def __init__(self, seed: int, stream: int) -> None:
        self._source = np.random.Philox(key=np.array([seed, stream], dtype=np.uint64))

    def bits(self, count: int) -> NDArray[np.uint64]:
        """Draw `[count]` numbers of 64 independent bits."""
        return self._source.random_raw(count)

    def integers(self, *shape: int, low: int, high: int) -> Whole:
        """Draw independent uniform integers from `low` (inclusive) to `high` (exclusive).

        The remainder favours small numbers by less than (high - low) / 2**64.
        """
        drawn = self.bits(math.prod(shape)).reshape(shape)
        return remainders(drawn, high - low) + low

    def uniform(self, *shape: int) -> NDArray[np.float64]:
        """Draw independent uniform numbers in the open interval from 0 to 1."""
        drawn = self.bits(int(np.prod(shape))) >> np.uint64(12)
        return ((drawn.astype(np.float64) + 0.5) * 2.0**-52).reshape(shape)

    def normal(self, *shape: int) -> NDArray[np.float64]:
        """Draw independent numbers of mean 0 and variance 1, by Box and Muller (1958)."""
        radius: NDArray[np.float64] = np.sqrt(-2 * np.log(self.uniform(*shape)))
        angle: NDArray[np.float64] = np.cos(2 * math.pi * self.uniform(*shape))
        return radius * angle

    def distinct(self, rows: int, count: int, among: int) -> Whole:
        """Draw `[rows, count]`: in each row distinct numbers from 0..among-1, in random order.

        This is a Fisher-Yates shuffle that ends after `count` positions.
        """
        places = np.arange(count)[:, None]
        drawn = self.bits(count * rows).reshape(count, rows)
        chosen = places + remainders(drawn, among - places)
        # One row per number, so that the values of one swap are contiguous in memory.
        left = np.tile(np.arange(among, dtype=np.int32)[:, None], (1, rows))
        cells = left.reshape(-1)
        for here, there in zip(left, chosen * rows + np.arange(rows), strict=False):
            taken = cells[there]
            cells[there] = here
            here[:] = taken
        return left[:count].T.astype(np.int64, order="C")

    def weighted_distinct(self, rows: int, count: int, weights: NDArray[np.float64]) -> Whole:
        """Draw `[rows, count]`: in each row indices of `weights`, one after the other.

        Each is drawn with a probability proportional to its weight among the remaining ones. This
        is equivalent to a race: of exponential waiting times with these rates, the shortest come
        first.
        """
        waits = -np.log(self.uniform(rows, len(weights))) / weights
        return np.argsort(waits, axis=1)[:, :count]  # no two are equal


def remainders(drawn: NDArray[np.uint64], by: Whole | int) -> Whole:
    """Return `drawn % by`, which takes numpy three times as long if `by` is one number."""
    divisor = np.asarray(by).astype(np.uint64)[()]  # a scalar, by which numpy divides faster
    return (drawn - drawn // divisor * divisor).astype(np.int64)


def chances_of(rows: Whole, count: int) -> NDArray[np.float64]:
    """Draw `[rows, count]` uniform numbers, each row as a function of its `[symbols]` only."""
    digests = (hashlib.sha256(row.tobytes()).digest() for row in rows)
    drawn = [RandomStream(int.from_bytes(digest[:7]), 0).uniform(count) for digest in digests]
    return np.stack(drawn)
