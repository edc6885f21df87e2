"""FNet: the Fourier transform as a mixer, without parameters.

Paper: Lee-Thorp et al. 2021, "FNet: Mixing Tokens with Fourier Transforms" (arXiv:2105.03824).
Equation: y = Re(F_time(F_dim(x))), with the unnormalised transform
    (F x)_k = sum_{m=0}^{N-1} x_m exp(-2 pi i m k / N).
Cost: n d (log2 n + log2 d); one sequential operation, in the counting of Table 1, which ignores
    the depth of sums; any two positions are one step apart.
Departures: none by default. Outputs are then sqrt(n d / 2) times as large as inputs, which the
    paper's post-norm block divides out and a pre-norm block does not: there they drown the
    residual stream, and the knob `norm` takes the factor out (Fashion-MNIST in 49 patches, width
    64, 300 steps: accuracy 0.61 without and 0.76 with it, on validation data).
Order: every position enters an output with its own phase, so the transform is not equivariant
    to permutations and tells orders apart without a position encoding (the paper adds one all
    the same).
Padding: as in the paper, padded tokens are mixed like any others; the mask is not read.
Precision: float32 at least; lower inputs are widened, and the outputs rounded.
Fast form: inputs are real, so y_{-k,-j} = y_{k,j}, and half of the columns (`torch.fft.rfft2`) give
    the other half. The transform is a symmetric matrix, so its gradient is the same transform.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from models.mixer import Context, Cost, Mask, Mixer


class FNet(Mixer):
    """The real part of a Fourier transform over time and width; see the module's note."""

    name = "fnet"
    paper = "Lee-Thorp et al. 2021, arXiv:2105.03824"
    family = "fourier"
    cost = Cost(
        time="n * d * (log2(n) + log2(d))", sequential_operations="1", maximum_path_length="1"
    )
    why_not_causal = "each output of the Fourier transform over time depends on every token"
    is_position_aware = True
    mask_mode = "pads_as_tokens"

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Knobs of FNet.

        Attributes:
            norm: `none` is the paper's transform; `ortho` divides it by sqrt(n d), so that
                outputs are about as large as inputs at any length.
        """

        norm: Literal["none", "ortho"] = "none"

    def make_parameters(self, config: Config) -> None:
        """None."""
        self.is_orthonormal = config.norm == "ortho"

    def forward(
        self, x: Tensor, mask: Mask = None, context: Context = None, context_mask: Mask = None
    ) -> Tensor:
        """See `Mixer.forward`; the mask is not read."""
        self.check_inputs(x, mask, context, context_mask)
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        norm = "ortho" if self.is_orthonormal else "backward"  # torch's name for no factor
        return _transform(wide, norm).to(x.dtype)

    def flops(self, length: int, batch: int = 1, context_length: int | None = None) -> float:
        """`length` transforms of dim, then dim transforms of `length`, at 5 n log2 n each."""
        self.check_context_length(context_length)
        over_dim = length * 5 * self.dim * math.log2(self.dim)
        over_time = self.dim * 5 * length * math.log2(length)
        return batch * (over_dim + over_time)

    def forward_bytes(
        self, length: int, batch: int = 1, context_length: int | None = None
    ) -> float:
        """The output, half of the columns in complex numbers, and the other half flipped twice.

        What MKL takes for itself during a transform is not torch's, and not in it.
        """
        self.check_context_length(context_length)
        half, others = self.dim // 2 + 1, (self.dim + 1) // 2 - 1
        return float(4 * batch * length * (self.dim + 2 * half + 2 * others))

    def reference(
        self, x: Tensor, mask: Mask = None, context: Context = None, context_mask: Mask = None
    ) -> Tensor:
        """The double sum, one output at a time; its real part is a sum of cosines."""
        _, length, dim = x.shape
        time = torch.arange(length, dtype=x.dtype, device=x.device)
        width = torch.arange(dim, dtype=x.dtype, device=x.device)
        rows = []
        for k in range(length):
            for j in range(dim):
                turns = time[:, None] * k / length + width[None, :] * j / dim
                rows.append((x * torch.cos(2 * math.pi * turns)).sum(dim=(1, 2)))
        factor = (length * dim) ** -0.5 if self.is_orthonormal else 1.0
        return factor * torch.stack(rows, dim=1).reshape(x.shape)


class _CosineTransform(torch.autograd.Function):
    """y_{k,j} = sum_{m,l} x_{m,l} cos(2 pi (k m / n + j l / d)), which is Re(F_time(F_dim(x)))."""

    @staticmethod
    def forward(x: Tensor, norm: str) -> Tensor:
        """`[batch, time, dim]`; `norm` as `torch.fft` has it."""
        dim = x.shape[-1]
        y = torch.empty_like(x, memory_format=torch.contiguous_format)
        if x.numel() == 0:  # MKL refuses to transform nothing
            return y
        half = torch.fft.rfft2(x, norm=norm).real  # columns 0 to dim / 2
        y[..., : dim // 2 + 1] = half
        others = half[..., 1 : (dim + 1) // 2].flip(-1)  # columns -j as columns j ...
        y[..., :1, dim // 2 + 1 :] = others[..., :1, :]
        y[..., 1:, dim // 2 + 1 :] = others[..., 1:, :].flip(-2)  # ... and rows -k as rows k
        return y

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, str], output: Tensor) -> None:
        """Nothing of the inputs is needed."""
        ctx.norm = inputs[1]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        """The same again, since cosines do not mind k and m, j and l changing places."""
        return _transform(gradient, ctx.norm), None


def _transform(x: Tensor, norm: str) -> Tensor:
    transformed: Tensor = _CosineTransform.apply(x, norm)  # type: ignore[no-untyped-call]
    return transformed
