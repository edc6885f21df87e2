"""Gated convolution over time.

Paper: Gehring et al. 2017, "Convolutional Sequence to Sequence Learning" (arXiv:1705.03122),
    ConvS2S, sections 3.2 and 3.5; the gate is the GLU of Dauphin et al. 2016 (arXiv:1612.08083).
Equation: (A, B) = b + sum_{j=0}^{k-1} W_j x_{t + j - s}, W_j of shape 2 dim x dim;
    y_t = A * sigmoid(B), elementwise; s = k - 1 (causal) or (k - 1) / 2 (centred); tokens outside
    the sequence are zero.
Cost: k n d^2; one sequential operation; n / k layers between the farthest positions.
Departures: there is no weight normalisation and no dropout of inputs; the residual and its factor
    sqrt(1/2) belong to the architecture. Weights are drawn from normal(0, 4 / (k dim)) and biases
    are zero, as in section 3.5. By the paper's estimate, which assumes a gate of one half, outputs
    then start with the variance of the inputs; the actual variance is 1.4 times as large.
Padding: padded tokens enter as zeros, like tokens outside the sequence.
Fast form: `conv1d`, then `glu`.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from bakeoff.models.kernels.window import SlidingWindow, Window
from bakeoff.models.mixers.conv import Convolution


class GatedConvolution(Convolution):
    """Convolution over time with a gated linear unit; see the module docstring."""

    name = "gated_conv"
    paper = "Gehring et al. 2017, arXiv:1705.03122"
    widening = 2  # the first half of the channels are sums A, the second half gates B

    def make_parameters(self, config: SlidingWindow.Config) -> None:
        """Create a kernel of two matrices per tap, with the paper's initialisation."""
        super().make_parameters(config)
        assert self.conv.bias is not None
        nn.init.normal_(self.conv.weight, std=2 * (config.kernel_size * self.dim) ** -0.5)
        nn.init.zeros_(self.conv.bias)

    def slide(self, channels: Tensor, window: Window, num_padding: int) -> Tensor:
        """Convolve all windows, and gate the sums; see `SlidingWindow.slide`."""
        sums = super().slide(channels, window, num_padding)
        return functional.glu(sums, dim=1)

    def one_output(self, tokens: dict[int, Tensor]) -> Tensor:
        """Return one output, `[dim]`, by the equation in the module docstring."""
        sums = super().one_output(tokens)
        return sums[: self.dim] * torch.sigmoid(sums[self.dim :])
