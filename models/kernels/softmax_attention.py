"""Softmax attention with masks: the fused form, and the explicit weights.

The functions are shared by `attention`, `plain_attention` and `local_attention`: projections are
drawn here, split into heads and merged. Scores and positions belong to the mixers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from bakeoff.models.kernels.attention_kernels import Kernel, attended
from bakeoff.models.mixer import Context, Mask


@dataclass(frozen=True, kw_only=True)
class Visibility:
    """The keys that each query may attend to.

    Attributes:
        queries: `[time]`, positions of the queries.
        keys: `[time2]`, positions of the keys.
        real: `[batch, time2]`, False for padded keys, or None if all are real.
        is_causal: Whether keys after a query are hidden from it.
        window: Maximum distance from a query to a key, or None for any distance.
        sinks: Number of keys at the start that are also visible from outside the window.
        prefix: `[batch, 1, 1, 1]`, or with one row for all: number of keys at the start that are
            visible to earlier queries too, or None if there is no prefix.
    """

    queries: Tensor
    keys: Tensor
    real: Tensor | None
    is_causal: bool
    window: int | None = None
    sinks: int = 0
    prefix: Tensor | None = None

    def is_everything(self) -> bool:
        """Return True if no key is hidden from any query."""
        return self.real is None and self.window is None and not self.is_causal

    def of_queries(self, start: int, stop: int) -> Visibility:
        """Return the visibility of the queries from index `start` up to below `stop`.

        If a causal sequence attends to itself, the keys after these queries are left out.
        """
        is_square = len(self.queries) == len(self.keys)
        last = stop if self.is_causal and self.prefix is None and is_square else len(self.keys)
        return replace(
            self,
            queries=self.queries[start:stop],
            keys=self.keys[:last],
            real=None if self.real is None else self.real[:, :last],
        )

    def distance(self) -> Tensor:
        """Return the position of each key minus that of each query, `[time, time2]`."""
        return self.keys[None, :] - self.queries[:, None]

    def _is_sink(self) -> Tensor:
        """Return a mask of the sink keys, `[time2]`."""
        return self.keys < self.sinks

    def mask(self) -> Tensor:
        """Return True for visible keys; broadcasts to `[batch, heads, time, time2]`."""
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
    """Return the visibility of all tokens of `x` as queries, and of `x` or the context as keys."""
    others, real = (x, mask) if context is None else (context, context_mask)
    queries, keys = (torch.arange(each.shape[1], device=x.device) for each in (x, others))
    return Visibility(queries=queries, keys=keys, real=real, is_causal=is_causal)


def newest_token(num_keys: int, device: torch.device) -> Visibility:
    """Return the visibility of one query, the last of `num_keys` tokens, which attends to all."""
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
    """Compute softmax(scale q k + bias) v with `scaled_dot_product_attention`.

    A mask is created only if the causal rule is not enough, since some kernels take no mask.

    Args:
        queries: `[batch, heads, time, width]`.
        keys: `[batch, heads, time2, width]`.
        values: `[batch, heads, time2, width2]`.
        visible: The keys that each query may attend to.
        scale: Factor of the products.
        bias: Broadcasts to `[batch, heads, time, time2]`; may be None.
        kernel: See `bakeoff.models.kernels.attention_kernels`.

    Returns:
        `[batch, heads, time, width2]`; zeros for a query that may attend to no key.
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
    """Compute `fused_attention` with a mask that is True for visible keys."""
    # Kernels differ for a softmax over nothing, so such a row attends to all, then is zeroed.
    sees_nothing = ~allowed.any(dim=-1, keepdim=True)
    shown = allowed | sees_nothing
    mask = shown if bias is None else bias.masked_fill(~shown, -torch.inf)
    heads = attended(kernel, queries, keys, values, attn_mask=mask, scale=scale)
    return heads.masked_fill(sees_nothing, 0.0)


def fused_scratch_bytes(*, rows: int, queries: int, keys: int, width: int) -> float:
    """Return the bytes that torch's fused kernel for the CPU allocates for itself, in float32.

    It stores the logarithm of the sum of each query, and, in each thread, a tile of scores with two
    numbers per query and the outputs so far. Tiles are 256 queries high for at least 768 queries,
    64 for at least 192, else 32, and 512 keys wide (torch 2.13, FlashAttentionKernel.cpp).

    Args:
        rows: Batch times heads.
        queries: Number of queries per row.
        keys: Number of keys per row.
        width: Width of a head.
    """
    height = 256 if queries >= 768 else 64 if queries >= 192 else 32
    tile = min(height, queries) * (min(keys, 512) + 2 + width)
    return 4.0 * (rows * queries + torch.get_num_threads() * tile)


def softmax_weights(scores: Tensor, visible: Visibility) -> Tensor:
    """Compute the softmax over visible keys; a row without visible keys is zero.

    Args:
        scores: `[batch, heads, time, time2]`, scaled and biased; changed in place.
        visible: The keys that each query may attend to.
    """
    if visible.is_everything():
        return scores.softmax(dim=-1)
    hidden = ~visible.mask()
    if visible.real is None:  # every query attends to at least one key, itself
        # Adding costs no time in the backward pass; filling would fill the gradient too.
        penalty = scores.new_zeros(hidden.shape).masked_fill_(hidden, -torch.inf)
        return scores.add_(penalty).softmax(dim=-1)
    return softmax_of_shown(scores, hidden)


def softmax_of_shown(scores: Tensor, hidden: Tensor) -> Tensor:
    """Compute the softmax over scores that are not hidden, else 0; changes `scores` in place."""
    lowest = torch.finfo(scores.dtype).min
    return scores.masked_fill_(hidden, lowest).softmax(dim=-1).masked_fill(hidden, 0.0)


def square_projections(
    dim: int, *, bias: bool = False
) -> tuple[nn.Linear, nn.Linear, nn.Linear, nn.Linear]:
    """Return the maps of queries, keys, values and outputs, drawn by `draw_projections`."""
    query, key, value, output = (nn.Linear(dim, dim, bias=bias) for _ in range(4))
    draw_projections(query, key, value, output)
    return query, key, value, output


def draw_projections(*linears: nn.Linear | None) -> None:
    """Draw weights uniformly, with variance 1 / inputs; biases are not changed.

    This keeps the variance of a normalised input at any width of the heads, so that unscaled scores
    have variance d: the assumption of the footnote on 1/sqrt(d) of Vaswani et al. 2017
    (arXiv:1706.03762). For a square map this is Xavier's rule (Glorot and Bengio 2010); for keys
    wider than the model, Xavier's rule would draw smaller weights, the wider they are.
    """
    for linear in linears:
        if linear is not None:
            limit = math.sqrt(3.0) * math.sqrt(1.0 / linear.in_features)
            nn.init.uniform_(linear.weight, -limit, limit)


def split_heads(x: Tensor, heads: int) -> Tensor:
    """Reshape `[batch, time, heads * width]` to `[batch, heads, time, width]`."""
    batch, time, width = x.shape
    return x.reshape(batch, time, heads, width // heads).transpose(1, 2)


def project_to_head(linear: nn.Linear, head: int, width: int, tokens: Tensor) -> Tensor:
    """Project tokens `[..., dim]` to one head `[..., width]`, for references."""
    rows = slice(head * width, (head + 1) * width)
    projected = tokens @ linear.weight[rows].T
    return projected if linear.bias is None else projected + linear.bias[rows]


def merge_heads(x: Tensor) -> Tensor:
    """Reshape `[batch, heads, time, width]` to `[batch, time, heads * width]`."""
    return x.transpose(1, 2).flatten(2)
