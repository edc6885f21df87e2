"""Attention heads: draw their projections, split and merge them."""

from __future__ import annotations

import math

from torch import Tensor, nn


def square_projections(
    dim: int, *, bias: bool = False
) -> tuple[nn.Linear, nn.Linear, nn.Linear, nn.Linear]:
    """Of queries, keys, values and outputs, drawn by `draw_projections`."""
    query, key, value, output = (nn.Linear(dim, dim, bias=bias) for _ in range(4))
    draw_projections(query, key, value, output)
    return query, key, value, output


def draw_projections(*linears: nn.Linear | None) -> None:
    """Draw weights uniformly, with variance 1 / inputs; biases are left alone.

    It keeps the variance of a normalised input whatever the width of the heads, so that scores
    have variance d unscaled: the premise of the footnote on 1/sqrt(d) of Vaswani et al. 2017
    (arXiv:1706.03762). Where a map is square, this is Xavier's rule (Glorot and Bengio 2010), by
    which keys wider than the model would start the smaller, the wider they are.
    """
    for linear in linears:
        if linear is not None:
            limit = math.sqrt(3.0) * math.sqrt(1.0 / linear.in_features)
            nn.init.uniform_(linear.weight, -limit, limit)


def split_heads(x: Tensor, heads: int) -> Tensor:
    """`[batch, time, heads * width]` -> `[batch, heads, time, width]`."""
    batch, time, width = x.shape
    return x.reshape(batch, time, heads, width // heads).transpose(1, 2)


def merge_heads(x: Tensor) -> Tensor:
    """`[batch, heads, time, width]` -> `[batch, time, heads * width]`."""
    return x.transpose(1, 2).flatten(2)
