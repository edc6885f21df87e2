"""Outlook attention: each token predicts the attention weights among its neighbours.

Paper: Yuan et al. 2021, "VOLO: Vision Outlooker for Visual Recognition" (arXiv:2106.13112), section
    3.1; the stride, the scale and the pooling follow the authors' code.
Equation: values V = x W_v on a grid. A window of k x k places is centred at every s-th token in
    both directions. Its weights depend on its centre alone: c, the mean of the s x s tokens that
    start there, is mapped to k^2 x k^2 numbers for each of H heads, A = softmax(s_d (c W_a + b_a))
    by rows, with s_d = 1 / sqrt(dim / H). Place i of the window gets sum_j A_ij V_j over its places
    j, and each token sums what it gets in all windows that contain it; output = sums W_o + b_o.
Cost: k^4 n d / s^2; one sequential operation; a token reaches 2 (k - 1) + 1 places across.
Departures: none; as in the authors' code, places outside the grid have a value of zero but still
    take their share of the weights. A sequence that is not on a grid is a grid of one row.
Padding: exact; padded tokens are treated as places outside the grid. They have no value, do not
    enter the means, and a window whose centre holds only padding is dropped.
Fast form: the first places of all windows form a slice of the grid, and so do the second ones and
    the rest. The k^2 slices of the values are copied one by one, and the results are added to the
    same slices. This keeps the channels of a head contiguous, which `unfold` and `fold` do not.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from bakeoff.models.errors import ModelError
from bakeoff.models.kernels.softmax_attention import draw_projections
from bakeoff.models.mixer import Context, Cost, Mask, without_padding
from bakeoff.models.vision.grid_mixer import GridMixer


class OutlookAttention(GridMixer):
    """Attention with weights predicted from each window's centre; see the module docstring."""

    name = "outlook_attention"
    paper = "Yuan et al. 2021, arXiv:2106.13112"
    family = "attention"
    cost = Cost(time="k**2 * n * d", sequential_operations="1", maximum_path_length="n / k")
    why_not_causal = "on a grid no order of the tokens is the one of their places"
    is_position_aware = True
    mask_mode = "exact"
    heads_divide_dim = True
    positive_knobs = ("stride",)

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Knobs of outlook attention.

        Attributes:
            heads: Number of heads; must divide dim.
            window_size: Side k of a window around its centre; odd, and at least 3.
            stride: Distance between the centres of neighbouring windows; at most
                (window_size + 1) / 2, so that a window contains all tokens that its weights depend
                on. VOLO uses 2; with 1 every token is a centre.
            bias: Whether the values have a bias; weights and outputs always have one.
        """

        heads: int = 4
        window_size: int = 3
        stride: int = 1
        bias: bool = False

    @classmethod
    def check_config(cls, config: Any, *, dim: int) -> None:
        """Raise `ModelError` if a window has no centre or one place, or the stride is too large."""
        side = config.window_size
        if side < 3 or side % 2 == 0:
            raise ModelError(f"{cls.name}: window_size={side} is not an odd number of at least 3")
        if config.stride > (side + 1) // 2:
            raise ModelError(
                f"{cls.name}: stride={config.stride} is above {(side + 1) // 2}, half of the "
                f"window_size={side}"
            )
        super().check_config(config, dim=dim)

    def make_parameters(self, config: Config) -> None:
        """Create the projections to values, weights and outputs."""
        self.heads, self.places = config.heads, config.window_size**2
        self.width, self.reach = self.dim // config.heads, config.window_size // 2
        self.scale = self.width**-0.5
        self.value = nn.Linear(self.dim, self.dim, bias=config.bias)
        self.weights = nn.Linear(self.dim, self.places**2 * self.heads)
        self.output = nn.Linear(self.dim, self.dim)
        draw_projections(self.value, self.weights, self.output)

    def forward(
        self, x: Tensor, mask: Mask = None, context: Context = None, context_mask: Mask = None
    ) -> Tensor:
        """Return the mixed tokens, `[batch, time, dim]`; see `Mixer.forward`."""
        self.check_inputs(x, mask, context, context_mask)
        grid = self.grid_of(x.shape[1])
        x = without_padding(x, mask)
        taken = self._weights(x, mask, grid) @ self._shown(x, mask, grid)
        mixed: Tensor = self.output(self._summed(taken, grid))
        return mixed

    def _shown(self, x: Tensor, mask: Mask, grid: tuple[int, int]) -> Tensor:
        """Return the values of each window, `[batch, windows, heads, places, width]`."""
        values = without_padding(self.value(x), mask).view(len(x), *grid, self.heads, self.width)
        padded = functional.pad(values, (0, 0, 0, 0, *[self.reach] * 4))
        return torch.stack(list(self._slices(padded)), dim=4).flatten(1, 2)

    def _summed(self, taken: Tensor, grid: tuple[int, int]) -> Tensor:
        """Return the sum over all windows for each token, `[batch, time, dim]`."""
        rows, columns = (side + 2 * self.reach for side in grid)
        padded = taken.new_zeros(len(taken), rows, columns, self.heads, self.width)
        # Each slice is taken just before its sum: autograd would not track one taken earlier.
        for place, share in zip(self._slices(padded), taken.unbind(dim=3), strict=True):
            place += share.view(place.shape)
        inside = slice(self.reach, -self.reach)
        return padded[:, inside, inside].flatten(1, 2).flatten(2)

    def _slices(self, padded: Tensor) -> Iterator[Tensor]:
        """Yield the k^2 slices of a padded grid; slice i holds place i of every window."""
        rows, columns = (side - 2 * self.reach for side in padded.shape[1:3])
        stride = self.config.stride
        for down, across in itertools.product(range(self.config.window_size), repeat=2):
            yield padded[:, down : down + rows : stride, across : across + columns : stride]

    def _weights(self, x: Tensor, mask: Mask, grid: tuple[int, int]) -> Tensor:
        """Return each window's weights, `[batch, windows, heads, places, places]`."""
        centres, real = self._centres(x, mask, grid)
        shape = *centres.shape[:2], self.heads, self.places, self.places
        weights: Tensor = self.weights(centres).view(shape).mul_(self.scale).softmax(dim=-1)
        return weights if real is None else weights * real[:, :, None, None, None]

    def _centres(self, x: Tensor, mask: Mask, grid: tuple[int, int]) -> tuple[Tensor, Mask]:
        """Return the centres `[batch, windows, dim]`, and which have a real token (None: all)."""
        side = self.config.stride
        if side == 1:
            return x, mask
        pooled = _pooled(x, grid, side)
        if mask is None:
            return pooled, None
        share = _pooled(mask.unsqueeze(2).to(x.dtype), grid, side)
        real = share.squeeze(2) > 0
        return pooled / share.masked_fill(share == 0, 1.0), real

    def reference_of_one(self, x: Tensor, others: Tensor, seen: list[int]) -> Tensor:
        """Compute window by window, and add the result of each place to its token."""
        rows, columns = self.grid_of(len(x))
        side, reach, real = self.config.stride, self.reach, set(seen)
        values, width = self.value(x), self.width
        sums = [torch.zeros_like(token) for token in x]
        for row in range(0, rows, side):
            for column in range(0, columns, side):
                cell = [
                    r * columns + c
                    for r in range(row, min(row + side, rows))
                    for c in range(column, min(column + side, columns))
                    if r * columns + c in real
                ]
                if not cell:
                    continue
                logits = self.weights(x[cell].mean(dim=0)).view(self.heads, self.places, -1)
                terms = torch.exp(logits / math.sqrt(width))
                weights = terms / terms.sum(dim=-1, keepdim=True)
                places = [
                    r * columns + c if 0 <= r < rows and 0 <= c < columns else None
                    for r in range(row - reach, row + reach + 1)
                    for c in range(column - reach, column + reach + 1)
                ]
                held = [j for j, place in enumerate(places) if place in real]
                read = values[[place for place in places if place in real]]
                for i, place in enumerate(places):
                    if place is not None:
                        shares = weights[:, i, held].repeat_interleave(width, dim=0)
                        sums[place] = sums[place] + (shares * read.T).sum(dim=1)
        mixed: Tensor = self.output(torch.stack(sums))
        return mixed

    def num_windows(self, length: int) -> int:
        """Return the number of windows: one for every `stride` tokens in both directions."""
        return math.prod(-(-side // self.config.stride) for side in self.grid_of(length))

    def flops(self, length: int, batch: int = 1, context_length: int | None = None) -> float:
        """Return the FLOPs of the projections, and of k^2 x k^2 weights times values per window."""
        self.check_context_length(context_length)
        of_tokens = 2 * length * self.dim**2
        of_windows = self.num_windows(length) * self.dim * self.places**2 * (self.heads + 1)
        return float(2 * batch * (of_tokens + of_windows))

    def forward_bytes(
        self, length: int, batch: int = 1, context_length: int | None = None
    ) -> float:
        """Return the peak bytes: all weights, and twice all values or the weights once more."""
        self.check_context_length(context_length)
        values = self.places * self.dim
        weights = self.places**2 * self.heads
        held = weights + max(2 * values, weights)
        return float(4 * batch * self.num_windows(length) * held)

    def cost_symbols(self) -> dict[str, float]:
        """Return k, the number of places in a window."""
        return {"k": self.places}

    def _seen(self, side: int) -> Tensor:
        """Return `[side, side]` along one axis, True where one window contains both places."""
        centres = torch.arange(0, side, self.config.stride)
        holds = (torch.arange(side)[:, None] - centres).abs() <= self.config.window_size // 2
        shared: Tensor = holds.double() @ holds.double().T
        return shared > 0


def _pooled(x: Tensor, grid: tuple[int, int], side: int) -> Tensor:
    """Return means over squares of a grid, `[batch, time, width]` -> `[batch, squares, width]`."""
    pooled = functional.avg_pool2d(_image(x, grid), side, stride=side, ceil_mode=True)
    return pooled.flatten(2).transpose(1, 2)


def _image(x: Tensor, grid: tuple[int, int]) -> Tensor:
    """Return `[batch, time, width]` as `[batch, width, rows, columns]`, channels last in memory."""
    return x.reshape(len(x), *grid, x.shape[2]).permute(0, 3, 1, 2)
