"""Products of keys with later rows, each decayed over the tokens between the two.

The decay from token s to token t >= s of a chunk is exp(g_{s+1} + .. + g_t), with g <= 0. A chunk
is halved recursively: between the two halves, the contribution of a token of the first to a token
of the second is a product of two decays, to the border and from it. Each is a product of decays of
single tokens, none above 1: nothing overflows, and no sums are subtracted, which would lose digits.
So the decay of a pair is never formed if it has a number for each channel.

The gradient with respect to the logarithm of a pair's decay is the pair's weight times the weight's
gradient. The gradient with respect to g_r sums this over all pairs around r: those whose later
token is at r or after, minus those of which both tokens are.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from bakeoff.models.kernels.half_products import Product


def head_decays(log_decay: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Compute decays with one number per token.

    Args:
        log_decay: `[..., size, 1]`, the size a power of 2.

    Returns:
        The decays between tokens, `[..., size, size]`, zeros above the diagonal; and those from the
        start of the chunk through each token, and from after it to the end, `[..., size, 1]`.
    """
    return _HeadDecays.apply(log_decay)  # type: ignore[no-any-return, no-untyped-call]


def decayed_products(
    product: Product, log_decay: Tensor, keys: Tensor, *rows: Tensor
) -> tuple[Tensor, ...]:
    """Compute sum_c row_tc key_sc decay_tsc for each of the rows, with one decay per channel.

    Args:
        product: Function that multiplies matrices.
        log_decay: `[..., size, width]`, the size a power of 2.
        keys: The same shape.
        rows: One or several tensors of the same shape.

    Returns:
        The decays from the start of the chunk through each token, and from after it to the end,
        `[..., size, width]`; and the products, `[..., size, size]` for each of the rows, zeros
        above the diagonal.
    """
    return _DecayedProducts.apply(product, log_decay, keys, *rows)  # type: ignore[no-any-return, no-untyped-call]


class _HeadDecays(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, log_decay: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        size = log_decay.shape[-2]
        since, left = _first_level(log_decay)
        decays = torch.eye(size, dtype=since.dtype, device=since.device)
        decays = decays.repeat(*since.shape[:-2], 1, 1)
        for num, (from_border, to_border) in enumerate(_levels(since, left)):
            _blocks(decays, 2**num).copy_(from_border * to_border.transpose(-1, -2))
        ctx.save_for_backward(decays, since, left)
        return decays, since, left

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *slopes: Tensor) -> Tensor:
        decays, since, left = ctx.saved_tensors
        by_pair = slopes[0] * decays
        later = by_pair.sum(dim=-1) - by_pair.sum(dim=-2)
        return _slope_of_logs(later.unsqueeze(-1) + slopes[1] * since, slopes[2] * left)


class _DecayedProducts(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, product: Product, log_decay: Tensor, keys: Tensor, *rows: Tensor
    ) -> tuple[Tensor, ...]:
        since, left = _first_level(log_decay)
        products = [torch.diag_embed((row * keys).sum(dim=-1)) for row in rows]
        for num, (from_border, to_border) in enumerate(_levels(since, left)):
            early = (_halves(keys, 2**num)[0] * to_border).transpose(-1, -2)
            for row, pairs in zip(rows, products, strict=True):
                late = _halves(row, 2**num)[1] * from_border
                _blocks(pairs, 2**num).copy_(product(late, early))
        ctx.product = product
        ctx.save_for_backward(log_decay, since, left, keys, *rows)
        return since, left, *products

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor | None, ...]:
        log_decay, since, left, keys, *rows = ctx.saved_tensors
        of_keys, of_rows = torch.zeros_like(keys), [torch.zeros_like(row) for row in rows]
        for num, (from_border, to_border) in enumerate(_levels(*_first_level(log_decay))):
            size = 2**num
            early = _halves(keys, size)[0] * to_border
            of_early = torch.zeros_like(early)
            for row, of_row, slope in zip(rows, of_rows, slopes[2:], strict=True):
                block, late = _blocks(slope, size), _halves(row, size)[1] * from_border
                _halves(of_row, size)[1].addcmul_(ctx.product(block, early), from_border)
                of_early += ctx.product(block.transpose(-1, -2), late)
            _halves(of_keys, size)[0].addcmul_(of_early, to_border)
        later = slopes[0] * since - of_keys * keys
        for row, of_row in zip(rows, of_rows, strict=True):
            later.addcmul_(row, of_row)
        of_logs = _slope_of_logs(later, slopes[1] * left)
        for row, of_row, slope in zip(rows, of_rows, slopes[2:], strict=True):
            same = slope.diagonal(dim1=-2, dim2=-1).unsqueeze(-1)
            of_row.addcmul_(same, keys)
            of_keys.addcmul_(same, row)
        return None, of_logs, of_keys, *of_rows


def _first_level(log_decay: Tensor) -> tuple[Tensor, Tensor]:
    """Return the decays through each token, and from after it, for blocks of one token."""
    since = log_decay.exp()
    return since, torch.ones_like(since)


def _levels(since: Tensor, left: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Join blocks of 1, 2, 4 .. tokens in pairs, in place, until there is one.

    Yields:
        Decays from the border of each pair through the tokens of the second block, and from after
        those of the first to the border: `[..., blocks, size, width]`, valid until the next item.
    """
    size = 1
    while size < since.shape[-2]:
        first, second = _halves(since, size)
        after = _halves(left, size)[0]
        yield second, after
        after *= second[..., -1:, :]
        second *= first[..., -1:, :]
        size *= 2


def _halves(x: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """Return the first and second of each pair of blocks of `size` tokens, as views."""
    *lead, time, width = x.shape
    first, second = x.view(*lead, time // (2 * size), 2, size, width).unbind(dim=-3)
    return first, second


def _blocks(pairs: Tensor, size: int) -> Tensor:
    """Return views `[..., blocks, size, size]` of pairs: second halves by first halves."""
    *lead, time, _ = pairs.shape
    split = [time // (2 * size), 2, size]
    lower = pairs.view(*lead, *split, *split)[..., 1, :, :, 0, :]
    return lower.diagonal(dim1=-4, dim2=-2).movedim(-1, -3)


def _slope_of_logs(later: Tensor, left: Tensor) -> Tensor:
    """Return gradients for each g_r: sums of `later` from r on, and of `left` before r."""
    backwards: Tensor = later.flip(-2).cumsum(dim=-2).flip(-2)
    return backwards + left.cumsum(dim=-2) - left
