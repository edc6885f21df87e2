"""Convolution over time.

Paper: the row "Convolutional" of Table 1 of Vaswani et al. 2017 (arXiv:1706.03762), which covers
    ByteNet (arXiv:1610.10099) and ConvS2S (Gehring et al. 2017, arXiv:1705.03122).
Equation: y_t = b + sum_{j=0}^{k-1} W_j x_{t + j - s}, W_j of shape dim x dim, with s = k - 1
    (causal) or s = (k - 1) / 2 (centred); tokens outside the sequence are zero.
Cost: k n d^2; one sequential operation; n / k layers between the farthest positions. Table 1 states
    log_k(n), which holds for dilated kernels; these are contiguous.
Departures: this is the plain linear convolution, without ConvS2S's gates or ByteNet's dilation,
    which are the mixers `gated_conv` and `dilated_conv`. Weights and biases have torch's default
    initialisation.
Padding: padded tokens enter as zeros, like tokens outside the sequence.
Fast form: `conv1d`.
"""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor, nn
from torch.nn import functional

from bakeoff.models.kernels.window import SlidingWindow, Window
from bakeoff.models.mixer import Cost

_LARGEST_UNROLLED = 20480  # numbers in a single sequence up to which torch does not use oneDNN


class Convolution(SlidingWindow):
    """Linear convolution over time; see the module docstring."""

    name = "conv"
    paper = "Gehring et al. 2017, arXiv:1705.03122; Table 1 of arXiv:1706.03762"
    cost = Cost(time="k * n * d**2", sequential_operations="1", maximum_path_length="n / k")
    widening: ClassVar[int] = 1  # output channels of the kernel per input channel

    def make_parameters(self, config: SlidingWindow.Config) -> None:
        """Create the kernel; see `SlidingWindow.make_parameters`."""
        super().make_parameters(config)
        self.conv = nn.Conv1d(self.dim, self.widening * self.dim, self.kernel_size)

    def slide(self, channels: Tensor, window: Window, num_padding: int) -> Tensor:
        """Convolve all windows, with one matrix per tap; see `SlidingWindow.slide`."""
        kernel = self.conv.weight[:, :, window.taps]
        return functional.conv1d(
            channels, kernel, self.conv.bias, padding=num_padding, dilation=window.dilation
        )

    def one_output(self, tokens: dict[int, Tensor]) -> Tensor:
        """Return one output, `[dim]`, by the equation in the module docstring."""
        assert self.conv.bias is not None
        y_t = self.conv.bias.clone()
        for j, token in tokens.items():
            y_t = y_t + self.conv.weight[:, :, j] @ token
        return y_t

    def flops(self, length: int, batch: int = 1, context_length: int | None = None) -> float:
        """Return the FLOPs of one dim x dim product per token and tap.

        Products with the zeros beyond the ends are included.
        """
        self.check_context_length(context_length)
        return float(batch * length * self.num_taps(length) * 2 * self.widening * self.dim**2)

    def forward_bytes(
        self, length: int, batch: int = 1, context_length: int | None = None
    ) -> float:
        """Return the peak bytes: the channels-first input, and the convolution of all channels.

        oneDNN copies input and kernel to its own layout, and holds its output twice at the end. For
        a single short sequence torch writes all windows to memory instead.
        """
        self.check_context_length(context_length)
        taps = self.num_taps(length)
        channels = 4 * batch * length * self.dim
        outputs = self.widening * channels
        if batch == 1 and length * self.dim <= _LARGEST_UNROLLED:
            return channels + taps * channels + outputs
        kernel = 4 * taps * self.widening * self.dim**2
        return channels + max(channels + kernel + outputs, 2 * outputs)
