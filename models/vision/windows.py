"""Windows of a grid of tokens: how they are cut, and relative biases of scores inside them.

Liu et al. 2021, "Swin Transformer" (arXiv:2103.14030), section 3.2, and Liu et al. 2022, "Swin
Transformer V2" (arXiv:2111.09883), section 3.3. The grid is padded to whole windows, then rolled
by the shift, then cut. Padding after the roll would cut the windows of the first rows differently.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from bakeoff.models.mixer import Mask

Sides = tuple[int, int]  # rows and columns
_HIDDEN = 512  # hidden width of the network of relative biases


class Windows(NamedTuple):
    """A division of a grid into windows.

    Attributes:
        grid: Rows and columns of tokens.
        sides: Rows and columns of a window.
        shifts: Rows and columns by which the windows are moved down and right.
    """

    grid: Sides
    sides: Sides
    shifts: Sides

    @property
    def numbers(self) -> Sides:
        """Number of windows down and across the grid."""
        return -(-self.grid[0] // self.sides[0]), -(-self.grid[1] // self.sides[1])

    @property
    def number(self) -> int:
        """Total number of windows."""
        return math.prod(self.numbers)

    @property
    def size(self) -> int:
        """Number of tokens of a window, including padding."""
        return math.prod(self.sides)

    @property
    def are_plain(self) -> bool:
        """True if windows have no padding and all tokens of a window attend to each other."""
        return self.number * self.size == math.prod(self.grid) and not any(self.shifts)

    def window_of(self, place: int) -> Sides:
        """Return the row and column of the window that contains the token at `place`."""
        found = zip(divmod(place, self.grid[1]), self.shifts, self.sides, strict=True)
        down, across = ((each - shift) // side for each, shift, side in found)
        return down, across

    def steps(self, query: int, key: int) -> Sides:
        """Return the rows and columns from a key to a query."""
        (row, column), (row2, column2) = (divmod(i, self.grid[1]) for i in (query, key))
        return row - row2, column - column2

    def cut(self, x: Tensor) -> Tensor:
        """Cut `[batch, time, width]` into `[batch, windows, size, width]`, padded with zeros."""
        (down, across), (height, width), (batch, _, channels) = self.numbers, self.sides, x.shape
        missing = down * height - self.grid[0], across * width - self.grid[1]
        image = x.reshape(batch, *self.grid, channels)
        image = functional.pad(image, (0, 0, 0, missing[1], 0, missing[0]))
        if any(self.shifts):
            image = image.roll((-self.shifts[0], -self.shifts[1]), dims=(1, 2))
        tiles = image.reshape(batch, down, height, across, width, channels).transpose(2, 3)
        return tiles.reshape(batch, self.number, self.size, channels)

    def joined(self, windows: Tensor, batch: int) -> Tensor:
        """Undo `cut`: `[batch * windows, size, width]` -> `[batch, time, width]`."""
        (down, across), (height, width), channels = self.numbers, self.sides, windows.shape[-1]
        tiles = windows.reshape(batch, down, across, height, width, channels).transpose(2, 3)
        image = tiles.reshape(batch, down * height, across * width, channels)
        if any(self.shifts):
            image = image.roll(self.shifts, dims=(1, 2))
        return image[:, : self.grid[0], : self.grid[1]].reshape(
            batch, math.prod(self.grid), channels
        )

    def seen(self, mask: Mask, batch: int, device: torch.device) -> Tensor | None:
        """Return the attention mask `[batch * windows, 1, size, size]`, or None if not needed.

        Each real token has the number of its region, since the roll moves tokens from one end of
        the grid into a window with tokens of the other end; only tokens of the same region attend
        to each other. Padding, of the sequence and of windows, has the number zero.
        """
        if mask is None and self.are_plain:
            return None
        rows, columns = (torch.arange(side, device=device) for side in self.grid)
        regions = 1 + 2 * (rows[:, None] < self.shifts[0]) + (columns < self.shifts[1])
        regions = regions.reshape(1, -1, 1)
        regions = self.cut(regions if mask is None else regions * mask.unsqueeze(-1))
        keys = regions.transpose(-1, -2)
        seen = (regions == keys) & (keys > 0)
        return seen.expand(batch, -1, -1, -1).reshape(-1, 1, self.size, self.size)


class RelativeBias(nn.Module, ABC):
    """A bias of the scores between tokens of a window, as a function of their offset."""

    def __init__(self, heads: int, window: int) -> None:
        super().__init__()
        self.heads, self.window = heads, window
        self.make_parameters()

    def make_parameters(self) -> None:
        """Create the parameters; the constructor calls this once."""

    @abstractmethod
    def steps(self, sides: Sides) -> Tensor:
        """Return biases `[2 rows - 1, 2 columns - 1, heads]`, from the offset up and left."""

    @abstractmethod
    def one(self, head: int, step: Sides) -> Tensor:
        """Compute the bias of one offset, rows and columns from a key to a query, by formula."""

    def forward(self, sides: Sides) -> Tensor:
        """Return the bias of each query and key of a window, `[1, heads, size, size]`."""
        steps = self.steps(sides)
        rows, columns = (torch.arange(side, device=steps.device) for side in sides)
        row, column = (each.flatten() for each in torch.meshgrid(rows, columns, indexing="ij"))
        down = row[:, None] - row + sides[0] - 1
        across = column[:, None] - column + sides[1] - 1
        return steps[down, across].permute(2, 0, 1).unsqueeze(0)

    def flops(self, sides: Sides) -> float:
        """Return the FLOPs of all offsets in a window, for any batch size."""
        return 0.0

    def forward_bytes(self, sides: Sides) -> float:
        """Return the bytes held in float32 while the biases are computed."""
        return 0.0


class BiasTable(RelativeBias):
    """A learned number for each offset and head (Swin).

    That of (down, across) is in row (down + w - 1)(2 w - 1) + across + w - 1.
    """

    keeps_own_draw = no_weight_decay = ("table",)

    def make_parameters(self) -> None:
        """Create the table, drawn from a truncated normal with standard deviation 0.02."""
        self.table = nn.Parameter(torch.empty((2 * self.window - 1) ** 2, self.heads))
        nn.init.trunc_normal_(self.table, std=0.02)

    def steps(self, sides: Sides) -> Tensor:
        """Return the middle of the table, for windows smaller than `window`."""
        width = 2 * self.window - 1
        down, across = (slice(self.window - side, self.window - 1 + side) for side in sides)
        return self.table.view(width, width, self.heads)[down, across]

    def one(self, head: int, step: Sides) -> Tensor:
        """Look up the bias of one offset."""
        down, across = (each + self.window - 1 for each in step)
        return self.table[down * (2 * self.window - 1) + across, head]


class BiasNetwork(RelativeBias):
    """A network, 16 sigmoid(M(x)) of logarithmic offsets x (Swin v2, equation 4 and its code)."""

    keeps_own_draw = no_weight_decay = ("expand", "contract")

    def make_parameters(self) -> None:
        """Draw the maps as the authors draw all linear maps; biases then start near 8."""
        self.expand = nn.Linear(2, _HIDDEN)
        self.contract = nn.Linear(_HIDDEN, self.heads, bias=False)
        for linear in (self.expand, self.contract):
            nn.init.trunc_normal_(linear.weight, std=0.02)
        nn.init.zeros_(self.expand.bias)

    def steps(self, sides: Sides) -> Tensor:
        """Compute biases `[2 rows - 1, 2 columns - 1, heads]` by the network."""
        weight = self.expand.weight
        wide, scaled = torch.promote_types(weight.dtype, torch.float32), []
        for side in sides:
            places = torch.arange(1 - side, side, device=weight.device, dtype=wide)
            places = places * (8 / (self.window - 1))
            scaled.append(places.sign() * (1 + places.abs()).log2() / 3)
        steps = torch.stack(torch.meshgrid(*scaled, indexing="ij"), dim=-1).to(weight.dtype)
        found: Tensor = 16 * self.contract(self.expand(steps).relu()).sigmoid()
        return found

    def one(self, head: int, step: Sides) -> Tensor:
        """Compute the bias of one offset by formula."""
        relative = [8 * each / (self.window - 1) for each in step]
        scaled = [math.copysign(math.log(1 + abs(u)) / math.log(8), u) for u in relative]
        hidden = self.expand.weight @ self.expand.weight.new_tensor(scaled) + self.expand.bias
        return 16 * torch.sigmoid(self.contract.weight[head] @ hidden.relu())

    def flops(self, sides: Sides) -> float:
        """Return the FLOPs of the network for all offsets in a window."""
        num_weights = self.expand.weight.numel() + self.contract.weight.numel()
        return 2.0 * _num_steps(sides) * num_weights

    def forward_bytes(self, sides: Sides) -> float:
        """Return the bytes of the hidden layer, before and after the ReLU."""
        return 4.0 * _num_steps(sides) * 2 * _HIDDEN


def _num_steps(sides: Sides) -> int:
    """Return the number of offsets between two positions of a window."""
    return (2 * sides[0] - 1) * (2 * sides[1] - 1)
