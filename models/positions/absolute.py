"""Absolute positional encodings, which are combined with the embeddings.

Each encoding has a vector for every position, which is added to the token there or concatenated
with it. Encodings that act inside a mixer, between two tokens, are in
`bakeoff.models.positions.relative`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from bakeoff.models.errors import ModelError

Given = Literal["grid", "std"]


class Position(nn.Module, ABC):
    """An encoding of absolute positions, added to the tokens.

    Attributes:
        version: Number that increases with every change here that alters a result.
        takes: Arguments of the constructor in addition to `dim` and `max_length`: `grid`, the rows
            and columns of an image's patches, or None; `std`, the standard deviation of the normal
            distribution that initialises it.
    """

    version: ClassVar[int] = 1
    takes: ClassVar[tuple[Given, ...]] = ()

    def __init__(self, *, dim: int, max_length: int) -> None:
        super().__init__()
        self.dim = dim
        self.max_length = max_length

    @abstractmethod
    def vectors(self, length: int) -> Tensor | None:
        """Return the vectors of positions 0 to length - 1, `[length, dim]`, or None.

        Raises:
            ModelError: There are more than `max_length` positions.
        """

    def forward(self, x: Tensor) -> Tensor:
        """Add the vectors to `x` `[batch, time, dim]`."""
        vectors = self.vectors(x.shape[1])
        return x if vectors is None else x + vectors

    def at(self, x_t: Tensor, place: int) -> Tensor:
        """Add the vector of `place` to one token `[batch, dim]` of each sequence."""
        vectors = self.vectors(place + 1)
        return x_t if vectors is None else x_t + vectors[place]

    def resampled(self, name: str, table: Tensor) -> Tensor | None:
        """Convert a parameter that was learned on a coarser or a finer grid to this grid.

        Args:
            name: Name of the parameter.
            table: Its value in the same encoding on the other grid.

        Returns:
            The parameter on this grid, or None if it does not fit or the encoding has no grid.
        """
        return None

    def flops(self, length: int, batch: int = 1) -> float:
        """Return 0: the sums are elementwise."""
        return 0.0

    def check_length(self, length: int) -> None:
        """Raise `ModelError` for positions beyond the table."""
        if length > self.max_length:
            raise ModelError(
                f"{type(self).__name__} has positions for {self.max_length} tokens, not {length}"
            )


class NoPosition(Position):
    """No encoding: only the mixer can distinguish the order of tokens."""

    def vectors(self, length: int) -> None:
        """Return None."""
        return


class SinusoidalPosition(Position):
    """Fixed sine and cosine waves; section 3.5 of Vaswani et al. 2017 (arXiv:1706.03762).

    PE(pos, 2i) = sin(pos / 10000^(2i/dim)), PE(pos, 2i+1) = cos(pos / 10000^(2i/dim)), so that
    PE(pos + k) is a rotation of PE(pos) that depends on k alone. It has no parameters.
    """

    def __init__(self, *, dim: int, max_length: int) -> None:
        super().__init__(dim=dim, max_length=max_length)
        table = sinusoids(max_length, dim).to(torch.get_default_dtype())
        self.register_buffer("table", table, persistent=False)

    def vectors(self, length: int) -> Tensor:
        """Return the first `length` rows of the table."""
        self.check_length(length)
        return self.get_buffer("table")[:length]


class LearnedPosition(Position):
    """A learned vector for each position, drawn from normal(0, 1), the scale of the tokens.

    Section 3.5 of Vaswani et al. 2017, after Gehring et al. 2017 (arXiv:1705.03122). BERT draws
    both positions and tokens from normal(0, 0.02); here tokens have unit variance, and positions of
    a fiftieth of their size had no effect for hundreds of steps. For an image, vectors learned at
    another resolution are interpolated over the grid of its patches (ViT, arXiv:2010.11929,
    section 3.2), bicubically as in DeiT (arXiv:2012.12877, section 5).

    Args:
        dim: Width of a token.
        max_length: Maximum number of tokens, including those before the grid.
        grid: Rows and columns of the tokens that come last, or None if they have no grid.
        std: Standard deviation of the initial vectors.
    """

    version = 2
    takes = ("grid", "std")

    def __init__(
        self, *, dim: int, max_length: int, grid: tuple[int, int] | None = None, std: float = 1.0
    ) -> None:
        super().__init__(dim=dim, max_length=max_length)
        self.grid = grid
        self.table = nn.Parameter(torch.empty(max_length, dim))
        nn.init.normal_(self.table, std=std)

    def resampled(self, name: str, table: Tensor) -> Tensor | None:
        """Interpolate the vectors of another grid with the same ratio of rows to columns.

        Vectors before the grid, such as that of a class token, are not changed.
        """
        if self.grid is None or table.shape[1:] != self.table.shape[1:]:
            return None
        num_before = self.max_length - math.prod(self.grid)
        before, on_grid = table[:num_before], table[num_before:]
        old_grid = grid_in_ratio(len(on_grid), self.grid)
        if old_grid is None:
            return None
        moved = interpolated(on_grid.reshape(*old_grid, self.dim), self.grid, "bicubic")
        return torch.cat([before, moved.flatten(0, 1)])

    def vectors(self, length: int) -> Tensor:
        """Return the first `length` rows of the table."""
        self.check_length(length)
        return self.table[:length]


class GridPosition(Position):
    """An encoding of rows in one half of each vector, and of columns in the other half.

    The 2-D positional embedding of Dosovitskiy et al. 2020 (arXiv:2010.11929, appendix D.4). Tokens
    before the grid, such as a class token, have no position on it; their vectors are zero. A
    sequence without a grid is one row.

    Args:
        dim: Width of a token; if it is odd, the column has the larger half.
        max_length: Maximum number of tokens, including those before the grid.
        grid: Rows and columns.
    """

    takes: ClassVar[tuple[Given, ...]] = ("grid",)

    def __init__(self, *, dim: int, max_length: int, grid: tuple[int, int] | None = None) -> None:
        super().__init__(dim=dim, max_length=max_length)
        self.grid = grid
        self.rows, self.columns = grid or (1, max_length)
        self.num_before = max_length - self.rows * self.columns
        self.widths = dim // 2, dim - dim // 2

    @abstractmethod
    def tables(self) -> tuple[Tensor, Tensor]:
        """Return the vectors of rows, `[rows, dim // 2]`, and of columns, `[columns, the rest]`."""

    def vectors(self, length: int) -> Tensor:
        """Return the vectors of the first `length` tokens, with zeros before the grid."""
        self.check_length(length)
        of_rows, of_columns = self.tables()
        down = of_rows.unsqueeze(1).expand(-1, self.columns, -1)
        across = of_columns.unsqueeze(0).expand(self.rows, -1, -1)
        on_grid = torch.cat([down, across], dim=2).flatten(0, 1)
        before = on_grid.new_zeros(self.num_before, self.dim)
        return torch.cat([before, on_grid])[:length]


class SinusoidalGridPosition(GridPosition):
    """Fixed waves along rows and columns, like `SinusoidalPosition` at half the width."""

    def __init__(self, **sizes: Any) -> None:
        super().__init__(**sizes)
        of_row, of_column = self.widths
        halves = {"row_table": (self.rows, of_row), "column_table": (self.columns, of_column)}
        for name, (places, width) in halves.items():
            table = sinusoids(places, width).to(torch.get_default_dtype())
            self.register_buffer(name, table, persistent=False)

    def tables(self) -> tuple[Tensor, Tensor]:
        """Return the fixed tables of rows and of columns."""
        return self.get_buffer("row_table"), self.get_buffer("column_table")


class LearnedGridPosition(GridPosition):
    """A learned vector for each row and each column, drawn as in `LearnedPosition`.

    Vectors learned at another resolution are interpolated linearly, along each axis separately.
    """

    takes = ("grid", "std")

    def __init__(self, *, std: float = 1.0, **sizes: Any) -> None:
        super().__init__(**sizes)
        of_row, of_column = self.widths
        self.row_table = nn.Parameter(torch.empty(self.rows, of_row))
        self.column_table = nn.Parameter(torch.empty(self.columns, of_column))
        nn.init.normal_(self.row_table, std=std)
        nn.init.normal_(self.column_table, std=std)

    def tables(self) -> tuple[Tensor, Tensor]:
        """Return the learned tables of rows and of columns."""
        return self.row_table, self.column_table

    def resampled(self, name: str, table: Tensor) -> Tensor | None:
        """Interpolate the table of rows or of columns of another grid."""
        own = self.get_parameter(name)
        if self.grid is None or table.shape[1:] != own.shape[1:]:
            return None
        return interpolated(table.unsqueeze(0), (1, len(own)), "bilinear").squeeze(0)


def grid_in_ratio(count: int, grid: tuple[int, int]) -> tuple[int, int] | None:
    """Return the rows and columns of `count` positions in the ratio of `grid`, if they exist."""
    largest = math.gcd(*grid)
    rows, columns = (side // largest for side in grid)  # the smallest grid in that ratio
    times = math.isqrt(count // (rows * columns))
    is_whole = times > 0 and times**2 * rows * columns == count
    return (times * rows, times * columns) if is_whole else None


def interpolated(
    table: Tensor, grid: tuple[int, int], mode: Literal["bicubic", "bilinear"]
) -> Tensor:
    """Return the vectors `[rows, columns, dim]` on another grid of the same square, `[*grid, dim]`.

    Antialiasing is on, as in timm: if `grid` is coarser, each new vector is a weighted mean of all
    old ones around it; if it is finer, torch uses the cubic kernel with a = -1/2 (Keys 1981), which
    keeps a table linear if it is linear in row and column. DeiT's code has no antialiasing, which
    gives a = -3/4. Positions beyond the edge are left out, and the other weights sum to 1.
    """
    if grid[1] == 1 < grid[0]:  # torch 2.13 would repeat the first row; transpose
        return interpolated(table.transpose(0, 1), (1, grid[0]), mode).transpose(0, 1)
    channels_first = table.permute(2, 0, 1).unsqueeze(0)
    moved = functional.interpolate(channels_first, size=grid, mode=mode, antialias=True)
    return moved[0].permute(1, 2, 0)


def sinusoids(length: int, dim: int) -> Tensor:
    """Return the table of PE(pos, i), `[length, dim]` in float64."""
    position = torch.arange(length, dtype=torch.float64).unsqueeze(1)
    even = torch.arange(0, dim, 2, dtype=torch.float64)  # 2i
    angles = position / 10000 ** (even / dim)  # (length, dim / 2 rounded up)
    return torch.stack([angles.sin(), angles.cos()], dim=2).flatten(1)[:, :dim]
