"""Absolute positional encodings, which are joined to the embeddings.

Each has a vector for every place; it is added to the token there, or concatenated with it. What
acts inside a mixer, between two tokens, is none of these: see `models.positions.relative`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from models.errors import ModelError

Given = Literal["grid", "std"]


class Position(nn.Module, ABC):
    """An encoding of absolute positions, added to the tokens.

    Attributes:
        version: Goes up whenever a change here moves a number.
        takes: What it is built from besides `dim` and `max_length`: `grid`, the rows and columns of
            an image's patches, or None; `std`, of the normal distribution that it draws from.
    """

    version: ClassVar[int] = 1
    takes: ClassVar[tuple[Given, ...]] = ()

    def __init__(self, *, dim: int, max_length: int) -> None:
        super().__init__()
        self.dim = dim
        self.max_length = max_length

    @abstractmethod
    def vectors(self, length: int) -> Tensor | None:
        """Of the places 0 to length - 1, `[length, dim]`; None where there are none.

        Raises:
            ModelError: more than `max_length` places.
        """

    def forward(self, x: Tensor) -> Tensor:
        """`x` `[batch, time, dim]` with the vectors added."""
        vectors = self.vectors(x.shape[1])
        return x if vectors is None else x + vectors

    def at(self, x_t: Tensor, place: int) -> Tensor:
        """One token `[batch, dim]` of each sequence, with the vector of its place added."""
        vectors = self.vectors(place + 1)
        return x_t if vectors is None else x_t + vectors[place]

    def resampled(self, name: str, table: Tensor) -> Tensor | None:
        """What a parameter would be here that was learned on a coarser or a finer grid.

        Args:
            name: Of the parameter.
            table: As the same position has it on the other grid.

        Returns:
            It on this grid; None where it does not fit, and always where there is no grid.
        """
        return None

    def flops(self, length: int, batch: int = 1) -> float:
        """Sums are elementwise."""
        return 0.0

    def check_length(self, length: int) -> None:
        """Refuse positions beyond the table."""
        if length > self.max_length:
            raise ModelError(
                f"{type(self).__name__} has positions for {self.max_length} tokens, not {length}"
            )


class NoPosition(Position):
    """Adds nothing: only the mixer can tell orders apart."""

    def vectors(self, length: int) -> None:
        """None."""
        return


class SinusoidalPosition(Position):
    """Fixed waves; section 3.5 of Vaswani et al. 2017 (arXiv:1706.03762).

    PE(pos, 2i) = sin(pos / 10000^(2i/dim)), PE(pos, 2i+1) = cos(pos / 10000^(2i/dim)), so that
    PE(pos + k) is a rotation of PE(pos) that depends on k alone. No parameters.
    """

    def __init__(self, *, dim: int, max_length: int) -> None:
        super().__init__(dim=dim, max_length=max_length)
        table = sinusoids(max_length, dim).to(torch.get_default_dtype())
        self.register_buffer("table", table, persistent=False)

    def vectors(self, length: int) -> Tensor:
        """See `Position.vectors`."""
        self.check_length(length)
        return self.get_buffer("table")[:length]


class LearnedPosition(Position):
    """A learned vector per position, drawn from normal(0, 1): at the size of the tokens.

    Section 3.5 of Vaswani et al. 2017, after Gehring et al. 2017 (arXiv:1705.03122). BERT draws
    places and tokens alike, both from normal(0, 0.02); here tokens enter with unit variance, and
    places a fiftieth of that went unnoticed for hundreds of steps. Of an image, vectors learned at
    another resolution are interpolated over the grid of its patches (ViT, arXiv:2010.11929,
    section 3.2), bicubically as in DeiT (arXiv:2012.12877, section 5).

    Args:
        dim: Width of a token.
        max_length: Tokens, those before the grid included.
        grid: Rows and columns of the tokens that come last; None where they have none.
        std: Standard deviation, where it is not 1.
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
        """See `Position.resampled`; the other grid has the ratio of rows to columns of this one.

        Vectors before the grid, as a class token's, stay what they are.
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
        """See `Position.vectors`."""
        self.check_length(length)
        return self.table[:length]


class GridPosition(Position):
    """Half of a vector says the row of a token, the other half its column.

    The 2-D positional embedding of Dosovitskiy et al. 2020 (arXiv:2010.11929, appendix D.4). What
    stands before the grid, as a class token, has no place on it: zeros. Of a sequence on no grid
    all tokens stand in one row.

    Args:
        dim: Width of a token; of an odd one the column has the larger half.
        max_length: Tokens, those before the grid included.
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
        """Of rows and of columns, `[rows, dim // 2]` and `[columns, the rest]`."""

    def vectors(self, length: int) -> Tensor:
        """See `Position.vectors`."""
        self.check_length(length)
        of_rows, of_columns = self.tables()
        down = of_rows.unsqueeze(1).expand(-1, self.columns, -1)
        across = of_columns.unsqueeze(0).expand(self.rows, -1, -1)
        on_grid = torch.cat([down, across], dim=2).flatten(0, 1)
        before = on_grid.new_zeros(self.num_before, self.dim)
        return torch.cat([before, on_grid])[:length]


class SinusoidalGridPosition(GridPosition):
    """Fixed waves along rows and along columns, those of `SinusoidalPosition` at half the width."""

    def __init__(self, **sizes: Any) -> None:
        super().__init__(**sizes)
        of_row, of_column = self.widths
        halves = {"row_table": (self.rows, of_row), "column_table": (self.columns, of_column)}
        for name, (places, width) in halves.items():
            table = sinusoids(places, width).to(torch.get_default_dtype())
            self.register_buffer(name, table, persistent=False)

    def tables(self) -> tuple[Tensor, Tensor]:
        """See `GridPosition.tables`."""
        return self.get_buffer("row_table"), self.get_buffer("column_table")


class LearnedGridPosition(GridPosition):
    """A learned vector for each row and each column, drawn as those of `LearnedPosition`.

    Those learned at another resolution are interpolated linearly, along either axis for itself.
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
        """See `GridPosition.tables`."""
        return self.row_table, self.column_table

    def resampled(self, name: str, table: Tensor) -> Tensor | None:
        """See `Position.resampled`."""
        own = self.get_parameter(name)
        if self.grid is None or table.shape[1:] != own.shape[1:]:
            return None
        return interpolated(table.unsqueeze(0), (1, len(own)), "bilinear").squeeze(0)


def grid_in_ratio(count: int, grid: tuple[int, int]) -> tuple[int, int] | None:
    """Rows and columns of `count` places, in the ratio of `grid`; None where there are no such."""
    largest = math.gcd(*grid)
    rows, columns = (side // largest for side in grid)  # of the smallest grid in that ratio
    times = math.isqrt(count // (rows * columns))
    is_whole = times > 0 and times**2 * rows * columns == count
    return (times * rows, times * columns) if is_whole else None


def interpolated(
    table: Tensor, grid: tuple[int, int], mode: Literal["bicubic", "bilinear"]
) -> Tensor:
    """Vectors `[rows, columns, dim]` on another grid, `[*grid, dim]`; both cover the same square.

    With antialiasing, as in timm: where `grid` is coarser, each new vector has a share of all old
    ones around it, and where it is finer, torch then takes the cubic of a = -1/2 (Keys 1981), the
    one that keeps a table linear in row and column linear. Without, as in DeiT's code, it takes
    a = -3/4. Beyond the edge lies nothing: the weights of what there is sum to 1.
    """
    if grid[1] == 1 < grid[0]:  # of torch 2.13 all rows are then the first one: turn it
        return interpolated(table.transpose(0, 1), (1, grid[0]), mode).transpose(0, 1)
    channels_first = table.permute(2, 0, 1).unsqueeze(0)
    moved = functional.interpolate(channels_first, size=grid, mode=mode, antialias=True)
    return moved[0].permute(1, 2, 0)


def sinusoids(length: int, dim: int) -> Tensor:
    """The table of PE(pos, i), `[length, dim]` in float64."""
    position = torch.arange(length, dtype=torch.float64).unsqueeze(1)
    even = torch.arange(0, dim, 2, dtype=torch.float64)  # 2i
    angles = position / 10000 ** (even / dim)  # (length, dim / 2 rounded up)
    return torch.stack([angles.sin(), angles.cos()], dim=2).flatten(1)[:, :dim]
