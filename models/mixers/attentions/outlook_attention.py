"""Outlook attention: a token says by itself how its neighbours look at one another.

Paper: Yuan et al. 2021, "VOLO: Vision Outlooker for Visual Recognition" (arXiv:2106.13112),
    section 3.1; the stride, the scale and the pooling are those of the authors' code.
Equation: values V = x W_v on a grid. A window of k x k places lies around every s-th token in both
    directions. Its weights come from its centre alone: c, the mean of the s x s tokens from it on,
    is mapped to k^2 x k^2 numbers for each of H heads, A = softmax(s_d (c W_a + b_a)) by rows, with
    s_d = 1 / sqrt(dim / H). Place i of the window takes sum_j A_ij V_j of its places j, and what a
    token has taken in all windows that hold it is summed; output = sums W_o + b_o.
Cost: k^4 n d / s^2; one sequential operation; a token sees 2 (k - 1) + 1 places across.
Departures: none; places outside the grid have a value of zero and their share of the weights, as
    in the code. A sequence that lies on no grid is a grid of one row.
Padding: exact: padded tokens are like places outside the grid. They have no value and no share in
    a mean, and around them alone there is no window.
Fast form: the first places of all windows are a slice of the grid, as are the second ones and so
    on. Values are copied slice by slice, k^2 times, and what places take is added to the same
    slices. There a head's numbers stay side by side, which `unfold` and `fold` would tear apart.
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

from models.errors import ModelError
from models.kernels.softmax_attention import draw_projections
from models.mixer import Context, Cost, Mask, without_padding
from models.vision.grid_mixer import GridMixer


class OutlookAttention(GridMixer):
    """Each token weighs the pairs of places around it; see the module's note."""

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
            window_size: Side k of a window, its centre in the middle; odd, and at least 3.
            stride: How many places lie between the centres of neighbouring windows; at most
                (window_size + 1) / 2, so that a window holds all that its weights come from. VOLO's
                is 2; at 1 each token is a centre.
            bias: Whether values have a bias; weights and outputs have one always.
        """

        heads: int = 4
        window_size: int = 3
        stride: int = 1
        bias: bool = False

    @classmethod
    def check_config(cls, config: Any, *, dim: int) -> None:
        """Refuse a window that has no centre, or mixes nothing, or is passed over."""
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
        """Maps to values and to weights, and of what is summed."""
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
        """See `Mixer.forward`."""
        self.check_inputs(x, mask, context, context_mask)
        grid = self.grid_of(x.shape[1])
        x = without_padding(x, mask)
        taken = self._weights(x, mask, grid) @ self._shown(x, mask, grid)
        mixed: Tensor = self.output(self._summed(taken, grid))
        return mixed

    def _shown(self, x: Tensor, mask: Mask, grid: tuple[int, int]) -> Tensor:
        """The values of each window, `[batch, windows, heads, places, width]`."""
        values = without_padding(self.value(x), mask).view(len(x), *grid, self.heads, self.width)
        padded = functional.pad(values, (0, 0, 0, 0, *[self.reach] * 4))
        return torch.stack(list(self._slices(padded)), dim=4).flatten(1, 2)

    def _summed(self, taken: Tensor, grid: tuple[int, int]) -> Tensor:
        """What each token has taken in all windows, `[batch, time, dim]`."""
        rows, columns = (side + 2 * self.reach for side in grid)
        padded = taken.new_zeros(len(taken), rows, columns, self.heads, self.width)
        # A slice is cut when it is its turn: one of before the first sum would know no gradient.
        for place, share in zip(self._slices(padded), taken.unbind(dim=3), strict=True):
            place += share.view(place.shape)
        inside = slice(self.reach, -self.reach)
        return padded[:, inside, inside].flatten(1, 2).flatten(2)

    def _slices(self, padded: Tensor) -> Iterator[Tensor]:
        """Where all windows have their first place on a padded grid, their second, and so on."""
        rows, columns = (side - 2 * self.reach for side in padded.shape[1:3])
        stride = self.config.stride
        for down, across in itertools.product(range(self.config.window_size), repeat=2):
            yield padded[:, down : down + rows : stride, across : across + columns : stride]

    def _weights(self, x: Tensor, mask: Mask, grid: tuple[int, int]) -> Tensor:
        """Of each window by its centre, `[batch, windows, heads, places, places]`."""
        centres, real = self._centres(x, mask, grid)
        shape = *centres.shape[:2], self.heads, self.places, self.places
        weights: Tensor = self.weights(centres).view(shape).mul_(self.scale).softmax(dim=-1)
        return weights if real is None else weights * real[:, :, None, None, None]

    def _centres(self, x: Tensor, mask: Mask, grid: tuple[int, int]) -> tuple[Tensor, Mask]:
        """Means of real tokens `[batch, windows, dim]`, and where there is one to begin with."""
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
        """Window by window, place by place: what each place takes is added to its token."""
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
        """One for every `stride` tokens in both directions."""
        return math.prod(-(-side // self.config.stride) for side in self.grid_of(length))

    def flops(self, length: int, batch: int = 1, context_length: int | None = None) -> float:
        """Maps of tokens and of centres, and k^2 products of k^2 values around each centre."""
        self.check_context_length(context_length)
        of_tokens = 2 * length * self.dim**2
        of_windows = self.num_windows(length) * self.dim * self.places**2 * (self.heads + 1)
        return float(2 * batch * (of_tokens + of_windows))

    def forward_bytes(
        self, length: int, batch: int = 1, context_length: int | None = None
    ) -> float:
        """The weights of all windows, and two sets of their values or one more of weights."""
        self.check_context_length(context_length)
        values = self.places * self.dim
        weights = self.places**2 * self.heads
        held = weights + max(2 * values, weights)
        return float(4 * batch * self.num_windows(length) * held)

    def cost_symbols(self) -> dict[str, float]:
        """k, the places of a window."""
        return {"k": self.places}

    def _seen(self, side: int) -> Tensor:
        """`[side, side]` along one direction, True where a window holds both places."""
        centres = torch.arange(0, side, self.config.stride)
        holds = (torch.arange(side)[:, None] - centres).abs() <= self.config.window_size // 2
        shared: Tensor = holds.double() @ holds.double().T
        return shared > 0


def _pooled(x: Tensor, grid: tuple[int, int], side: int) -> Tensor:
    """Means over squares of a grid, `[batch, time, width]` -> `[batch, squares, width]`."""
    pooled = functional.avg_pool2d(_image(x, grid), side, stride=side, ceil_mode=True)
    return pooled.flatten(2).transpose(1, 2)


def _image(x: Tensor, grid: tuple[int, int]) -> Tensor:
    """`[batch, time, width]` -> `[batch, width, rows, columns]`, channels last in memory."""
    return x.reshape(len(x), *grid, x.shape[2]).permute(0, 3, 1, 2)
