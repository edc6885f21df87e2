"""Softmax attention over what each query may see: the fused form, and the weights themselves.

What `attention`, `plain_attention` and `local_attention` share, with their heads: how projections
are drawn, split and merged. Scores and positions are the mixers' own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from models.kernels.attention_kernels import Kernel, attended
from models.mixer import Context, Mask


@dataclass(frozen=True, kw_only=True)
class Visibility:
    """Which query may see which key.

    Attributes:
        queries: `[time]`, the places of the queries.
        keys: `[time2]`, the places of the keys.
        real: `[batch, time2]`, True where a key is no padding; None where all are real.
        is_causal: Whether keys that come after a query are hidden from it.
        window: How far from a query a key may stand; None for any distance.
        sinks: How many keys, from the first on, may be seen from outside the window too.
        prefix: `[batch, 1, 1, 1]`, or of one row for all: how many keys, from the first on, may be
            seen by queries before them too; None for none.
    """

    queries: Tensor
    keys: Tensor
    real: Tensor | None
    is_causal: bool
    window: int | None = None
    sinks: int = 0
    prefix: Tensor | None = None

    def is_everything(self) -> bool:
        """Whether nothing is hidden from anybody."""
        return self.real is None and self.window is None and not self.is_causal

    def distance(self) -> Tensor:
        """`[time, time2]`: place of the key minus place of the query."""
        return self.keys[None, :] - self.queries[:, None]

    def _is_sink(self) -> Tensor:
        """`[time2]`."""
        return self.keys < self.sinks

    def mask(self) -> Tensor:
        """True where a key may be seen; broadcasts to `[batch, heads, time, time2]`."""
        allowed = torch.ones(len(self.queries), len(self.keys), device=self.keys.device).bool()
        if self.is_causal:
            allowed = allowed & (self.distance() <= 0)
        if self.prefix is not None:
            allowed = allowed | (self.keys < self.prefix)
        if self.window is not None:
            is_near = self.distance().abs() <= self.window
            allowed = allowed & (is_near if self.sinks == 0 else is_near | self._is_sink())
        return allowed if self.real is None else allowed & self.real[:, None, None, :]


def whole_sequence(
    x: Tensor, mask: Mask, context: Context, context_mask: Mask, *, is_causal: bool
) -> Visibility:
    """All of a sequence as queries, all of the same or of another one as keys."""
    others, real = (x, mask) if context is None else (context, context_mask)
    queries, keys = (torch.arange(each.shape[1], device=x.device) for each in (x, others))
    return Visibility(queries=queries, keys=keys, real=real, is_causal=is_causal)


def newest_token(num_keys: int, device: torch.device) -> Visibility:
    """One query, the last of `num_keys` tokens, which sees them all."""
    places = torch.arange(num_keys, device=device)
    return Visibility(queries=places[-1:], keys=places, real=None, is_causal=False)


def fused_attention(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    visible: Visibility,
    *,
    scale: float,
    bias: Tensor | None = None,
    kernel: Kernel = "fused",
) -> Tensor:
    """softmax(scale q k + bias) v by `scaled_dot_product_attention`.

    A mask is made only where more is hidden than by the causal rule: not every kernel takes one.

    Args:
        queries: `[batch, heads, time, width]`.
        keys: `[batch, heads, time2, width]`.
        values: `[batch, heads, time2, width2]`.
        visible: Who may see whom.
        scale: What products are multiplied by.
        bias: Broadcasts to `[batch, heads, time, time2]`; None for nothing.
        kernel: See `models.kernels.attention_kernels`.

    Returns:
        `[batch, heads, time, width2]`; zeros for a query that may see nothing.
    """
    is_plain = visible.real is None and visible.window is None and visible.prefix is None
    if is_plain and bias is None:
        is_causal = visible.is_causal
        return attended(kernel, queries, keys, values, is_causal=is_causal, scale=scale)
    allowed = visible.mask()
    return masked_attention(queries, keys, values, allowed, scale=scale, bias=bias, kernel=kernel)


def masked_attention(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    allowed: Tensor,
    *,
    scale: float,
    bias: Tensor | None = None,
    kernel: Kernel = "fused",
) -> Tensor:
    """As `fused_attention`, with True in `allowed` where a key may be seen."""
    # Kernels differ in a softmax over nothing: such a row looks everywhere, then is zeroed.
    sees_nothing = ~allowed.any(dim=-1, keepdim=True)
    shown = allowed | sees_nothing
    mask = shown if bias is None else bias.masked_fill(~shown, -torch.inf)
    heads = attended(kernel, queries, keys, values, attn_mask=mask, scale=scale)
    return heads.masked_fill(sees_nothing, 0.0)


def fused_scratch_bytes(*, rows: int, queries: int, keys: int, width: int) -> float:
    """What torch's fused kernel for the CPU takes for itself, in float32.

    The logarithm of each query's sum, and in each thread a tile of scores, two numbers for each of
    its queries, and their outputs so far. Tiles are 256 queries high where there are 768, 64 where
    there are 192, else 32, and 512 keys wide (torch 2.13, FlashAttentionKernel.cpp).

    Args:
        rows: Batch times heads.
        queries: Of each row.
        keys: Of each row.
        width: Of a head.
    """
    height = 256 if queries >= 768 else 64 if queries >= 192 else 32
    tile = min(height, queries) * (min(keys, 512) + 2 + width)
    return 4.0 * (rows * queries + torch.get_num_threads() * tile)


def softmax_weights(scores: Tensor, visible: Visibility) -> Tensor:
    """The softmax over what may be seen; a row that may see nothing is zero.

    Args:
        scores: `[batch, heads, time, time2]`, scaled and biased; hidden ones are overwritten.
        visible: Who may see whom.
    """
    if visible.is_everything():
        return scores.softmax(dim=-1)
    hidden = ~visible.mask()
    if visible.real is None:  # every query sees a key, itself at least
        # Added, since that costs the gradient nothing, where filling would fill it too.
        penalty = scores.new_zeros(hidden.shape).masked_fill_(hidden, -torch.inf)
        return scores.add_(penalty).softmax(dim=-1)
    return softmax_of_shown(scores, hidden)


def softmax_of_shown(scores: Tensor, hidden: Tensor) -> Tensor:
    """The softmax over scores that are not hidden, zeros for the others, which are overwritten."""
    lowest = torch.finfo(scores.dtype).min
    return scores.masked_fill_(hidden, lowest).softmax(dim=-1).masked_fill(hidden, 0.0)


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


def project_to_head(linear: nn.Linear, head: int, width: int, tokens: Tensor) -> Tensor:
    """The projection of tokens `[..., dim]` to one head `[..., width]`, for references."""
    rows = slice(head * width, (head + 1) * width)
    projected = tokens @ linear.weight[rows].T
    return projected if linear.bias is None else projected + linear.bias[rows]


def merge_heads(x: Tensor) -> Tensor:
    """`[batch, heads, time, width]` -> `[batch, time, heads * width]`."""
    return x.transpose(1, 2).flatten(2)
