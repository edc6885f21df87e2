"""Pathfinder: whether a dashed contour joins the two marked points, in a picture read as pixels.

Linsley et al. 2018, "Learning long-range spatial dependencies with horizontal gated-recurrent
units" (arXiv:1805.08315), section 3.1, as in the Long Range Arena (Tay et al. 2020,
arXiv:2011.04006, section 2.2.5).

                  picture     dashes of a contour   distractors            tokens
pathfinder        32 x 32     14                    5 of 4 dashes          1,024
pathfinder_small  16 x 16     5                     2 of 2 dashes          256
pathfinder_x      128 x 128   14                    8 of 4 dashes          16,384

    drawn     two long contours of dashes, then distractors, if they fit; a dash is 2 pixels
              long and 0.5 wide, with a contrast of 0.75 (`pathfinder_x`: 5, 1.5 and 0.9); a contour
              turns between two dashes by up to 90 degrees, with a density of cos**2 (continuity 1)
    marked    two ends by discs of radius 1.5 (3): both ends of one long contour (class 1), or one
              of its ends and one of the other long contour's (class 0)
    input     grey pixels row by row, 0..1, then standardised by mean and standard deviation
    fairness  each drawing occurs twice in a row, once with either class, each time turned or
              mirrored at random. Only drawings count in which both pairs of ends are equally far
              apart, up to half a dash. Therefore neither the lines, nor the number of bright
              pixels, nor the distance between the markers reveals the class: a model has to follow
              the contour

There are some departures. The gap between two dashes is half a dash, whereas the public generator
has about a whole one, so that both contours fit while neighbours along one are always nearer than
anything else. The turns of `pathfinder_x` are those of the others, whereas the Arena has a
continuity of 1.8. Contours begin anywhere and fairness is by selection, whereas the generator lets
them begin 7 (20) pixels apart. Shapes of contours are from a library of 1,024, in eight
orientations and all positions. Pixels are drawn by their distance from the line. Training examples
are always new, whereas the Arena has 160,000 pictures.
"""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
import torch

from bakeoff.models.interface import InputKind
from bakeoff.suite.tasks.bases.generated import GeneratedTask, definition_source
from bakeoff.suite.tasks.data_order import RandomStream, Whole
from bakeoff.suite.tasks.long_range.contours import (
    CLEARANCE,
    LIBRARY_SEED,
    MARGIN,
    MARKERS_APART,
    NUM_CONTOURS,
    PADDING,
    PADDLE_LENGTH,
    TOLERANCE,
    Layout,
    PathDrawing,
    Reals,
    draw_contours,
)
from bakeoff.suite.tasks.task import Batch, DataSource, Split

VERSION = 1
_AT_ONCE = 64  # drawings that are tried simultaneously


def _source(name: str, layout: Layout) -> DataSource:
    pixels = {} if layout.half_dash == 1 else {"half_dash": layout.half_dash}
    return definition_source(
        name=name,
        title=f"Pathfinder with {layout.side} x {layout.side} pixels",
        origin="Linsley et al. 2018, arXiv:1805.08315; Tay et al. 2020, arXiv:2011.04006",
        definition={
            "layout": [layout.side, layout.contour, layout.distractor, layout.num_distractors],
            "dash": [PADDLE_LENGTH, MARGIN, layout.thickness, layout.contrast],
            "marker": layout.marker_radius,
            "apart": [CLEARANCE, PADDING, MARKERS_APART, TOLERANCE],
            "library": [NUM_CONTOURS, LIBRARY_SEED],
            **pixels,
        },
        version=VERSION,
    )


class Pathfinder(GeneratedTask):
    """Classification of pictures: 1 if a contour joins the markers, else 0."""

    name = "pathfinder"
    version = VERSION
    architecture = "classifier"
    asks_for = "class"
    floors = ("uniform", "majority", "logistic_regression")
    num_held_out: ClassVar[dict[Split, int]] = {"validation": 500, "test": 1_000}
    layout: ClassVar[Layout] = Layout(side=32, contour=14, distractor=4, num_distractors=5)
    source = _source("pathfinder", layout)
    input_kind: ClassVar[InputKind] = "vectors"
    fixed_length = 32 * 32
    input_size = 1
    output_size = 2
    mean: ClassVar[float] = 0.076  # mean of the pixels
    deviation: ClassVar[float] = 0.186

    def draw(self, stream: RandomStream, count: int, kind: int) -> Batch:
        """Draw contours until there are enough, then their classes and orientations."""
        drawing = self.drawn(stream, -(-count // 2))
        labels = stream.integers(len(drawing.ends), low=0, high=2)
        labels = np.stack([labels, 1 - labels], axis=1).ravel()[:count]
        drawing = drawing[np.arange(2 * len(drawing.ends))[:count] // 2]
        pixels = rendered(drawing, labels, self.layout)
        pixels = turned(pixels, stream.integers(count, low=0, high=8))
        inputs = torch.from_numpy(pixels.reshape(count, -1, 1).astype(np.float32))
        return Batch(
            inputs={"inputs": (inputs - self.mean) / self.deviation},
            targets=torch.from_numpy(labels),
        )

    def drawn(self, stream: RandomStream, count: int) -> PathDrawing:
        """Return the first `count` drawings that succeed."""
        found, num_found = [], 0
        while num_found < count:
            found.append(draw_contours(stream, _AT_ONCE, self.layout))
            num_found += len(found[-1].ends)
        return PathDrawing(
            paddles=np.concatenate([each.paddles for each in found]),
            ends=np.concatenate([each.ends for each in found]),
        )[:count]


class PathfinderSmall(Pathfinder):
    """Pathfinder with smaller pictures, for a quick run."""

    name = "pathfinder_small"
    layout: ClassVar[Layout] = Layout(side=16, contour=5, distractor=2, num_distractors=2)
    source = _source("pathfinder_small", layout)
    fixed_length = 16 * 16
    mean: ClassVar[float] = 0.124
    deviation: ClassVar[float] = 0.248


class PathfinderX(Pathfinder):
    """Pathfinder with as many tokens as the Arena's Path-X."""

    name = "pathfinder_x"
    num_held_out: ClassVar[dict[Split, int]] = {"validation": 200, "test": 500}
    layout: ClassVar[Layout] = Layout(
        side=128,
        contour=14,
        distractor=4,
        num_distractors=8,
        half_dash=2.5,
        thickness=1.5,
        contrast=0.9,
        marker_radius=3.0,
    )
    source = _source("pathfinder_x", layout)
    fixed_length = 128 * 128
    mean: ClassVar[float] = 0.029
    deviation: ClassVar[float] = 0.129


def rendered(drawing: PathDrawing, labels: Whole, layout: Layout) -> Reals:
    """Return grey values 0..1 `[pictures, side, side]`; class 1 marks both ends of a contour."""
    pixels = _lines(layout.half_dash * drawing.paddles, layout)
    centres, ends = np.arange(layout.side) + 0.5, layout.half_dash * drawing.ends
    for end in (ends[:, 0], ends[np.arange(len(labels)), 2 - labels]):
        rows, columns = (centres - end[:, axis, None] for axis in (0, 1))
        away = np.sqrt(rows[:, :, None] ** 2 + columns[:, None, :] ** 2)
        np.maximum(pixels, np.clip(layout.marker_radius + 0.5 - away, 0, 1), out=pixels)
    return pixels


def _lines(paddles: Reals, layout: Layout) -> Reals:
    """Draw the dashes: a pixel fades with its distance in pixels from the nearest one."""
    side, fade = layout.side, 0.5 + layout.thickness / 2
    # Number of pixels to each side of a dash's middle that it can touch.
    reach = math.ceil(PADDLE_LENGTH / 2 * layout.half_dash + fade + 0.5)
    rows, which = np.nonzero(~np.isnan(paddles[:, :, 0, 0]))
    tail, along = paddles[rows, which, 0], np.diff(paddles[rows, which], axis=1)[:, 0]
    near = np.mgrid[-reach : reach + 1, -reach : reach + 1].reshape(2, -1).T
    cells = np.floor(tail + along / 2).astype(np.int64)[:, None] + near
    offset = cells + 0.5 - tail[:, None]
    share = (offset * along[:, None]).sum(axis=2) / (along**2).sum(axis=1)[:, None]
    away = np.linalg.norm(offset - np.clip(share, 0, 1)[..., None] * along[:, None], axis=2)
    grey = layout.contrast * np.clip(1 - away / fade, 0, 1)
    pixels = np.zeros((len(paddles), side, side))
    is_inside = ((cells >= 0) & (cells < side)).all(axis=2) & (grey > 0)
    picture = np.broadcast_to(rows[:, None], is_inside.shape)[is_inside]
    row, column = cells[is_inside].T
    np.maximum.at(pixels, (picture, row, column), grey[is_inside])
    return pixels


def turned(pixels: Reals, kinds: Whole) -> Reals:
    """Return each picture in one of the eight orientations of a square."""
    pixels = np.where((kinds & 1)[:, None, None] == 1, pixels.swapaxes(1, 2), pixels)
    pixels = np.where((kinds & 2)[:, None, None] == 2, pixels[:, ::-1], pixels)
    return np.where((kinds & 4)[:, None, None] == 4, pixels[:, :, ::-1], pixels)
