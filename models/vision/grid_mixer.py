"""The base of mixers that work on a grid only: each token has a row and a column."""

from __future__ import annotations

from bakeoff.models.errors import ModelError
from bakeoff.models.mixer import Mixer


class GridMixer(Mixer):
    """A mixer with neighbours in two dimensions; a sequence without a grid is a single row."""

    def take_grid(self, grid: tuple[int, int], num_before: int) -> None:
        """Set the grid; raise if there are tokens before it, such as a class token."""
        if num_before:
            raise ModelError(
                f"{self.name} mixes a grid, and a class token has no place on it; "
                "give pooling='mean'"
            )
        self.grid = grid

    def grid_of(self, length: int) -> tuple[int, int]:
        """Return the rows and columns of `length` tokens.

        Raises:
            ModelError: `length` is not the number of tokens of the grid.
        """
        rows, columns = self.grid or (1, length)
        if rows * columns != length:
            raise ModelError(
                f"{self.name} takes the {rows} x {columns} tokens of its grid, not {length}"
            )
        return rows, columns
