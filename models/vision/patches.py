"""Conversion of an image to the sequence of its square patches."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from bakeoff.models.errors import ModelError
from bakeoff.models.model_spec import ModelSpec


def of_patches(spec: ModelSpec, patch: int) -> ModelSpec:
    """Return the spec of a model that reads patches, as vectors of pixels on a coarser grid.

    Raises:
        ModelError: The patches do not tile the image.
    """
    grid = spec.grid
    if grid is None or any(side % patch for side in grid):
        said = "no grid" if grid is None else f"{grid[0]} x {grid[1]} pixels"
        raise ModelError(f"{spec.architecture}: patch={patch} does not divide an image of {said}")
    return replace(
        spec,
        input_kind="vectors",
        input_size=patch**2 * spec.input_size,
        length=grid[0] * grid[1] // patch**2,
        grid=(grid[0] // patch, grid[1] // patch),
    )


def patches(image: Tensor, side: int) -> Tensor:
    """Cut `[batch, rows, columns, channels]` into `[batch, patches, side * side * channels]`.

    Patches are ordered row by row, and so are pixels within a patch, channels last.
    """
    batch, rows, columns, channels = image.shape
    down, across = rows // side, columns // side
    cut = image.reshape(batch, down, side, across, side, channels).transpose(2, 3)
    return cut.reshape(batch, down * across, side * side * channels)
