"""Draw separate dashed contours, and choose the ends to mark, for `pathfinder`.

Contours are drawn individually first, a library of them once per process (`library`). A picture is
made of these, turned or mirrored and moved so that they keep their distance from each other;
contours that do not fit are tried again. Positions are (row, column) in half dashes, angles are in
radians.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from bakeoff.suite.tasks.data_order import RandomStream, Whole

Reals = NDArray[np.float64]
Flags = NDArray[np.bool_]

PADDLE_LENGTH = 2.0
MARGIN = 0.5  # half of the gap between two paddles along the contour
PADDING = 1.0  # distance from the picture's edge
# Distance between paddles that are not neighbours, up to the size of a cell; always over 1, the
# largest distance between neighbours.
CLEARANCE = 1.75
MARKERS_APART = 4.0  # smallest distance between the markers
TOLERANCE = 1.0  # largest difference of the markers' distances between the two labels
NUM_CONTOURS = 1_024  # number of contours in the library
LIBRARY_SEED = 2**64 - 2  # seed of the library's stream
_TURNS, _TRIALS, _TRIALS_OF_DISTRACTORS = 8, 48, 16
_CELLS = 2  # cells of a map per half dash
_ALONG = np.array([0.0, 0.5, 1.0])  # points of a paddle that are checked for their distance
# The two ends of one contour, then an end of the other that could replace the second one.
_CHOICES = np.array([[0, 1, 3], [1, 0, 2], [1, 0, 3], [2, 3, 1], [3, 2, 0], [3, 2, 1]])
# Turns are drawn with a density of cos**2 between -90 and 90 degrees (continuity 1).
_TURN = np.linspace(-np.pi / 2, np.pi / 2, 257)
_SHARE = (_TURN + np.sin(2 * _TURN) / 2) / np.pi + 0.5


@dataclass(frozen=True, kw_only=True)
class Layout:
    """The components of a picture.

    Attributes:
        side: The side of the picture in pixels.
        contour: The number of dashes of each of the two long contours.
        distractor: The number of dashes of each short contour.
        num_distractors: The number of short contours that are tried.
        half_dash: Half the length of a dash in pixels, the unit of all positions.
        thickness: The thickness of a dash in pixels.
        contrast: The contrast of a dash; 1 is white.
        marker_radius: The radius of a marker in pixels.
    """

    side: int
    contour: int
    distractor: int
    num_distractors: int
    half_dash: float = 1.0
    thickness: float = 0.5
    contrast: float = 0.75
    marker_radius: float = 1.5

    @property
    def extent(self) -> float:
        """The side in half dashes."""
        return self.side / self.half_dash


@dataclass(frozen=True, kw_only=True)
class PathDrawing:
    """The lines of some pictures, and the ends to mark, in half dashes.

    Attributes:
        paddles: `[pictures, paddles, 2, 2]`, both ends of each: the first contour, the second, the
            distractors; NaN for distractors that did not fit.
        ends: `[pictures, 3, 2]`: both ends of one of the contours, and an end of the other that is
            about as far from the first as the second is.
    """

    paddles: Reals
    ends: Reals

    def __getitem__(self, chosen: slice | Whole) -> PathDrawing:
        return PathDrawing(paddles=self.paddles[chosen], ends=self.ends[chosen])


def draw_contours(stream: RandomStream, count: int, layout: Layout) -> PathDrawing:
    """Draw up to `count` pictures, those that succeed: two contours, then the distractors."""
    room = _FreePlaces(count, layout.extent)
    first = _placed(stream, layout, layout.contour, count)
    room.take(first, np.arange(count))
    second, ends, fitting = _second(stream, layout, room, first)
    room = room.only(fitting)
    room.take(second, np.arange(len(second)))
    shorts = [_distractor(stream, layout, room) for _ in range(layout.num_distractors)]
    return PathDrawing(paddles=np.concatenate([first[fitting], second, *shorts], axis=1), ends=ends)


class _FreePlaces:
    """A map of the positions in each picture where no further paddle may lie."""

    def __init__(self, count: int, side: float) -> None:
        self.side, self.across = side, math.ceil(_CELLS * side)
        self.is_taken: Flags = np.zeros((count, self.across * self.across), dtype=np.bool_)
        reach = int(CLEARANCE * _CELLS)
        near = np.mgrid[-reach : reach + 1, -reach : reach + 1].reshape(2, -1).T
        self.disc = near[(near**2).sum(axis=1) <= (CLEARANCE * _CELLS) ** 2].astype(np.int32)

    def only(self, chosen: Whole) -> _FreePlaces:
        """Return the map of the chosen pictures."""
        room = _FreePlaces(0, self.side)
        room.is_taken = self.is_taken[chosen]
        return room

    def is_free(self, paddles: Reals, chosen: Whole) -> Flags:
        """Return `[chosen, trials]`: True if all paddles are at free positions inside the picture.

        Args:
            paddles: `[chosen, trials, paddles, 2, 2]`.
            chosen: `[chosen]`, indices of pictures.
        """
        points = _points(paddles)
        is_inside = (points >= PADDING) & (points <= self.side - PADDING)
        cells = (np.clip(points, 0, self.side - 0.01) * _CELLS).astype(np.int32)
        is_taken = self.is_taken[
            chosen.reshape(-1, *[1] * (cells.ndim - 2)), cells[..., 0] * self.across + cells[..., 1]
        ]
        free: Flags = (is_inside.all(axis=-1) & ~is_taken).all(axis=(2, 3))
        return free

    def take(self, paddles: Reals, chosen: Whole) -> None:
        """Mark the surroundings of paddles `[chosen, paddles, 2, 2]` as taken."""
        cells = (_points(paddles) * _CELLS).astype(np.int32)
        near = np.clip(cells[..., None, :] + self.disc, 0, self.across - 1)
        self.is_taken[chosen.reshape(-1, 1, 1, 1), near[..., 0] * self.across + near[..., 1]] = True


@lru_cache(maxsize=8)
def library(num_paddles: int, side: float) -> Reals:
    """Return contours that avoid themselves and the edge, `[contours, paddles, 2, 2]`."""
    stream, found, total = RandomStream(LIBRARY_SEED, int(64 * side) + num_paddles), [], 0
    while total < NUM_CONTOURS:
        found.append(_grown(stream, 2_048, num_paddles, side))
        total += len(found[-1])
    contours = np.concatenate(found)[:NUM_CONTOURS]
    contours.setflags(write=False)
    return contours


def _grown(stream: RandomStream, count: int, num_paddles: int, side: float) -> Reals:
    """Grow `count` contours simultaneously, paddle by paddle, and return those that succeed."""
    room = _FreePlaces(count, side)
    paddles = np.zeros((count, num_paddles, 2, 2))
    pivot = PADDING + stream.uniform(count, 2) * (side - 2 * PADDING)
    angle, alive = np.zeros(count), np.arange(count)
    for index in range(num_paddles):
        drawn = stream.uniform(len(alive), _TURNS)
        turns = np.interp(drawn, _SHARE, _TURN) if index else 2 * np.pi * drawn
        angles = angle[alive, None] + turns
        tails = pivot[alive, None] + (MARGIN if index else 0.0) * _unit(angles)
        tried = np.stack([tails, tails + PADDLE_LENGTH * _unit(angles)], axis=2)
        is_free = room.is_free(tried[:, :, None], alive)
        best, is_there = is_free.argmax(axis=1), is_free.any(axis=1)  # take the first that is free
        alive, best = alive[is_there], best[is_there]
        rows = np.flatnonzero(is_there)
        paddles[alive, index], angle[alive] = tried[rows, best], angles[rows, best]
        pivot[alive] = paddles[alive, index, 1] + MARGIN * _unit(angle[alive])
        if index:  # not the last paddle, because the next one follows it closely
            room.take(paddles[alive, index - 1 : index], alive)
    return paddles[alive]


def _placed(stream: RandomStream, layout: Layout, num_paddles: int, *shape: int) -> Reals:
    """Return library contours at random positions in the picture, `[*shape, paddles, 2, 2]`."""
    contours = _turned(stream, layout, num_paddles, *shape)
    least, most = contours.min(axis=(-3, -2)), contours.max(axis=(-3, -2))
    room = layout.extent - 2 * PADDING - (most - least)
    shift = PADDING - least + room * stream.uniform(*shape, 2)
    placed: Reals = contours + shift[..., None, None, :]
    return placed


def _turned(stream: RandomStream, layout: Layout, num_paddles: int, *shape: int) -> Reals:
    """Return library contours in one of eight orientations each, `[*shape, paddles, 2, 2]`."""
    contours = library(num_paddles, layout.extent)
    found = contours[stream.integers(*shape, low=0, high=len(contours))] - layout.extent / 2
    kind = stream.integers(*shape, low=0, high=8)[..., None, None, None]
    found = np.where(kind & 1, found[..., ::-1], found)
    signs = np.concatenate([1 - (kind & 2), 1 - ((kind & 4) >> 1)], axis=-1)
    positions: Reals = found * signs
    return positions


def _second(
    stream: RandomStream, layout: Layout, room: _FreePlaces, first: Reals
) -> tuple[Reals, Reals, Whole]:
    """Return a second contour where one fits, the ends to mark, and the indices of the pictures."""
    count = len(first)
    tried = _placed(stream, layout, layout.contour, count, _TRIALS)
    ends, is_fair = _choose_ends(stream, np.broadcast_to(first[:, None], tried.shape), tried)
    fits = room.is_free(tried, np.arange(count)) & is_fair
    fitting, best = np.flatnonzero(fits.any(axis=1)), fits.argmax(axis=1)
    return tried[fitting, best[fitting]], ends[fitting, best[fitting]], fitting


def _choose_ends(stream: RandomStream, first: Reals, second: Reals) -> tuple[Reals, Flags]:
    """Choose ends `[..., 3, 2]` whose distances do not reveal the label, if there are any."""
    tips = [each[..., place, place, :] for each in (first, second) for place in (0, -1)]
    choices = np.stack(tips, axis=-2)[..., _CHOICES, :]  # (..., choice, end, coordinate)
    away = np.linalg.norm(choices[..., 1:, :] - choices[..., :1, :], axis=-1)
    is_fair = np.abs(away[..., 0] - away[..., 1]) <= TOLERANCE
    is_fair &= away.min(axis=-1) >= MARKERS_APART
    rank = np.where(is_fair, stream.uniform(*is_fair.shape), -1.0).argmax(axis=-1)
    chosen = np.take_along_axis(choices, rank[..., None, None, None], axis=-3)
    return chosen[..., 0, :, :], is_fair.any(axis=-1)


def _distractor(stream: RandomStream, layout: Layout, room: _FreePlaces) -> Reals:
    """Return a distractor for each picture, `[pictures, paddles, 2, 2]`; NaN if no trial fits."""
    count = len(room.is_taken)
    tried = _placed(stream, layout, layout.distractor, count, _TRIALS_OF_DISTRACTORS)
    fits = room.is_free(tried, np.arange(count))
    found: Reals = tried[np.arange(count), fits.argmax(axis=1)]
    fitting = np.flatnonzero(fits.any(axis=1))
    room.take(found[fitting], fitting)
    found[~fits.any(axis=1)] = np.nan
    return found


def _unit(angle: Reals) -> Reals:
    """Return a step of half a dash in that direction, `[..., 2]`."""
    return np.stack([np.sin(angle), np.cos(angle)], axis=-1)


def _points(paddles: Reals) -> Reals:
    """Return points along a paddle: `[..., 2, 2]` to `[..., points, 2]`."""
    tail, head = paddles[..., None, 0, :], paddles[..., None, 1, :]
    points: Reals = tail + (head - tail) * _ALONG[:, None]
    return points
