"""Depthwise convolution over the rows and columns of a grid.

Paper: the token mixer of ConvNeXt, Liu et al. 2022, "A ConvNet for the 2020s" (arXiv:2201.03545,
    section 2.4); of ConvMixer, Trockman and Kolter 2022 (arXiv:2201.09792, section 2).
Equation: y_(r, c) = b + sum_{i, j} w_ij x_(r + i - s, c + j - s), channel by channel with w_ij and
    b of width dim, over a k x k window with s = (k - 1) / 2; places outside the grid are zero.
Cost: k^2 n d; one sequential operation; a token sees the k x k around it in each layer.
Departures: the convolution alone, without the papers' norms, GELUs, feed-forwards and residuals,
    which are the architecture's to give. The taps are drawn uniformly with variance 1 / k^2, which
    keeps the variance of an input. A sequence that lies on no grid is a grid of one row.
Padding: padded tokens enter as zeros, like places outside the grid.
Fast form: `conv2d` with a group to each channel.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from models.errors import ModelError
from models.mixer import Context, Cost, Mask, without_padding
from models.vision.grid_mixer import GridMixer


class GridConvolution(GridMixer):
    """A sum over the neighbours in both directions, in each channel; see the module's note."""

    name = "grid_conv"
    paper = "Liu et al. 2022, arXiv:2201.03545"
    family = "convolution"
    cost = Cost(time="k * n * d", sequential_operations="1", maximum_path_length="n / k")
    why_not_causal = "on a grid no order of the tokens is the one of their places"
    is_position_aware = True
    mask_mode = "exact"

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Knobs of a convolution over a grid.

        Attributes:
            window_size: Side of the square that a token sees, itself in the middle; odd, and at
                least 3.
        """

        window_size: int = 7

    @classmethod
    def check_config(cls, config: Any, *, dim: int) -> None:
        """Refuse a square that has no centre, or mixes nothing."""
        if config.window_size < 3 or config.window_size % 2 == 0:
            raise ModelError(
                f"{cls.name}: window_size={config.window_size} is not an odd number of at least 3"
            )
        super().check_config(config, dim=dim)

    def make_parameters(self, config: Config) -> None:
        """A kernel of numbers for each channel."""
        side = config.window_size
        self.conv = nn.Conv2d(self.dim, self.dim, side, groups=self.dim)
        nn.init.uniform_(self.conv.weight, -(3**0.5) / side, 3**0.5 / side)

    def forward(
        self, x: Tensor, mask: Mask = None, context: Context = None, context_mask: Mask = None
    ) -> Tensor:
        """See `Mixer.forward`."""
        self.check_inputs(x, mask, context, context_mask)
        rows, columns = self.grid_of(x.shape[1])
        tokens = without_padding(x, mask).reshape(len(x), rows, columns, self.dim)
        image = tokens.permute(0, 3, 1, 2)  # channels last, of a single image too
        kernel, reach = self._met(rows, columns)
        mixed = functional.conv2d(image, kernel, self.conv.bias, padding=reach, groups=self.dim)
        # Channels last first: the gradient of a flattened image may lose that it is laid out so.
        return mixed.permute(0, 2, 3, 1).flatten(1, 2)

    def _met(self, rows: int, columns: int) -> tuple[Tensor, tuple[int, int]]:
        """The taps that can meet a token, and how far they reach in both directions."""
        centre = self.config.window_size // 2
        down, across = min(centre, rows - 1), min(centre, columns - 1)
        inside = [slice(centre - reach, centre + reach + 1) for reach in (down, across)]
        return self.conv.weight[:, :, *inside], (down, across)

    def reference_of_one(self, x: Tensor, others: Tensor, seen: list[int]) -> Tensor:
        """One output token at a time, of the real tokens in its square."""
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
        """A number per token, tap and channel; zeros beyond the edges are multiplied too."""
        self.check_context_length(context_length)
        kernel, _ = self._met(*self.grid_of(length))
        return float(batch * length * 2 * kernel.numel())

    def forward_bytes(
        self, length: int, batch: int = 1, context_length: int | None = None
    ) -> float:
        """Outputs and kernel."""
        self.check_context_length(context_length)
        kernel, _ = self._met(*self.grid_of(length))
        return 4.0 * (batch * length * self.dim + kernel.numel())

    def cost_symbols(self) -> dict[str, float]:
        """k, the taps."""
        _, (down, across) = self._met(*self.grid_of(self.max_length))
        return {"k": (2 * down + 1) * (2 * across + 1)}
