"""The fast form of the recurrence of `kernels.matrix_state`, in chunks of tokens.

Inside a chunk, tokens interact by matrix products, computed for all chunks at once; the decays are
computed in `kernels.decay_levels`. With the delta rule, the writes u of a chunk solve a unit lower
triangular system (the UT transform of Yang et al. 2024, arXiv:2406.06484), separately for the state
before the chunk and for the values. A chunk is thus one map from the state before it to the state
after it; only these maps are applied sequentially, in `kernels.state_pass`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from bakeoff.models.kernels.decay_levels import decayed_products, head_decays
from bakeoff.models.kernels.half_products import Product
from bakeoff.models.kernels.matrix_state import Streams
from bakeoff.models.kernels.state_pass import states_after, states_before


def chunked(
    streams: Streams, *, has_delta: bool, size: int, product: Product = torch.matmul
) -> Tensor:
    """Compute the fast form: all chunks at once, except for the states between them.

    Args:
        streams: Streams of any length.
        has_delta: Whether to use the delta rule; see `one_step`.
        size: Tokens per chunk, rounded down to a power of 2.
        product: Function that multiplies matrices; the triangular solve and the states between
            chunks do without it.

    Returns:
        `[batch, heads, time, value_width]`, in at least float32.
    """
    length = streams.values.shape[2]
    size = chunk_size(size)
    chunks = streams.wide().padded(-length % size).in_chunks(size)
    return in_order(_outputs(chunks, _between(chunks, has_delta, product), product), length)


def in_order(outputs: Tensor, length: int) -> Tensor:
    """Join `[chunks, batch, heads, size, width]` to `[batch, heads, length, width]`."""
    return outputs.permute(1, 0, 3, 2, 4).flatten(1, 2)[:, :length].transpose(1, 2)


def chunk_size(size: int) -> int:
    """Return the largest power of 2 that is not above `size`."""
    return 1 << (size.bit_length() - 1)


@dataclass(frozen=True, kw_only=True)
class ChunkShape:
    """The sizes that determine the FLOPs of `chunked`.

    Attributes:
        heads: Number of heads of the values.
        key_heads: Number of heads of queries and keys, the same or 1.
        key_width: Width of a head's keys.
        value_width: Width of a head's values.
        has_delta: Whether the delta rule is used.
        is_by_channel: Whether the decay has a number for each channel.
        size: Tokens per chunk.
    """

    heads: int
    key_heads: int
    key_width: int
    value_width: int
    has_delta: bool
    is_by_channel: bool
    size: int

    def flops(self, length: int) -> int:
        """Return the FLOPs over one sequence; a triangular solve counts as half a product."""
        size, keys = chunk_size(self.size), self.key_width
        chunks = -(-length // size)
        pairs = size * (size - 1) if self.is_by_channel else 2 * size**2
        scores = (2 if self.has_delta else 1) * pairs * keys
        width = self.value_width + (keys if self.has_delta and chunks > 1 else 0)
        inside = (3 if self.has_delta else 2) * size**2 * width
        # If heads share their keys, the last chunk's writes and the first one's reads are skipped.
        of_state = chunks - 1 if self.key_heads < self.heads else chunks * (chunks > 1)
        state = of_state * 2 * size * keys * (self.value_width + width)
        passing = max(0, chunks - 2) * 2 * keys**2 * self.value_width if self.has_delta else 0
        return self.key_heads * chunks * scores + self.heads * (chunks * inside + state + passing)


@dataclass(frozen=True)
class _Between:
    """The interaction of the tokens of a chunk with each other and with the state before it.

    Attributes:
        weights: Weights of earlier writes in the outputs, `[..., size, size]`.
        system: Weights of earlier writes in each write, or None without the delta rule.
        since: Decay from the start of the chunk, `[..., size, 1 or key_width]`, or None.
        left: Decay to the end of the chunk, of the same shape, or None.
    """

    weights: Tensor
    system: Tensor | None
    since: Tensor | None
    left: Tensor | None


def _between(s: Streams, has_delta: bool, product: Product) -> _Between:
    """Compute the interactions inside all chunks."""
    rows = [s.queries, *([s.strong(s.keys)] if has_delta else [])]
    if s.log_decay is not None and s.log_decay.shape[-1] > 1:
        since, left, *products = decayed_products(product, s.log_decay, s.keys, *rows)
        return _Between(*_one_or_two(products), since, left)
    products = [product(row, s.keys.transpose(-1, -2)) for row in rows]
    if s.log_decay is None:
        return _Between(*_one_or_two([each.tril() for each in products]), None, None)
    decays, since, left = head_decays(s.log_decay)
    return _Between(*_one_or_two([each * decays for each in products]), since, left)


def _one_or_two(products: Sequence[Tensor]) -> tuple[Tensor, Tensor | None]:
    return products[0], products[1] if len(products) > 1 else None


def _outputs(s: Streams, between: _Between, product: Product) -> Tensor:
    """Compute outputs `[chunks, batch, heads, size, value_width]`."""
    values, width = s.strong(s.values), s.values.shape[-1]
    if between.system is not None:
        has_state = len(values) > 1  # a single chunk has no state before it
        reads = [_times(s.strong(s.keys), between.since)] if has_state else []
        # The solver reads only the strictly lower triangle of the system.
        values = torch.linalg.solve_triangular(
            between.system, torch.cat([values, *reads], dim=-1), upper=False, unitriangular=True
        )
    inside = product(between.weights, values)
    if len(values) == 1:
        return inside
    if s.keys.shape[2] < values.shape[2]:
        first, later = torch.split(inside, [1, len(inside) - 1])
        return torch.cat([first, later + _read_of_shared(s, between, values, product)])
    queries = _times(s.queries, between.since)
    if between.system is not None:
        inside, erased = torch.split(inside, [width, s.keys.shape[-1]], dim=-1)
        queries = queries - erased
    return inside + product(queries, _states_before(s, between, values, width, product))


def _states_before(
    s: Streams, between: _Between, values: Tensor, width: int, product: Product
) -> Tensor:
    """Return the state before each chunk, `[chunks, batch, heads, key_width, value_width]`."""
    kept = None if between.since is None else between.since[..., -1:, :].transpose(-1, -2)
    written = product(_times(s.keys, between.left).transpose(-1, -2), values)
    if between.system is None:
        return states_before(written, kept, None)
    written, removed = torch.split(written, [width, s.keys.shape[-1]], dim=-1)
    return states_before(written, kept, removed)


def _read_of_shared(s: Streams, between: _Between, values: Tensor, product: Product) -> Tensor:
    """Return readings of earlier chunks, for all chunks but the first, if all heads share keys.

    The values of the heads are concatenated in the state, so decays are factors of its columns.
    """
    left = _side_by_side(_times(values, between.left)[:-1])
    kept = since = None
    if between.since is not None:
        kept = between.since[:-1, ..., -1:, :].expand_as(values[:-1, ..., :1, :])
        kept, since = _side_by_side(kept), between.since[1:]
    before = states_after(product(s.keys[:-1].transpose(-1, -2), left), kept, None)
    read = product(s.queries[1:], before).squeeze(2)
    apart = read.reshape(*read.shape[:3], values.shape[2], values.shape[-1])
    return _times(apart.movedim(-2, 2), since)


def _side_by_side(x: Tensor) -> Tensor:
    """Merge heads: `[chunks, batch, heads, size, width]` -> `[.., 1, size, heads * width]`."""
    return x.movedim(2, 3).flatten(3).unsqueeze(2)


def _times(x: Tensor, decay: Tensor | None) -> Tensor:
    return x if decay is None else x * decay
