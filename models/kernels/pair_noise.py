"""Gumbel noise for pairs of a query and a key that can be computed again without being kept.

Each query and each key gets a random odd whole number of 32 bits; the noise of a pair is a function
of their product r c mod 2^32. Multiplication by an odd number permutes the odd numbers, so the
noises of one query are exactly independent and uniform over 2^31 values, and so are those of one
key, and any two pairs of different queries and keys. Only noises of at least two queries and two
keys together are dependent, through r c r' c' = r c' r' c, which a maximum over keys does not see:
tests compare frequencies of samples, and of samples of two queries together.
"""

from __future__ import annotations

import torch
from torch import Tensor

_HIGHEST = 2**31
_SCALE = (1 - 2**-24) / _HIGHEST  # so that the largest product gives a number below 1 in float32


def draw_pairs(queries: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
    """Return the numbers of queries and of keys, `[batch, heads, time, 1]` and `[.., time2, 1]`.

    Args:
        queries: `[batch, heads, time, width]`.
        keys: `[batch, heads, time2, width]`.
    """
    return _odd_numbers(queries), _odd_numbers(keys)


def gumbel_of_pairs(of_queries: Tensor, of_keys: Tensor) -> Tensor:
    """Return samples of Gumbel(0, 1), `[batch, heads, time, time2]`, in float32.

    The arguments are the results of `draw_pairs`, or the same slices of them.
    """
    products = of_queries * of_keys.transpose(-1, -2)  # mod 2^32: an overflow wraps around
    uniform = products.abs_().float().mul_(_SCALE)
    # Small exponentials, which become the largest noises, keep all their digits.
    return uniform.neg_().log1p_().neg_().log_().neg_()


def _odd_numbers(x: Tensor) -> Tensor:
    shape = (*x.shape[:-1], 1)
    numbers = torch.randint(-_HIGHEST, _HIGHEST, shape, dtype=torch.int32, device=x.device)
    return numbers | 1
