"""A recurrence over a matrix state whose tokens erase along one key and write along another.

    S_t = D_t S_{t-1} - e_t (c_t' S_{t-1}) + k_t v_t',   o_t = S_t' q_t,

where S is a matrix of key width by value width and D_t = diag(exp(g_t)) the decay of each channel.
The state is read along c_t before it decays, and the result is subtracted along e_t, as in RWKV-7
(arXiv:2503.14456, equation 17). The delta rule of `kernels.matrix_state` has c = k, e = b k.

Chunked form: with L_t = g_1 + .. + g_t inside a chunk, the decay from token s to token t is
    exp(L_t) exp(-L_s), so keys are divided and queries multiplied once, and the rest consists of
    matrix products. The readings y_t = S_{t-1}' c_t of the tokens solve a unit lower triangular
    system, separately for the state before the chunk and for the values. A chunk is then one map
    from the state before it to the state after it, which `kernels.state_pass` applies.
Bounds: exp(-L) must be finite in float32, so a chunk can have at most `LONGEST` tokens, with a
    decay of at least exp(-`STEEPEST`). Each term is a product: no digits are lost.
Precision: at least float32, for any dtype of the inputs.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from bakeoff.models.kernels.half_products import Product
from bakeoff.models.kernels.matrix_state import Streams
from bakeoff.models.kernels.state_chunks import chunk_size, in_order
from bakeoff.models.kernels.state_pass import states_before

STEEPEST = 0.606531  # exp(-1/2): maximum of -log_decay
LONGEST = 64  # exp(STEEPEST * LONGEST) = 7e16


@dataclass(frozen=True, kw_only=True)
class RemovalStreams(Streams):
    """The inputs of the recurrence; the decay is per channel, and there is no strength.

    Attributes:
        found: c, along which the state is read before it decays.
        erased: e, along which the reading is subtracted.
    """

    found: Tensor
    erased: Tensor

    def decay(self) -> Tensor:
        """Return g, or zeros if there is no decay."""
        return torch.zeros_like(self.keys) if self.log_decay is None else self.log_decay


def recurrent_removal(s: RemovalStreams) -> Tensor:
    """Compute the definition, token by token, in the dtype of the inputs.

    Returns:
        `[batch, heads, time, value_width]`.
    """
    state = s.keys.new_zeros(*s.keys.shape[:2], s.keys.shape[-1], s.values.shape[-1])
    outputs = []
    for t in range(s.keys.shape[2]):
        read = torch.einsum("bhkv,bhk->bhv", state, s.found[:, :, t])
        state = s.decay()[:, :, t].exp().unsqueeze(-1) * state
        state = state - torch.einsum("bhk,bhv->bhkv", s.erased[:, :, t], read)
        state = state + torch.einsum("bhk,bhv->bhkv", s.keys[:, :, t], s.values[:, :, t])
        outputs.append(torch.einsum("bhkv,bhk->bhv", state, s.queries[:, :, t]))
    return torch.stack(outputs, dim=2)


def one_removal(streams: RemovalStreams, state: Tensor) -> tuple[Tensor, Tensor]:
    """Process one token.

    Args:
        streams: Streams of a single token, of time 1.
        state: `[batch, heads, key_width, value_width]`.

    Returns:
        `[batch, heads, 1, value_width]`, and the new state.
    """
    s = streams.wide()
    read = s.found @ state
    state = s.decay().exp().transpose(-1, -2) * state - s.erased.transpose(-1, -2) * read
    state = state + s.keys.transpose(-1, -2) * s.values
    return s.queries @ state, state


def chunked_removal(
    streams: RemovalStreams, *, size: int, product: Product = torch.matmul
) -> Tensor:
    """Compute the fast form; see the module's docstring.

    Args:
        streams: Streams of any length.
        size: Tokens per chunk, at most `LONGEST`, rounded down to a power of 2.
        product: Function that multiplies matrices; the triangular solve and the states between
            chunks do without it.

    Returns:
        `[batch, heads, time, value_width]`, in at least float32.
    """
    length = streams.values.shape[2]
    size = chunk_size(size)
    chunks = streams.wide().padded(-length % size).in_chunks(size)
    return in_order(_outputs(chunks, product), length)


def removal_flops(length: int, size: int, *, key_width: int, value_width: int) -> int:
    """Return the FLOPs of one head's `chunked_removal`; a solve counts as half a product."""
    size = chunk_size(size)
    chunks = -(-length // size)
    width = value_width + (key_width if chunks > 1 else 0)
    scores = 4 * 2 * size**2 * key_width
    inside = 2 * size**2 * (2 * value_width + width) + size**2 * width
    state = chunks * (chunks > 1) * 2 * size * key_width * (2 * value_width + width)
    passing = max(0, chunks - 2) * 2 * key_width**2 * value_width
    return chunks * (scores + inside) + state + passing


def _outputs(s: RemovalStreams, product: Product) -> Tensor:
    """Compute outputs `[chunks, batch, heads, size, value_width]`."""
    so_far = s.decay().cumsum(dim=-2)
    since, back = so_far.exp(), (-so_far).exp()
    queries, found = s.queries * since, s.found * (so_far - s.decay()).exp()
    keys, erased = s.keys * back, s.erased * back
    has_state = len(s.values) > 1
    of_values = product(product(found, keys.transpose(-1, -2)).tril(-1), s.values)
    # The solver reads only the strictly lower triangle of the system.
    read: Tensor = torch.linalg.solve_triangular(
        product(found, erased.transpose(-1, -2)),
        torch.cat([of_values, found], dim=-1) if has_state else of_values,
        upper=False,
        unitriangular=True,
    )
    lost = product(product(queries, erased.transpose(-1, -2)).tril(), read)
    inside = product(product(queries, keys.transpose(-1, -2)).tril(), s.values)
    if not has_state:
        return inside - lost
    widths = [s.values.shape[-1], s.keys.shape[-1]]
    lost, unread = torch.split(lost, widths, dim=-1)
    taken, removed = torch.split(product(erased.transpose(-1, -2), read), widths, dim=-1)
    kept = since[..., -1:, :].transpose(-1, -2)
    written = kept * (product(keys.transpose(-1, -2), s.values) - taken)
    before = states_before(written, kept, kept * removed)
    return inside - lost + product(queries - unread, before)
