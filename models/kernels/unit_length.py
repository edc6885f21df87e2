"""Division of vectors by their length, in fewer memory passes than torch's operations take.

y = x / (|x|^2 + eps)^.5,   dx = (dy - y (y . dy)) / (|x|^2 + eps)^.5
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


def unit_length(x: Tensor, eps: float) -> Tensor:
    """Divide by the length, x / (|x|^2 + eps)^.5, over the last axis."""
    return _UnitLength.apply(x, eps)  # type: ignore[no-any-return, no-untyped-call]


def unit_mean_square(x: Tensor, eps: float) -> Tensor:
    """Compute x / (mean of x^2 + eps)^.5 over the last axis."""
    width = x.shape[-1]
    normed: Tensor = unit_length(x, width * eps) * width**0.5
    return normed


class _UnitLength(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, eps: float) -> Tensor:
        inverse: Tensor = (x.square().sum(dim=-1, keepdim=True) + eps).rsqrt_()
        y: Tensor = x * inverse
        ctx.save_for_backward(y, inverse)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor, None]:
        y, inverse = ctx.saved_tensors
        along = (y * slope).sum(dim=-1, keepdim=True)
        return torch.addcmul(slope, y, along, value=-1).mul_(inverse), None
