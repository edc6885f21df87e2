"""Read a scene from its pixels, and judge by it whether a picture shows the right scene.

The reading follows a rule, without a model: objects are at positions that are `APART` pixels apart,
on white. The object and position are taken whose pixels explain most of the deviation from white,
that is, whose squared distance to the picture is smaller than that of a white square there by the
largest margin; then the next ones that do not overlap an earlier one, up to four in all, as long as
they explain more than white does. Every scene of `bakeoff.suite.tasks.emoji.emoji_pictures` is
read exactly as it was drawn, and so is one with a little noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from bakeoff.suite.tasks.batch import Batch
from bakeoff.suite.tasks.emoji.emoji_scenes import captions
from bakeoff.suite.tasks.emoji.picture_metrics import scored_rows
from bakeoff.suite.tasks.emoji.scenes import (
    CANVAS,
    GLYPH,
    MOST,
    NOTHING,
    Scenes,
    empty_canvas,
    glyphs,
)
from bakeoff.suite.tasks.metrics import PictureMetric, as_sums

APART = 8  # pixels between possible rows or columns of objects


@dataclass(frozen=True, kw_only=True)
class PicturesRight(PictureMetric):
    """The share of pictures whose caption, read from their pixels, is that of the target.

    All objects must be present and no others, in their order from left to right, and neighbours
    must have the right relation; their exact positions do not matter.
    """

    name: str = "pictures_right"
    unit: str = "1"
    better: Literal["higher", "lower", "none"] = "higher"

    def sums_of(self, pictures: Tensor, batch: Batch) -> Tensor:
        """Return the numbers of right pictures and of pictures."""
        found, asked = (captions(each)[0] for each in _read(pictures, batch))
        return _as_counts(pictures, (found == asked).all(axis=1).astype(float))


@dataclass(frozen=True, kw_only=True)
class ObjectsDrawn(PictureMetric):
    """The share of the target's objects that are in the picture, as a mean over pictures."""

    name: str = "objects_drawn"
    unit: str = "1"
    better: Literal["higher", "lower", "none"] = "higher"

    def sums_of(self, pictures: Tensor, batch: Batch) -> Tensor:
        """Return the sum of the shares and the number of pictures."""
        found, asked = (each.objects for each in _read(pictures, batch))
        is_there = (asked[:, :, None] == found[:, None]).any(axis=-1) & (asked != NOTHING)
        return _as_counts(pictures, is_there.sum(axis=1) / (asked != NOTHING).sum(axis=1))


def _read(pictures: Tensor, batch: Batch) -> tuple[Scenes, Scenes]:
    """Return the scenes in the pictures and in the targets, for the scored rows."""
    rows = scored_rows(batch)
    return read_scenes(pictures[rows]), read_scenes(batch.targets[rows])


def _as_counts(pictures: Tensor, values: np.ndarray) -> Tensor:
    is_nan = bool(pictures.isnan().any())
    return as_sums(float("nan") if is_nan else float(values.sum()), len(values))


class _Known(NamedTuple):
    """The patterns with which pixels are compared.

    Attributes:
        objects: `[objects, pixels]`, each minus a white square.
        middles: `[objects]`: the projection half way between white and the object.
        places: `[places, 2]`, top and left.
        is_near: `[places, places]`: True if objects at both positions would overlap.
    """

    objects: Tensor
    middles: Tensor
    places: Tensor
    is_near: Tensor


@cache
def _known() -> _Known:
    white = torch.from_numpy(empty_canvas())[0, :GLYPH, :GLYPH].flatten()
    painted = torch.from_numpy(glyphs()).flatten(1)
    steps = torch.arange(0, CANVAS - GLYPH + 1, APART)
    places = torch.cartesian_prod(steps, steps)
    is_near = ((places[:, None] - places).abs() < GLYPH).all(dim=-1)
    middles = (painted.square().sum(dim=1) - white.square().sum()) / 2
    return _Known(painted - white, middles, places, is_near)


def read_scenes(pictures: Tensor) -> Scenes:
    """Return the scenes in pictures `[pictures, CANVAS, CANVAS, 3]`, objects from left to right.

    An object explains more than white if the picture's product with (object - white) is above the
    middle between both; it explains twice the difference.
    """
    known = _known()
    squares = pictures.detach().cpu().float().unfold(1, GLYPH, APART).unfold(2, GLYPH, APART)
    rows = squares.movedim(3, -1).reshape(len(pictures), len(known.places), -1)
    explained = rows @ known.objects.T - known.middles
    found = torch.full((len(pictures), MOST), NOTHING)
    places = torch.zeros(len(pictures), MOST, 2, dtype=torch.int64)
    for number in range(MOST):
        best, where = explained.flatten(1).max(dim=1)
        place, name = where // len(known.objects), where % len(known.objects)
        is_there = best > 0
        found[:, number] = torch.where(is_there, name, NOTHING)
        places[:, number] = known.places[place]
        explained = explained.masked_fill(known.is_near[place][:, :, None], -torch.inf)
    return _from_left(found.numpy(), places.numpy())


def _from_left(objects: np.ndarray, places: np.ndarray) -> Scenes:
    order = np.where(objects == NOTHING, CANVAS, places[..., 1]).argsort(axis=1, kind="stable")
    return Scenes(
        objects=np.take_along_axis(objects, order, axis=1),
        places=np.take_along_axis(places, order[..., None], axis=1),
    )
