"""Attention heads: check their number, draw their projections, split and merge them."""

from __future__ import annotations

import math

from torch import Tensor, nn

from models.errors import ModelError


def check_heads(owner: str, *, heads: int, dim: int) -> None:
    """Refuse heads that do not divide the width.

    Raises:
        ModelError: as ``attention: heads=3 does not divide dim=64``.
    """
    if heads < 1 or dim % heads != 0:
        raise ModelError(f"{owner}: heads={heads} does not divide dim={dim}")


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
