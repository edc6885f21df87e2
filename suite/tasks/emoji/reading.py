"""Read a scene off its pixels, and judge by that whether a picture shows what it should.

By rule, without a model: objects stand at places that are `APART` pixels apart, on white. Of all
objects and places the one is taken whose pixels explain most of what is not white: whose squared
distance to the picture is smaller by most than that of a white square there; then the next one that
covers no earlier one, up to four, as long as they explain more than white does. Every scene of
`suite.tasks.emoji.emoji_pictures` is read as it was drawn; so is one with a little noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from suite.tasks.batch import Batch
from suite.tasks.emoji.emoji_scenes import captions
from suite.tasks.emoji.picture_metrics import scored_rows
from suite.tasks.emoji.scenes import CANVAS, GLYPH, MOST, NOTHING, Scenes, empty_canvas, glyphs
from suite.tasks.metrics import PictureMetric, as_sums

APART = 8  # pixels between possible rows or columns of objects


@dataclass(frozen=True, kw_only=True)
class PicturesRight(PictureMetric):
    """The share of pictures of which the caption, read off their pixels, is the one of the target.

    So all objects must be there, none besides, in their order from left to right, and neighbours
    must lie to each other as they should; where exactly they stand is free.
    """

    name: str = "pictures_right"
    unit: str = "1"
    better: Literal["higher", "lower", "none"] = "higher"

    def sums_of(self, pictures: Tensor, batch: Batch) -> Tensor:
        """Right pictures, and pictures."""
        found, asked = (captions(each)[0] for each in _read(pictures, batch))
        return _as_counts(pictures, (found == asked).all(axis=1).astype(float))


@dataclass(frozen=True, kw_only=True)
class ObjectsDrawn(PictureMetric):
    """The share of the target's objects that are in the picture; the mean over pictures."""

    name: str = "objects_drawn"
    unit: str = "1"
    better: Literal["higher", "lower", "none"] = "higher"

    def sums_of(self, pictures: Tensor, batch: Batch) -> Tensor:
        """Shares, and pictures."""
        found, asked = (each.objects for each in _read(pictures, batch))
        is_there = (asked[:, :, None] == found[:, None]).any(axis=-1) & (asked != NOTHING)
        return _as_counts(pictures, is_there.sum(axis=1) / (asked != NOTHING).sum(axis=1))


def _read(pictures: Tensor, batch: Batch) -> tuple[Scenes, Scenes]:
    """What is in the pictures and in the targets, of those that are scored."""
    rows = scored_rows(batch)
    return read_scenes(pictures[rows]), read_scenes(batch.targets[rows])


def _as_counts(pictures: Tensor, values: np.ndarray) -> Tensor:
    is_nan = bool(pictures.isnan().any())
    return as_sums(float("nan") if is_nan else float(values.sum()), len(values))


class _Known(NamedTuple):
    """What pixels are held against.

    Attributes:
        objects: `[objects, pixels]`, each less a white square.
        middles: `[objects]`: how bright a square must be in that direction to be half way there.
        places: `[places, 2]`, top and left.
        is_near: `[places, places]`: whether objects there would share a pixel.
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
    """What is in pictures `[pictures, CANVAS, CANVAS, 3]`, objects from left to right.

    An object explains more than white where the picture's product with (object - white) is above
    the middle between both; twice the difference is what it explains.
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
