"""Depthwise convolution over the rows and columns of a grid.

Paper: the token mixer of ConvNeXt, Liu et al. 2022, "A ConvNet for the 2020s" (arXiv:2201.03545,
    section 2.4), and of ConvMixer, Trockman and Kolter 2022 (arXiv:2201.09792, section 2).
Equation: y_(r, c) = b + sum_{i, j} w_ij x_(r + i - s, c + j - s), channel by channel with w_ij and
    b of width dim, over a k x k window with s = (k - 1) / 2; places outside the grid are zero.
Cost: k^2 n d; one sequential operation; a token reaches the k x k tokens around it in each layer.
Departures: this is the convolution alone; the papers' norms, GELUs, feed-forward layers and
    residuals belong to the architecture. The taps are drawn uniformly with variance 1 / k^2, which
    preserves the variance of an input. A sequence that is not on a grid is a grid of one row.
Padding: padded tokens enter as zeros, like places outside the grid.
Fast form: `conv2d` with one group per channel.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from bakeoff.models.errors import ModelError
from bakeoff.models.mixer import Context, Cost, Mask, without_padding
from bakeoff.models.vision.grid_mixer import GridMixer


class GridConvolution(GridMixer):
    """Depthwise convolution over a grid; see the module docstring."""

    name = "grid_conv"
    paper = "Liu et al. 2022, arXiv:2201.03545"
    family = "convolution"
    cost = Cost(time="k * n * d", sequential_operations="1", maximum_path_length="n / k")
    why_not_causal = "on a grid no order of the tokens is the one of their places"
    is_position_aware = True
    mask_mode = "exact"

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Knobs of the grid convolution.

        Attributes:
            window_size: Side of the square around a token that its output depends on; odd, and at
                least 3.
        """

        window_size: int = 7

    @classmethod
    def check_config(cls, config: Any, *, dim: int) -> None:
        """Raise `ModelError` if the window size is even or below 3."""
        if config.window_size < 3 or config.window_size % 2 == 0:
            raise ModelError(
                f"{cls.name}: window_size={config.window_size} is not an odd number of at least 3"
            )
        super().check_config(config, dim=dim)

    def make_parameters(self, config: Config) -> None:
        """Create a k x k kernel for each channel."""
        side = config.window_size
        self.conv = nn.Conv2d(self.dim, self.dim, side, groups=self.dim)
        nn.init.uniform_(self.conv.weight, -(3**0.5) / side, 3**0.5 / side)

    def forward(
        self, x: Tensor, mask: Mask = None, context: Context = None, context_mask: Mask = None
    ) -> Tensor:
        """Return the mixed tokens, `[batch, time, dim]`; see `Mixer.forward`."""
        self.check_inputs(x, mask, context, context_mask)
        rows, columns = self.grid_of(x.shape[1])
        tokens = without_padding(x, mask).reshape(len(x), rows, columns, self.dim)
        image = tokens.permute(0, 3, 1, 2)  # channels last, even for a single image
        kernel, reach = self._met(rows, columns)
        mixed = functional.conv2d(image, kernel, self.conv.bias, padding=reach, groups=self.dim)
        # Permute before flattening: the gradient of a flattened image may lose its memory layout.
        return mixed.permute(0, 2, 3, 1).flatten(1, 2)

    def _met(self, rows: int, columns: int) -> tuple[Tensor, tuple[int, int]]:
        """Return the taps that can reach a token, and their reach in both directions."""
        centre = self.config.window_size // 2
        down, across = min(centre, rows - 1), min(centre, columns - 1)
        inside = [slice(centre - reach, centre + reach + 1) for reach in (down, across)]
        return self.conv.weight[:, :, *inside], (down, across)

    def reference_of_one(self, x: Tensor, others: Tensor, seen: list[int]) -> Tensor:
        """Compute one output token at a time, from the real tokens in its square."""
        assert self.conv.bias is not None
        _, columns = self.grid_of(len(x))
        centre, outputs = self.config.window_size // 2, []
        for t in range(len(x)):
            y_t = self.conv.bias.clone()
            for other in seen:
                i = other // columns - t // columns + centre
                j = other % columns - t % columns + centre
                if 0 <= i <= 2 * centre and 0 <= j <= 2 * centre:
                    y_t = y_t + self.conv.weight[:, 0, i, j] * x[other]
            outputs.append(y_t)
        return torch.stack(outputs)

    def flops(self, length: int, batch: int = 1, context_length: int | None = None) -> float:
        """Return the FLOPs of one multiply-add per token, tap and channel.

        Products with the zeros beyond the edges are included.
        """
        self.check_context_length(context_length)
        kernel, _ = self._met(*self.grid_of(length))
        return float(batch * length * 2 * kernel.numel())

    def forward_bytes(
        self, length: int, batch: int = 1, context_length: int | None = None
    ) -> float:
        """Return the peak bytes: outputs and kernel."""
        self.check_context_length(context_length)
        kernel, _ = self._met(*self.grid_of(length))
        return 4.0 * (batch * length * self.dim + kernel.numel())

    def cost_symbols(self) -> dict[str, float]:
        """Return k, the number of taps."""
        _, (down, across) = self._met(*self.grid_of(self.max_length))
        return {"k": (2 * down + 1) * (2 * across + 1)}
