"""Matrix products of numbers rounded to bfloat16, with sums in float32.

The streams of a matrix state are float32 even under autocast, because norms, decays and sums over
time need the digits. The products between them do not: a GPU multiplies numbers of bfloat16 many
times as fast, and adds them up in float32. Rounding is relative to each number, so that a product
of a very small and a very large factor, such as a decay and its inverse, stays correct.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

Product = Callable[[Tensor, Tensor], Tensor]


def product_for(dtype: torch.dtype, device: str) -> Product:
    """Return the product of matrices for streams that were computed from tokens in a dtype.

    Args:
        dtype: The dtype of the mixer's maps of the tokens; bfloat16 under autocast.
        device: The type of the device, such as ``cuda``.
    """
    return half_product if dtype is torch.bfloat16 and device == "cuda" else torch.matmul


def half_product(a: Tensor, b: Tensor) -> Tensor:
    """Multiply `[..., n, m]` and `[..., m, p]`, rounded to bfloat16; return float32.

    The gradient consists of such products too.
    """
    return _HalfProduct.apply(a, b)  # type: ignore[no-any-return, no-untyped-call]


class _HalfProduct(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor) -> Tensor:
        a, b = a.bfloat16(), b.bfloat16()
        ctx.save_for_backward(a, b)
        return _product(a, b)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, Tensor | None]:
        a, b = ctx.saved_tensors
        slope = slope.bfloat16()
        of_a = _product(slope, b.mT).sum_to_size(a.shape) if ctx.needs_input_grad[0] else None
        of_b = _product(a.mT, slope).sum_to_size(b.shape) if ctx.needs_input_grad[1] else None
        return of_a, of_b


def _product(a: Tensor, b: Tensor) -> Tensor:
    """Multiply matrices of bfloat16 and return float32."""
    if a.device.type == "cpu":  # it has no such kernel; float32 holds each product exactly
        return a.float() @ b.float()
    lead = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])  # type: ignore[no-untyped-call]
    left, right = (x.expand(*lead, *x.shape[-2:]).flatten(0, -3) for x in (a, b))
    product = torch.bmm(left, right, out_dtype=torch.float32)
    return product.reshape(*lead, *product.shape[-2:])
