"""FNet: mixing by Fourier transforms, without parameters.

Paper: Lee-Thorp et al. 2021, "FNet: Mixing Tokens with Fourier Transforms" (arXiv:2105.03824).
Equation: y = Re(F_time(F_dim(x))), with the unnormalised transform
    (F x)_k = sum_{m=0}^{N-1} x_m exp(-2 pi i m k / N).
Cost: n d (log2 n + log2 d); one sequential operation by the convention of Table 1, which ignores
    the depth of sums; any two positions are one step apart.
Departures: none by default. Outputs are then sqrt(n d / 2) times as large as inputs, which the
    paper's post-norm block normalises but a pre-norm block does not: there they dominate the
    residual stream. The knob `norm` removes the factor (Fashion-MNIST in 49 patches, width 64, 300
    steps: validation accuracy 0.61 without and 0.76 with `ortho`).
Order: every position contributes to an output with its own phase, so the transform is not
    equivariant to permutations and does not need a position encoding to distinguish orders (the
    paper adds one nevertheless).
Padding: as in the paper, padded tokens are mixed like any others; the mask is ignored.
Precision: at least float32; lower-precision inputs are converted, and the outputs are rounded back.
Fast form: inputs are real, so y_{-k,-j} = y_{k,j}, and half of the columns (`torch.fft.rfft2`)
    determine the others. The transform is a symmetric matrix, so its gradient is the same
    transform.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from bakeoff.models.mixer import Context, Cost, Mask, Mixer


class FNet(Mixer):
    """Real part of the Fourier transform over time and width; see the module docstring."""

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
            norm: `none` is the paper's transform; `ortho` divides it by sqrt(n d), so that outputs
                are about as large as inputs at any length.
        """

        norm: Literal["none", "ortho"] = "none"

    def make_parameters(self, config: Config) -> None:
        """Store the normalisation; there are no parameters."""
        self.is_orthonormal = config.norm == "ortho"

    def forward(
        self, x: Tensor, mask: Mask = None, context: Context = None, context_mask: Mask = None
    ) -> Tensor:
        """Return the transformed tokens, `[batch, time, dim]`; the mask is ignored."""
        self.check_inputs(x, mask, context, context_mask)
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        norm = "ortho" if self.is_orthonormal else "backward"  # torch's name for no factor
        return _transform(wide, norm).to(x.dtype)

    def flops(self, length: int, batch: int = 1, context_length: int | None = None) -> float:
        """Return the FLOPs of the transforms over width and time, 5 n log2 n for length n."""
        self.check_context_length(context_length)
        over_dim = length * 5 * self.dim * math.log2(self.dim)
        over_time = self.dim * 5 * length * math.log2(length)
        return batch * (over_dim + over_time)

    def forward_bytes(
        self, length: int, batch: int = 1, context_length: int | None = None
    ) -> float:
        """Return the peak bytes: the output, half of the columns (complex), and two flipped copies.

        The memory that MKL allocates for itself during a transform is not torch's and is not
        included.
        """
        self.check_context_length(context_length)
        half, others = self.dim // 2 + 1, (self.dim + 1) // 2 - 1
        return float(4 * batch * length * (self.dim + 2 * half + 2 * others))

    def reference(
        self, x: Tensor, mask: Mask = None, context: Context = None, context_mask: Mask = None
    ) -> Tensor:
        """Compute the double sum, one output at a time; its real part is a sum of cosines."""
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
    """Function that computes Re(F_time(F_dim(x))) as a sum of cosines.

    It is y_{k,j} = sum_{m,l} x_{m,l} cos(2 pi (k m / n + j l / d)).
    """

    @staticmethod
    def forward(x: Tensor, norm: str) -> Tensor:
        """Transform `x` `[batch, time, dim]`; `norm` is that of `torch.fft`."""
        dim = x.shape[-1]
        y = torch.empty_like(x, memory_format=torch.contiguous_format)
        if x.numel() == 0:  # MKL rejects empty inputs
            return y
        half = torch.fft.rfft2(x, norm=norm).real  # columns 0 to dim / 2
        y[..., : dim // 2 + 1] = half
        others = half[..., 1 : (dim + 1) // 2].flip(-1)  # columns -j are columns j ...
        y[..., :1, dim // 2 + 1 :] = others[..., :1, :]
        y[..., 1:, dim // 2 + 1 :] = others[..., 1:, :].flip(-2)  # ... with rows -k for rows k
        return y

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, str], output: Tensor) -> None:
        """Save only `norm`; the gradient does not depend on the input."""
        ctx.norm = inputs[1]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        """Return the same transform of the gradient, since its matrix is symmetric."""
        return _transform(gradient, ctx.norm), None


def _transform(x: Tensor, norm: str) -> Tensor:
    transformed: Tensor = _CosineTransform.apply(x, norm)  # type: ignore[no-untyped-call]
    return transformed
