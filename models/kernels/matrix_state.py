"""The recurrence over a matrix state of which many linear mixers are special cases.

    S_t = D_t S_{t-1} + k_t u_t',   o_t = S_t' q_t,
    u_t = b_t (v_t - [D_t S_{t-1}]' k_t) with the delta rule, else b_t v_t,

where S is a matrix of key width by value width, D_t = diag(exp(g_t)) the decay, with g_t <= 0 one
number per head or one per channel of the keys, and b_t the strength of the write. The decay is
applied before the delta, as in Gated DeltaNet (arXiv:2412.06464). Queries are already scaled.

Chunked form: `kernels.state_chunks`.
Precision: at least float32, for any dtype of the inputs.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Self

import torch
from torch import Tensor
from torch.nn import functional


@dataclass(frozen=True, kw_only=True)
class Streams:
    """The inputs of the recurrence, each `[batch, heads, time, width]`.

    Queries and keys may have one head for all heads of the values; a decay that does not depend on
    the tokens may have a batch of one.

    Attributes:
        queries: Queries, already scaled.
        keys: Keys of the same width as the queries.
        values: Values of any width.
        log_decay: g, of width 1 or as wide as the keys, or None for no decay.
        strength: b, of width 1, or None for 1.
    """

    queries: Tensor
    keys: Tensor
    values: Tensor
    log_decay: Tensor | None = None
    strength: Tensor | None = None

    def wide(self) -> Self:
        """Return the streams in at least float32."""
        return self.each(lambda x: x.to(torch.promote_types(x.dtype, torch.float32)))

    def padded(self, num_tokens: int) -> Self:
        """Append tokens that write nothing and cause no decay."""
        return self.each(lambda x: functional.pad(x, (0, 0, 0, num_tokens))) if num_tokens else self

    def in_chunks(self, size: int) -> Self:
        """Split into chunks `[chunks, batch, heads, size, width]`; `size` must divide the time."""
        return self.each(lambda x: x.unflatten(2, (-1, size)).movedim(2, 0).contiguous())

    def strong(self, x: Tensor) -> Tensor:
        """Multiply by the strength, if there is one."""
        return x if self.strength is None else self.strength * x

    def each(self, function: Any) -> Self:
        """Apply a function to every stream that is not None."""
        parts: dict[str, Any] = {field.name: getattr(self, field.name) for field in fields(self)}
        changed: dict[str, Any] = {
            key: part if part is None else function(part) for key, part in parts.items()
        }
        return type(self)(**changed)


def empty_state(batch: int, heads: int, key_width: int, like: Tensor, value_width: int) -> Tensor:
    """Return the state before the first token: zeros, in at least float32."""
    dtype = torch.promote_types(like.dtype, torch.float32)
    return like.new_zeros(batch, heads, key_width, value_width, dtype=dtype)


def recurrent(streams: Streams, *, has_delta: bool) -> Tensor:
    """Compute the definition, token by token, in the dtype of the inputs.

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
    """Process one token.

    Args:
        streams: Streams of a single token, of time 1.
        state: `[batch, heads, key_width, value_width]`.
        has_delta: Whether the value stored under a key is subtracted before the write.

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
