"""Sort-of-CLEVR in symbols: a question about six objects, or about their spatial relations.

Santoro et al. 2017, "A simple neural network module for relational reasoning" (arXiv:1706.01427),
section 3.3; the task of the shared workspace (Goyal et al. 2022, arXiv:2103.01197, section 4).

    picture   8 x 8 cells, six of them with an object: one of each of six colours, a square or a
              circle
    input     66 symbols: the question, the colour that it asks about, and the cells row by row; 0
              is an empty cell, 1 to 12 are objects, 13 to 18 questions, 19 to 24 colours asked for
    target    one of ten: yes, no, square, circle, 1, 2, 3, 4, 5, 6
    parts     ``objects=1``, not relational: is the object a square or a circle, is it in the left
              half, is it in the upper half. ``objects=6``, relational: the shape of the object that
              is nearest to it, of the farthest one, and how many objects have its shape
    fairness  questions and colours are drawn uniformly, and so are the answers to each question:
              the floor `first_symbol`, which knows the question, is right half of the time, and
              one time in six for counts. Exactly one object is the nearest, and one the farthest

A model that counts shapes but compares no distances can name the shape of most other objects, and
is right about the nearest and the farthest in 69 of 100 cases.

There are three departures. The paper has pictures of 75 x 75 pixels in colour, which a
convolutional network reads, and 9,800 of them with 20 questions each; here objects are symbols on a
grid, and are drawn anew for each question. The paper's counts are binomial, so that 3 and 4 are
most of the answers; here all six are equally likely.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from bakeoff.models.interface import INPUTS
from bakeoff.suite.tasks.bases.generated import GeneratedTask, definition_source
from bakeoff.suite.tasks.data_order import RandomStream, Whole
from bakeoff.suite.tasks.task import Batch

VERSION = 1
SIDE, NUM_COLOURS, NUM_KINDS = 8, 6, 6
FIRST_OBJECT = 1
FIRST_QUESTION = FIRST_OBJECT + 2 * NUM_COLOURS
FIRST_COLOUR = FIRST_QUESTION + NUM_KINDS
NUM_SYMBOLS = FIRST_COLOUR + NUM_COLOURS
SHAPE, LEFT, UPPER, NEAREST, FARTHEST, COUNT = range(NUM_KINDS)
YES, NO, SQUARE, CIRCLE, ONE = range(5)
NUM_ANSWERS = ONE + NUM_COLOURS


class SortOfClevr(GeneratedTask):
    """Answers to questions about a picture of symbols."""

    name = "sort_of_clevr"
    version = VERSION
    architecture = "classifier"
    asks_for = "class"
    floors = ("uniform", "majority", "first_symbol")
    source = definition_source(
        name="sort_of_clevr",
        title="Questions about six objects on a grid",
        origin="Santoro et al. 2017, arXiv:1706.01427, section 3.3",
        definition={"side": SIDE, "colours": NUM_COLOURS, "kinds": NUM_KINDS, "ties": "none"},
        version=VERSION,
    )
    fixed_length = 2 + SIDE * SIDE
    input_size = NUM_SYMBOLS
    output_size = NUM_ANSWERS
    part_titles: ClassVar[dict[str, str]] = {
        "objects": "objects asked about",
        "objects=1": "one object",
        "objects=6": "all objects (relational)",
    }

    def draw(self, stream: RandomStream, count: int, kind: int) -> Batch:
        """Draw questions, colours, positions, then shapes."""
        rows = np.arange(count)
        asked = stream.integers(count, low=0, high=NUM_KINDS)
        colour = stream.integers(count, low=0, high=NUM_COLOURS)
        cells = draw_cells(stream, colour)
        shapes = draw_shapes(stream, asked, colour)
        inputs = np.zeros((count, self.length), dtype=np.int64)
        inputs[:, 0], inputs[:, 1] = FIRST_QUESTION + asked, FIRST_COLOUR + colour
        objects = FIRST_OBJECT + 2 * np.arange(NUM_COLOURS) + shapes
        inputs[rows[:, None], 2 + cells] = objects
        targets = answers(cells, shapes, colour)[rows, asked]
        return Batch(inputs={INPUTS: torch.from_numpy(inputs)}, targets=torch.from_numpy(targets))

    def parts(self) -> tuple[str, ...]:
        """Return the parts: questions about one object, and about all of them."""
        return ("objects=1", "objects=6")

    def in_parts(self, batch: Batch) -> dict[str, Tensor]:
        """Return the parts by the first symbol."""
        is_relational = batch.inputs[INPUTS][:, 0] >= FIRST_QUESTION + NEAREST
        return dict(zip(self.parts(), (~is_relational, is_relational), strict=True))


def draw_cells(stream: RandomStream, colour: Whole) -> Whole:
    """Draw the cell of each object, `[count, colours]`, without ties in distance.

    Exactly one object is the nearest to `colour`, and one the farthest. Pictures with ties are
    drawn again, whatever the question.
    """
    cells = stream.distinct(len(colour), NUM_COLOURS, SIDE * SIDE)
    while (tied := np.flatnonzero(is_tied(cells, colour))).size:
        cells[tied] = stream.distinct(len(tied), NUM_COLOURS, SIDE * SIDE)
    return cells


def is_tied(cells: Whole, colour: Whole) -> Whole:
    """Return `[count]` booleans: True if the nearest or the farthest object is not unique."""
    ordered = np.sort(distances(cells, colour), axis=1)  # the first is the distance to itself
    nearest, farthest = ordered[:, 1] == ordered[:, 2], ordered[:, -1] == ordered[:, -2]
    tied: Whole = nearest | farthest
    return tied


def distances(cells: Whole, colour: Whole) -> Whole:
    """Return the squared distances `[count, colours]` from the object of a colour to each."""
    places = np.stack([cells // SIDE, cells % SIDE], axis=2)
    own = places[np.arange(len(colour)), colour]
    squares: Whole = ((places - own[:, None]) ** 2).sum(axis=2)
    return squares


def draw_shapes(stream: RandomStream, asked: Whole, colour: Whole) -> Whole:
    """Draw `[count, colours]`, 0 for a square and 1 for a circle.

    The shapes are uniform or, for questions about counts, such that the counts are uniform.
    """
    count = len(asked)
    shapes = stream.integers(count, NUM_COLOURS, low=0, high=2)
    num_others = stream.integers(count, low=0, high=NUM_COLOURS)  # other objects of the same shape
    ranks = stream.distinct(count, NUM_COLOURS - 1, NUM_COLOURS - 1)
    own = shapes[np.arange(count), colour][:, None]
    counted = np.empty_like(shapes)
    is_other = np.arange(NUM_COLOURS) != colour[:, None]
    counted[is_other] = np.where(ranks < num_others[:, None], own, 1 - own).ravel()
    counted[~is_other] = own.ravel()
    return np.where((asked == COUNT)[:, None], counted, shapes)


def answers(cells: Whole, shapes: Whole, colour: Whole) -> Whole:
    """Return the answers `[count, kinds]` to every question about a colour."""
    rows = np.arange(len(colour))
    cell, shape, away = cells[rows, colour], shapes[rows, colour], distances(cells, colour)
    others = np.where(away == 0, 2 * SIDE**2, away)
    found = np.empty((len(colour), NUM_KINDS), dtype=np.int64)
    found[:, SHAPE] = SQUARE + shape
    found[:, LEFT] = np.where(cell % SIDE < SIDE // 2, YES, NO)
    found[:, UPPER] = np.where(cell // SIDE < SIDE // 2, YES, NO)
    found[:, NEAREST] = SQUARE + shapes[rows, others.argmin(axis=1)]
    found[:, FARTHEST] = SQUARE + shapes[rows, away.argmax(axis=1)]
    found[:, COUNT] = ONE + (shapes == shape[:, None]).sum(axis=1) - 1
    return found
