"""One recurrence over a matrix of state, which many linear mixers are settings of.

    S_t = D_t S_{t-1} + k_t u_t',   o_t = S_t' q_t,
    u_t = b_t (v_t - [D_t S_{t-1}]' k_t) with the delta rule, else b_t v_t,

where S is a matrix of key width by value width, D_t = diag(exp(g_t)) the decay, with g_t <= 0 one
number a head or one a channel of the keys, and b_t the strength of the write. The decay comes
before the delta, as in Gated DeltaNet (arXiv:2412.06464). Queries come scaled.

Chunked form: `kernels.state_chunks`.
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

    Queries and keys may be those of one head for all; a decay that no token changes, of one batch.

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
        return self.each(lambda x: functional.pad(x, (0, 0, 0, num_tokens))) if num_tokens else self

    def in_chunks(self, size: int) -> Self:
        """`[chunks, batch, heads, size, width]` each; the chunks must be whole."""
        return self.each(lambda x: x.unflatten(2, (-1, size)).movedim(2, 0).contiguous())

    def strong(self, x: Tensor) -> Tensor:
        """Times the strength, if there is one."""
        return x if self.strength is None else self.strength * x

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
    state = keys.new_zeros(*values.shape[:2], keys.shape[-1], values.shape[-1])
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
