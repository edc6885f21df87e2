"""Depthwise separable convolution over time.

Paper: Kaiser, Gomez and Chollet 2017, "Depthwise Separable Convolutions for Neural Machine
    Translation" (arXiv:1706.03059), after Chollet 2016, "Xception" (arXiv:1610.02357).
Equation: z_t = sum_{j=0}^{k-1} w_j x_{t + j - s}, channel by channel with w_j of width dim;
    y_t = P z_t + b with P of shape dim x dim; s = k - 1 (causal) or (k - 1) / 2 (centred); tokens
    outside the sequence are zero. This is `conv` with W_j = P diag(w_j).
Cost: k n d + n d^2; one sequential operation; n / k layers between the farthest positions.
Departures: this is the convolution alone; the papers' norms, ReLUs and residuals belong to the
    architecture. The taps are drawn uniformly with variance 1 / k, which preserves the variance of
    an input; P has torch's default initialisation, so that outputs start as large as those of
    `conv`.
Padding: padded tokens enter as zeros, like tokens outside the sequence.
Fast form: `conv1d` with one group per channel, then `conv1d` with one tap.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from bakeoff.models.errors import ModelError
from bakeoff.models.kernels.window import SlidingWindow, Window
from bakeoff.models.mixer import Cost


class SeparableConvolution(SlidingWindow):
    """Depthwise, then pointwise convolution over time; see the module docstring."""

    name = "separable_conv"
    paper = "Kaiser et al. 2017, arXiv:1706.03059"
    cost = Cost(time="k * n * d + n * d**2", sequential_operations="1", maximum_path_length="n / k")

    def make_parameters(self, config: SlidingWindow.Config) -> None:
        """Create the taps and the matrix; see `SlidingWindow.make_parameters`."""
        super().make_parameters(config)
        dim = self.dim
        self.depthwise = nn.Conv1d(dim, dim, config.kernel_size, groups=dim, bias=False)
        self.pointwise = nn.Conv1d(dim, dim, 1)
        largest = (3 / config.kernel_size) ** 0.5
        nn.init.uniform_(self.depthwise.weight, -largest, largest)

    def slide(self, channels: Tensor, window: Window, num_padding: int) -> Tensor:
        """Convolve each channel, then mix channels by one matrix; see `SlidingWindow.slide`."""
        kernel = self.depthwise.weight[:, :, window.taps]
        summed = functional.conv1d(
            channels, kernel, padding=num_padding, dilation=window.dilation, groups=self.dim
        )
        mixed: Tensor = self.pointwise(summed)
        return mixed

    def one_output(self, tokens: dict[int, Tensor]) -> Tensor:
        """Return one output, `[dim]`, by the equation in the module docstring."""
        z_t = self.depthwise.weight.new_zeros(self.dim)
        for j, token in tokens.items():
            z_t = z_t + self.depthwise.weight[:, 0, j] * token
        assert self.pointwise.bias is not None
        return self.pointwise.weight[:, :, 0] @ z_t + self.pointwise.bias

    def flops(self, length: int, batch: int = 1, context_length: int | None = None) -> float:
        """Return the FLOPs of the taps of each channel, and of one dim x dim product per token."""
        self.check_context_length(context_length)
        per_token = 2 * self.num_taps(length) * self.dim + 2 * self.dim**2
        return float(batch * length * per_token)

    def forward_bytes(
        self, length: int, batch: int = 1, context_length: int | None = None
    ) -> float:
        """Return the peak bytes: the channels-first input, and two more tensors of its size.

        These are, at any time, two of the input in oneDNN's layout, the sums and the outputs. That
        layout pads the channels to a multiple of 8 or 16, depending on the CPU; the formula assumes
        such a multiple.

        Raises:
            ModelError: There are several threads; oneDNN then computes the last product too, with a
                different amount of memory.
        """
        self.check_context_length(context_length)
        if torch.get_num_threads() > 1:
            raise ModelError(f"{self.name} gives no formula for its bytes on several threads")
        return float(3 * 4 * batch * length * self.dim)
