"""Draw scenes: some objects on a white canvas without overlap, and their spatial relations.

A scene has up to four objects of 16 x 16 pixels, the 2 x 2 means of those in the file, on 48 x 48.
They are placed one after the other, each at the first of 16 uniform draws that does not overlap an
earlier one. If there is none, or the scene does not satisfy the task's condition, all are placed
again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from bakeoff.suite.tasks.bases.images import scaled
from bakeoff.suite.tasks.data_order import RandomStream, Whole
from bakeoff.suite.tasks.emoji.atlas import SIDE, atlas

CANVAS, GLYPH = 48, 16  # side lengths in pixels
FEWEST, MOST = 2, 4  # objects
MARGIN = 3  # pixels by which a relation must hold
RELATIONS = ("left of", "right of", "above", "below")
LEFT, RIGHT, ABOVE, BELOW = range(len(RELATIONS))
NOTHING = -1  # marks the absence of an object or a relation
# Statistics over training scenes of `emoji_scenes`.
PIXEL_MEAN = (0.9499, 0.9434, 0.9210)
PIXEL_STANDARD_DEVIATION = (0.1486, 0.1638, 0.2230)
_NUM_SPOTS = 16  # positions tried for an object
_TRIES = 4  # simultaneous draws for each scene that is not found yet
_FIRST, _SECOND = np.triu_indices(MOST, 1)  # indices of each pair of objects
Truths = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class Scenes:
    """Some scenes.

    Attributes:
        objects: `[scenes, MOST]`, NOTHING after the last one.
        places: `[scenes, MOST, 2]`, top and left.
    """

    objects: Whole
    places: Whole

    def painted(self) -> NDArray[np.float32]:
        """Return the pictures `[scenes, CANVAS, CANVAS, 3]`, standardised for a model."""
        painted, canvas = glyphs(), np.repeat(empty_canvas(), len(self.objects), axis=0)
        for scene, number in np.argwhere(self.objects != NOTHING).tolist():  # faster than indices
            top, left = self.places[scene, number].tolist()
            glyph = painted[self.objects[scene, number]]
            canvas[scene, top : top + GLYPH, left : left + GLYPH] = glyph
        return canvas

    def boxes(self) -> Whole:
        """Return the box of each object, `[scenes, MOST, 4]`: top, left, bottom, right.

        All four are -1 if there is no object.
        """
        boxes = np.concatenate([self.places, self.places + GLYPH], axis=-1)
        return np.where((self.objects == NOTHING)[..., None], -1, boxes)


_STATISTICS = (PIXEL_MEAN, PIXEL_STANDARD_DEVIATION)


@cache
def empty_canvas() -> NDArray[np.float32]:
    """Return an all-white picture `[1, CANVAS, CANVAS, 3]`, standardised for a model."""
    return scaled(np.full((1, CANVAS, CANVAS, 3), 255, dtype=np.uint8), *_STATISTICS)


@cache
def glyphs() -> NDArray[np.float32]:
    """Return the objects `[objects, GLYPH, GLYPH, 3]`, standardised for a model."""
    times = SIDE // GLYPH
    squares = atlas().glyphs.reshape(-1, GLYPH, times, GLYPH, times, 3)
    return scaled(squares.mean(axis=(2, 4), dtype=np.float32), *_STATISTICS)


def draw_until(
    shape: tuple[int, ...],
    draw: Callable[[int], Whole],
    is_wanted: Callable[[Whole, Whole], Truths],
) -> Whole:
    """Return for each scene the first of its draws that is wanted.

    Args:
        shape: `[scenes, ...]`, the shape of the result.
        draw: A function that makes a given number of draws, `[draws, ...]`.
        is_wanted: A function of draws `[scenes, tries, ...]` and the scenes' indices that returns
            `[scenes, tries]` booleans.
    """
    left, found = np.arange(shape[0]), np.empty(shape, dtype=np.int64)
    while left.size:
        drawn = draw(left.size * _TRIES).reshape(left.size, _TRIES, *shape[1:])
        wanted = is_wanted(drawn, left)
        is_found, first = wanted.any(axis=1), wanted.argmax(axis=1)
        found[left[is_found]] = drawn[is_found, first[is_found]]
        left = left[~is_found]
    return found


def draw_places(
    stream: RandomStream,
    counts: Whole,
    is_wanted: Callable[[Whole, Whole], Truths],
    *,
    apart: int = 1,
) -> Whole:
    """Draw positions `[scenes, MOST, 2]`, top and left; only those of objects have a meaning.

    Args:
        stream: The stream to draw from.
        counts: `[scenes]`, the number of objects.
        is_wanted: A function of draws `[scenes, tries, MOST, 2]` and the scenes' indices `[scenes]`
            that returns `[scenes, tries]` booleans.
        apart: Pixels between possible rows or columns.
    """

    def suits(places: Whole, scenes: Whole) -> Truths:
        found: Truths = is_apart(places, counts[scenes]) & is_wanted(places, scenes)
        return found

    return draw_until((len(counts), MOST, 2), lambda draws: _placed(stream, draws, apart), suits)


def _placed(stream: RandomStream, draws: int, apart: int) -> Whole:
    """Draw `[draws, MOST, 2]`, each object without overlap if such a spot was drawn."""
    most = (CANVAS - GLYPH) // apart
    spots = stream.integers(MOST, draws, _NUM_SPOTS, 2, low=0, high=most + 1) * apart
    found = spots[:, :, 0].copy()
    for number in range(1, MOST):
        offsets = np.abs(spots[number] - found[:number, :, None])
        is_free = (offsets >= GLYPH).any(axis=-1).all(axis=0)
        found[number] = spots[number, np.arange(draws), is_free.argmax(axis=1)]
    return found.swapaxes(0, 1)


def is_apart(places: Whole, counts: Whole) -> Truths:
    """Return `[scenes, tries]`: True if no two objects overlap."""
    offsets = np.abs(places[..., _FIRST, :] - places[..., _SECOND, :])
    found: Truths = ((offsets >= GLYPH).any(axis=-1) | ~pairs_in(counts)[:, None]).all(axis=-1)
    return found


def pairs_in(counts: Whole) -> Truths:
    """Return `[scenes, pairs]`: True for the pairs that exist among `counts` objects."""
    found: Truths = counts[:, None] > _SECOND
    return found


def pairs_of(table: Whole, objects: Whole) -> Whole:
    """Return the entries of a table for each pair of the objects `[..., MOST]`, `[..., pairs]`."""
    found: Whole = table[objects[..., _FIRST], objects[..., _SECOND]]
    return found


def relations(offsets: Whole) -> Whole:
    """Return the relation of one object to another, `[...]`.

    It is left or right if the horizontal distance is larger than the vertical one, else above or
    below.

    Args:
        offsets: `[..., 2]`, the vertical and horizontal offset of the one from the other.
    """
    down, across = offsets[..., 0], offsets[..., 1]
    sideways = np.where(across < 0, LEFT, RIGHT)
    return np.where(np.abs(across) > np.abs(down), sideways, np.where(down < 0, ABOVE, BELOW))


def is_clear(offsets: Whole) -> Truths:
    """Return `[...]`: True if the two distances differ enough for an unambiguous relation."""
    down, across = np.moveaxis(np.abs(offsets), -1, 0)
    found: Truths = np.abs(down - across) >= MARGIN
    return found
