"""Gated convolution over time.

Paper: Gehring et al. 2017, "Convolutional Sequence to Sequence Learning" (arXiv:1705.03122),
    ConvS2S, sections 3.2 and 3.5; the gate is the GLU of Dauphin et al. 2016 (arXiv:1612.08083).
Equation: (A, B) = b + sum_{j=0}^{k-1} W_j x_{t + j - s}, W_j of shape 2 dim x dim;
    y_t = A * sigmoid(B), elementwise; s = k - 1 (causal) or (k - 1) / 2 (centred); tokens outside
    the sequence are zero.
Cost: k n d^2; one sequential operation; n / k layers between the farthest positions.
Departures: without weight normalisation and dropout of inputs, and without the residual and its
    factor sqrt(1/2), which are the skeleton's to give. As in section 3.5, weights are drawn from
    normal(0, 4 / (k dim)) and biases are zero: by the paper's estimate, which takes the gate for
    a half, outputs start as large as inputs; in truth with 1.4 times their variance.
Padding: padded tokens enter as zeros, like tokens outside the sequence.
Fast form: `conv1d`, then `glu`.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from models.kernels.window import SlidingWindow, Window
from models.mixer import Cost


class GatedConvolution(SlidingWindow):
    """A learned sum over neighbours, let through by another; see the module's note."""

    name = "gated_conv"
    paper = "Gehring et al. 2017, arXiv:1705.03122"
    cost = Cost(time="k * n * d**2", sequential_operations="1", maximum_path_length="n / k")

    def __init__(
        self, *, dim: int, max_length: int, is_causal: bool, config: SlidingWindow.Config
    ) -> None:
        super().__init__(dim=dim, max_length=max_length, is_causal=is_causal, config=config)
        self.conv = nn.Conv1d(dim, 2 * dim, config.kernel_size)
        assert self.conv.bias is not None
        nn.init.normal_(self.conv.weight, std=2 * (config.kernel_size * dim) ** -0.5)
        nn.init.zeros_(self.conv.bias)

    def slide(self, channels: Tensor, window: Window, num_padding: int) -> Tensor:
        """Two matrices per tap; sums A stand in the first half, gates B in the second."""
        kernel = self.conv.weight[:, :, window.taps]
        sums = functional.conv1d(
            channels, kernel, self.conv.bias, padding=num_padding, dilation=window.dilation
        )
        return functional.glu(sums, dim=1)

    def one_output(self, tokens: dict[int, Tensor]) -> Tensor:
        """The equation of the module's note."""
        assert self.conv.bias is not None
        sums = self.conv.bias.clone()
        for j, token in tokens.items():
            sums = sums + self.conv.weight[:, :, j] @ token
        return sums[: self.dim] * torch.sigmoid(sums[self.dim :])

    def flops(self, length: int, batch: int = 1) -> float:
        """Two dim x dim products per token and tap; zeros beyond the ends are multiplied too."""
        return float(batch * length * self.num_taps(length) * 2 * 2 * self.dim**2)

    def forward_bytes(self, length: int, batch: int = 1) -> float:
        """Of the sums and gates, before the ones meet the others; see `convolution_bytes`."""
        return self.convolution_bytes(length, batch, widening=2)

    def num_parameters(self) -> int:
        """Two matrices per tap and two biases."""
        return 2 * (self.kernel_size * self.dim**2 + self.dim)
