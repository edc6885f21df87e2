"""Attention whose weights are products of positive features, in time linear in the length.

With features phi in place of the softmax, output i is
sum_j phi(q_i).phi(k_j) v_j / sum_j phi(q_i).phi(k_j), over all j or, causally, over j <= i.
The sums over j do not depend on i, so they are computed once: over all tokens, or over chunks of
tokens, which prefix sums then combine; products are formed and masked only inside a chunk. The
denominator is an additional column of ones in the values.

Log scales: features that are exponentials overflow. Therefore the features of each key are divided
by their largest, whose logarithm is stored and restored when keys are summed, relative to the
largest visible to the query; all such factors cancel in the ratio. A query uses nothing of later
keys, not even their scale, so causal outputs are bitwise independent of the future.

Precision: sums over chunks are in at least float32; products are in the dtype of the features.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from bakeoff.models.mixer import State


@dataclass(frozen=True, kw_only=True)
class Features:
    """Features of queries and keys, and the values; a chunk axis may precede the time axis.

    Attributes:
        queries: `[batch, heads, time, features]`, each query up to a positive factor.
        keys: `[batch, heads, time2, features]`, each key divided by exp(log_scale).
        values: `[batch, heads, time2, width + 1]`, with a last column of ones; zeros at padding.
        log_scale: `[batch, heads, time2]`, constant for autograd, or None for zeros.
    """

    queries: Tensor
    keys: Tensor
    values: Tensor
    log_scale: Tensor | None


@dataclass(frozen=True, kw_only=True)
class Scales:
    """Factors that restore log scales, none of them above 1.

    Attributes:
        within: `[batch, heads, chunks, chunk, chunk]`, of a key for a query; 0 for later keys.
        keys: `[batch, heads, chunks, chunk, 1]`, of a key in the sums of its chunk.
        before: `[batch, heads, chunks, chunk, 1]`, of the sums of earlier chunks, for a query.
        peaks: `[batch, heads, chunks]`; a chunk's sums are divided by exp(peak).
    """

    within: Tensor
    keys: Tensor
    before: Tensor
    peaks: Tensor


def over_all(features: Features) -> Tensor:
    """Attend from every query to every key, `[batch, heads, time, width]`."""
    values = at_one_scale(features.values, features.log_scale)
    sums = features.keys.transpose(-1, -2) @ values  # (batch, heads, features, width + 1)
    return ratio(features.queries @ sums)


def at_one_scale(values: Tensor, log_scale: Tensor | None) -> Tensor:
    """Multiply values by exp(log_scale), up to the factor of the largest, which cancels."""
    if log_scale is None:
        return values
    peak = log_scale.amax(dim=-1, keepdim=True)
    return values * (log_scale - peak).exp().unsqueeze(-1).to(values.dtype)


def over_past(features: Features, chunk: int) -> Tensor:
    """Attend from every query to keys up to its own position, `[batch, heads, time, width]`.

    Args:
        features: Features of one sequence: queries and keys have the same positions.
        chunk: Number of tokens whose products are formed, as a chunk by chunk matrix.
    """
    length = features.values.shape[2]
    chunks = _cut(features, min(chunk, length))
    scales = None if chunks.log_scale is None else _scales(chunks.log_scale)
    products = chunks.queries @ chunks.keys.transpose(-1, -2)
    # In place, since the gradients of product and mask do not need the old values.
    products = products.tril_() if scales is None else products.mul_(scales.within)
    sums = products @ chunks.values
    if chunks.values.shape[2] > 1:
        sums = sums + _over_earlier_chunks(chunks, scales)
    return ratio(sums.flatten(2, 3)[:, :, :length])


def one_more(features: Features, state: State) -> tuple[Tensor, State]:
    """Process one more token: return its output `[batch, heads, 1, width]` and the new state.

    Args:
        features: Features of a single token.
        state: Sums `[batch, heads, features, width + 1]`; with log scales, also the largest so
            far, `[batch, heads]`, by whose exponential the sums are divided.
    """
    added = features.keys.transpose(-1, -2) @ features.values
    if features.log_scale is None:
        state = (state[0] + added,)
    else:
        state = _add(state[0], state[1], added, features.log_scale[..., 0])
    return ratio(features.queries.to(state[0].dtype) @ state[0]), state


def kernel_flops(num_features: int, width: int, length: int, chunk: int | None) -> float:
    """Return the FLOPs per head and sequence; `chunk` is None for the form that is not causal."""
    sums_and_products = 2 * 2 * num_features * (width + 1)  # per token
    if chunk is None:
        return length * sums_and_products
    chunk = min(chunk, length)
    num_chunks = -(-length // chunk)
    within = 2 * num_chunks * chunk**2 * (num_features + width + 1)
    return within + (num_chunks * chunk * sums_and_products if num_chunks > 1 else 0)


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Sizes of the `Features` of one sequence.

    Attributes:
        num_features: Number of features of all heads.
        width: Width of a head's values.
        heads: Number of heads.
        has_log_scale: Whether there are log scales.
    """

    num_features: int
    width: int
    heads: int
    has_log_scale: bool

    @property
    def values(self) -> int:
        """Numbers in the values of one token, including the denominator's column."""
        return self.heads * (self.width + 1)

    @property
    def a_token(self) -> int:
        """Numbers in the features of one token, including its values."""
        log_scales = self.heads if self.has_log_scale else 0
        return 2 * self.num_features + self.values + log_scales


def numbers_of_sums(sizes: Sizes, length: int, chunk: int | None) -> float:
    """Return how many numbers, besides the features, one sequence takes at the peak.

    Args:
        sizes: Sizes of its features.
        length: Number of tokens.
        chunk: The argument of `over_past`, or None for `over_all`.
    """
    ratio = length * sizes.heads * (sizes.width + 2)  # output, denominators, their inverses
    if chunk is None:
        scaled = length * sizes.values if sizes.has_log_scale else 0
        sums = sizes.num_features * (sizes.width + 1)
        return scaled + sums + length * sizes.values + ratio
    chunk = min(chunk, length)
    num_chunks = -(-length // chunk)
    tokens = num_chunks * chunk
    held = tokens * sizes.a_token if tokens > length else 0  # copies, cut into chunks
    products = tokens * sizes.heads * chunk
    held += products + tokens * sizes.values  # and their sums
    if sizes.has_log_scale:
        held += products + 2 * tokens * sizes.heads  # `Scales`
    if num_chunks == 1:
        return held + ratio
    return held + max(ratio, _numbers_over_earlier_chunks(sizes, tokens, num_chunks))


def _numbers_over_earlier_chunks(sizes: Sizes, tokens: int, num_chunks: int) -> float:
    """Return the largest of three moments: prefix sums, their products with queries, the total.

    An odd number of chunks is copied in order to form pairs.
    """
    of_a_chunk = sizes.num_features * (sizes.width + 1)
    prefixes, odd = num_chunks * of_a_chunk, num_chunks % 2
    values = tokens * sizes.values
    scaled = values if sizes.has_log_scale else 0
    summing = 3.5 * (prefixes + odd * of_a_chunk) + odd * prefixes
    return max(summing, prefixes + values + scaled, 2 * values)


def lowest_log_scale(dtype: torch.dtype) -> float:
    """Return the log scale of absent keys; it is finite, and so are its differences."""
    return torch.finfo(dtype).min / 4


def _cut(features: Features, chunk: int) -> Features:
    """Cut features into chunks, `[batch, heads, chunks, chunk, ...]`; the last is padded."""
    length = features.values.shape[2]
    num_chunks = -(-length // chunk)
    missing = num_chunks * chunk - length

    def cut(x: Tensor, filling: float = 0.0) -> Tensor:
        widths = (0, 0) * (x.ndim - 3) + (0, missing)
        padded = functional.pad(x, widths, value=filling) if missing else x
        return padded.reshape(*x.shape[:2], num_chunks, chunk, *x.shape[3:])

    log_scale = features.log_scale
    if log_scale is not None:
        log_scale = cut(log_scale, lowest_log_scale(log_scale.dtype))
    queries, keys, values = map(cut, (features.queries, features.keys, features.values))
    return Features(queries=queries, keys=keys, values=values, log_scale=log_scale)


def _scales(log_scale: Tensor) -> Scales:
    """Compute factors from log scales of chunks, `[batch, heads, chunks, chunk]`."""
    peaks = log_scale.amax(dim=-1)
    lowest = lowest_log_scale(log_scale.dtype)
    before = functional.pad(peaks.cummax(dim=-1).values[..., :-1], (1, 0), value=lowest)
    before = before.unsqueeze(-1)  # (batch, heads, chunks, 1): the largest of earlier chunks
    highest = torch.maximum(log_scale.cummax(dim=-1).values, before)  # visible to a query
    within = log_scale.unsqueeze(-2) - highest.unsqueeze(-1)
    return Scales(
        within=within.clamp_(max=0.0).exp_().tril_(),
        keys=(log_scale - peaks.unsqueeze(-1)).exp().unsqueeze(-1),
        before=(before - highest).exp().unsqueeze(-1),
        peaks=peaks,
    )


def _over_earlier_chunks(chunks: Features, scales: Scales | None) -> Tensor:
    """Attend from every query to the keys of all earlier chunks."""
    dtype = chunks.values.dtype
    keys = chunks.keys.transpose(-1, -2)
    if scales is None:
        sums = keys @ chunks.values
        before = sums_before(sums, torch.zeros_like(sums[..., 0, 0]))
        return chunks.queries @ before.to(dtype)
    before = sums_before(keys @ (chunks.values * scales.keys.to(dtype)), scales.peaks)
    return chunks.queries @ before.to(dtype) * scales.before.to(dtype)


def sums_before(sums: Tensor, peaks: Tensor) -> Tensor:
    """Return the sum of all earlier chunks for each chunk, divided by exp(their largest peak).

    Neighbours are added in pairs, the sums before the pairs are computed recursively, and the sum
    before the second of a pair is that before the pair, plus the first (Blelloch 1990, "Prefix sums
    and their applications"). This takes about two additions per chunk, in log2(chunks) rounds.

    Args:
        sums: `[batch, heads, chunks, features, width + 1]`, divided by exp(peaks).
        peaks: `[batch, heads, chunks]`.

    Returns:
        The shape of `sums`, in at least float32; zeros for the first chunk.
    """
    wide = torch.promote_types(sums.dtype, torch.float32)
    return _before(sums.to(wide), peaks.to(wide))[0]


def _before(sums: Tensor, peaks: Tensor) -> tuple[Tensor, Tensor]:
    """Compute `sums_before`, and the peaks by which they are divided."""
    num_chunks, lowest = peaks.shape[2], lowest_log_scale(peaks.dtype)
    if num_chunks == 1:
        return torch.zeros_like(sums), torch.full_like(peaks, lowest)
    if num_chunks % 2:
        sums = functional.pad(sums, (0, 0, 0, 0, 0, 1))
        peaks = functional.pad(peaks, (0, 1), value=lowest)
    first, peak_of_first = sums[:, :, ::2], peaks[:, :, ::2]
    pairs = _add(first, peak_of_first, sums[:, :, 1::2], peaks[:, :, 1::2])
    before, peak_before = _before(*pairs)
    middle, peak_of_middle = _add(before, peak_before, first, peak_of_first)
    both = torch.stack([before, middle], dim=3).flatten(2, 3)
    peak_of_both = torch.stack([peak_before, peak_of_middle], dim=3).flatten(2, 3)
    return both[:, :, :num_chunks], peak_of_both[:, :, :num_chunks]


def _add(a: Tensor, peak_of_a: Tensor, b: Tensor, peak_of_b: Tensor) -> tuple[Tensor, Tensor]:
    """Add two sums `[..., features, width]` with peaks; return the sum and its peak."""
    peak = torch.maximum(peak_of_a, peak_of_b)
    factor_of_a, factor_of_b = (peak_of_a - peak).exp(), (peak_of_b - peak).exp()
    return a * factor_of_a[..., None, None] + b * factor_of_b[..., None, None], peak


def ratio(sums: Tensor) -> Tensor:
    """Divide numerators by the denominator, `[batch, heads, time, width + 1]` -> `[..., width]`.

    A denominator of zero gives zeros. One that has nearly underflowed is clamped from below, since
    its gradient would overflow: the output then tends to zero.
    """
    mixed: Tensor = _Ratio.apply(sums)  # type: ignore[no-untyped-call]
    return mixed


class _Ratio(torch.autograd.Function):
    """The quotient in as few memory passes as possible, in a layout for merging heads."""

    @staticmethod
    def forward(sums: Tensor) -> Tensor:
        """Divide the numerators by the denominator."""
        batch, heads, time, columns = sums.shape
        mixed = sums.new_empty(batch, time, heads, columns - 1).transpose(1, 2)
        return torch.mul(sums[..., :-1], _inverse(sums), out=mixed)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        """Save the quotient and the inverse of the denominator."""
        ctx.save_for_backward(_inverse(*inputs), output)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        """Return g / denominator and -(g / denominator) . quotient, for a gradient g."""
        inverse, mixed = ctx.saved_tensors
        of_numerators = gradient * inverse
        of_denominator = -torch.linalg.vecdot(of_numerators, mixed).unsqueeze(-1)
        is_held = inverse >= 1 / _floor(inverse.dtype)
        return torch.cat([of_numerators, of_denominator.masked_fill(is_held, 0.0)], dim=-1)


def _inverse(sums: Tensor) -> Tensor:
    """Return the inverse of the denominator, the last column."""
    return sums[..., -1:].clamp(min=_floor(sums.dtype)).reciprocal()


def _floor(dtype: torch.dtype) -> float:
    """Return the least denominator: 3e-29 in float32, whose inverse can still be multiplied."""
    floor: float = torch.finfo(dtype).tiny ** 0.75
    return floor
