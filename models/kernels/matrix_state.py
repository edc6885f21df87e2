"""One recurrence over a matrix of state, which many linear mixers are settings of.

    S_t = D_t S_{t-1} + k_t u_t',   o_t = S_t' q_t,
    u_t = b_t (v_t - [D_t S_{t-1}]' k_t) with the delta rule, else b_t v_t,

where S is a matrix of key width by value width, D_t = diag(exp(g_t)) the decay, with g_t <= 0 one
number a head or one a channel of the keys, and b_t the strength of the write. The decay comes
before the delta, as in Gated DeltaNet (arXiv:2412.06464). Queries come scaled.

Chunked form: inside a chunk the decays from token s to token t >= s are exp(g_{s+1} + .. + g_t).
    These sums are masked cumulative sums, so that no exponent is above 0: a difference of two
    cumulative sums would lose its digits, and exp of one alone would overflow. The writes u of a
    chunk solve a unit lower triangular system (the UT transform of Yang et al. 2024,
    arXiv:2406.06484), for the state before the chunk and the values apart; what is left to do one
    after the other is a few products a chunk.
Precision: float32 at least, whatever the inputs have.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Self

import torch
from torch import Tensor
from torch.nn import functional


@dataclass(frozen=True, kw_only=True)
class Streams:
    """What the recurrence reads, each `[batch, heads, time, width]`.

    Attributes:
        queries: Scaled.
        keys: As wide as the queries.
        values: Of any width.
        log_decay: g, of width 1 or as wide as the keys; None for no decay.
        strength: b, of width 1; None for 1.
    """

    queries: Tensor
    keys: Tensor
    values: Tensor
    log_decay: Tensor | None = None
    strength: Tensor | None = None

    def wide(self) -> Self:
        """In float32 at least."""
        return self.each(lambda x: x.to(torch.promote_types(x.dtype, torch.float32)))

    def padded(self, num_tokens: int) -> Self:
        """With tokens at the end that write nothing and decay nothing."""
        return self.each(lambda x: functional.pad(x, (0, 0, 0, num_tokens)))

    def in_chunks(self, size: int) -> Self:
        """`[batch, heads, chunks, size, width]` each; the chunks must be whole."""
        return self.each(lambda x: x.unflatten(2, (-1, size)))

    def each(self, function: Any) -> Self:
        """The same of every part that is there."""
        parts: dict[str, Any] = {field.name: getattr(self, field.name) for field in fields(self)}
        changed: dict[str, Any] = {
            key: part if part is None else function(part) for key, part in parts.items()
        }
        return type(self)(**changed)


def empty_state(batch: int, heads: int, key_width: int, like: Tensor, value_width: int) -> Tensor:
    """Before the first token: zeros, in float32 at least."""
    dtype = torch.promote_types(like.dtype, torch.float32)
    return like.new_zeros(batch, heads, key_width, value_width, dtype=dtype)


def recurrent(streams: Streams, *, has_delta: bool) -> Tensor:
    """The definition: one token after the other, in the inputs' own precision.

    Returns:
        `[batch, heads, time, value_width]`.
    """
    keys, values = streams.keys, streams.values
    state = keys.new_zeros(*keys.shape[:2], keys.shape[-1], values.shape[-1])
    outputs = []
    for t in range(keys.shape[2]):
        k, v, q = keys[:, :, t], values[:, :, t], streams.queries[:, :, t]
        if streams.log_decay is not None:
            state = streams.log_decay[:, :, t].exp().unsqueeze(-1) * state
        if has_delta:
            v = v - torch.einsum("bhkv,bhk->bhv", state, k)
        if streams.strength is not None:
            v = streams.strength[:, :, t] * v
        state = state + torch.einsum("bhk,bhv->bhkv", k, v)
        outputs.append(torch.einsum("bhkv,bhk->bhv", state, q))
    return torch.stack(outputs, dim=2)


def one_step(streams: Streams, state: Tensor, *, has_delta: bool) -> tuple[Tensor, Tensor]:
    """One token, of time 1.

    Args:
        streams: Of a single token.
        state: `[batch, heads, key_width, value_width]`.
        has_delta: Whether what the state holds under a key is taken off first.

    Returns:
        `[batch, heads, 1, value_width]`, and the new state.
    """
    s = streams.wide()
    if s.log_decay is not None:
        state = s.log_decay.exp().transpose(-1, -2) * state
    written = s.values - s.keys @ state if has_delta else s.values
    if s.strength is not None:
        written = s.strength * written
    state = state + s.keys.transpose(-1, -2) * written
    return s.queries @ state, state


def chunked(streams: Streams, *, has_delta: bool, size: int) -> Tensor:
    """The fast form: one chunk of tokens after the other; see the module's note.

    Args:
        streams: Of any length.
        has_delta: As in `one_step`.
        size: Tokens to a chunk.

    Returns:
        `[batch, heads, time, value_width]`, in float32 at least.
    """
    length = streams.keys.shape[2]
    size = chunk_size(length, size)
    chunks = streams.wide().padded(-length % size).in_chunks(size)
    within = _within_chunks(chunks, has_delta)
    outputs = _over_chunks(within)
    return outputs.flatten(2, 3)[:, :, :length]


def chunk_size(length: int, size: int) -> int:
    """No chunk is longer than the sequence."""
    return max(1, min(size, length))


def chunk_flops(
    length: int, size: int, *, key_width: int, value_width: int, has_delta: bool
) -> int:
    """Of the products of one head's `chunked`, and of its triangular solve: half a product."""
    size = chunk_size(length, size)
    chunks = -(-length // size)
    scores = (2 if has_delta else 1) * 2 * size**2 * key_width
    state = (3 if has_delta else 2) * 2 * size * key_width * value_width
    solve = size**2 * (key_width + value_width) if has_delta else 0
    return chunks * (scores + 2 * size**2 * value_width + state + solve)


def segment_sums(log_decay: Tensor) -> Tensor:
    """`[..., time, width]` -> `[..., time, time2, width]`: g_{s+1} + .. + g_t at t, s <= t.

    Zeros above the diagonal, which stand for nothing.
    """
    size = log_decay.shape[-2]
    below = torch.ones(size, size, dtype=torch.bool, device=log_decay.device).tril(-1)
    terms = log_decay.unsqueeze(-2).masked_fill(~below.unsqueeze(-1), 0.0)
    return terms.cumsum(dim=-3)


@dataclass(frozen=True)
class _Chunks:
    """What each chunk needs, `[batch, heads, chunks, size, width]` each.

    Attributes:
        weights: Of earlier writes in the outputs, `[..., size, size]`.
        queries: That read the state before the chunk.
        keys: That write to the state after it.
        values: Written if that state is zero.
        erased: What each reads of that state and does not write; None without the delta rule.
        kept: Share of that state that is left, `[..., width, 1]`; None for all of it.
    """

    weights: Tensor
    queries: Tensor
    keys: Tensor
    values: Tensor
    erased: Tensor | None
    kept: Tensor | None


def _within_chunks(s: Streams, has_delta: bool) -> _Chunks:
    """All chunks at once."""
    decays = None if s.log_decay is None else segment_sums(s.log_decay).exp()
    since = None if s.log_decay is None else s.log_decay.cumsum(dim=-2).exp()
    values = s.values if s.strength is None else s.strength * s.values
    erased = None
    if has_delta:
        values, erased = _solve(s, decays, values, since)
    weights = _products(s.queries, s.keys, decays).tril()
    if decays is None or since is None:
        return _Chunks(weights, s.queries, s.keys, values, erased, None)
    keys = s.keys * decays[..., -1, :, :]
    kept = since[..., -1, :].unsqueeze(-1)
    return _Chunks(weights, s.queries * since, keys, values, erased, kept)


def _solve(
    s: Streams, decays: Tensor | None, values: Tensor, since: Tensor | None
) -> tuple[Tensor, Tensor]:
    """The writes from a state of zeros, and what the state before the chunk takes from each."""
    strong = s.keys if s.strength is None else s.strength * s.keys
    system = _products(strong, s.keys, decays).tril(-1)
    reads = strong if since is None else strong * since
    both = torch.cat([values, reads], dim=-1)
    solved = torch.linalg.solve_triangular(system, both, upper=False, unitriangular=True)
    return solved[..., : values.shape[-1]], solved[..., values.shape[-1] :]


def _products(rows: Tensor, keys: Tensor, decays: Tensor | None) -> Tensor:
    """sum_c rows_tc keys_sc decays_tsc, `[..., size, size]`."""
    if decays is None:
        return rows @ keys.transpose(-1, -2)
    if decays.shape[-1] == 1:
        return rows @ keys.transpose(-1, -2) * decays.squeeze(-1)
    return (decays * keys.unsqueeze(-3) @ rows.unsqueeze(-1)).squeeze(-1)


def _over_chunks(chunks: _Chunks) -> Tensor:
    """One chunk after the other: what it writes, what it reads, what is left."""
    shape = (*chunks.keys.shape[:2], chunks.keys.shape[-1], chunks.values.shape[-1])
    state, outputs = chunks.keys.new_zeros(shape), []
    for i in range(chunks.keys.shape[2]):
        written = chunks.values[:, :, i]
        if chunks.erased is not None:
            written = written - chunks.erased[:, :, i] @ state
        outputs.append(chunks.queries[:, :, i] @ state + chunks.weights[:, :, i] @ written)
        if chunks.kept is not None:
            state = chunks.kept[:, :, i] * state
        state = state + chunks.keys[:, :, i].transpose(-1, -2) @ written
    return torch.stack(outputs, dim=2)
