"""Mixers of a grid alone: each of their tokens has a row and a column."""

from __future__ import annotations

from models.errors import ModelError
from models.mixer import Mixer


class GridMixer(Mixer):
    """A mixer that knows neighbours in two directions; a sequence on no grid is a row."""

    def take_grid(self, grid: tuple[int, int], num_before: int) -> None:
        """See `Mixer.take_grid`."""
        if num_before:
            raise ModelError(
                f"{self.name} mixes a grid, and a class token has no place on it; "
                "give pooling='mean'"
            )
        self.grid = grid

    def grid_of(self, length: int) -> tuple[int, int]:
        """Rows and columns of so many tokens.

        Raises:
            ModelError: they do not fill the grid.
        """
        rows, columns = self.grid or (1, length)
        if rows * columns != length:
            raise ModelError(
                f"{self.name} takes the {rows} x {columns} tokens of its grid, not {length}"
            )
        return rows, columns
