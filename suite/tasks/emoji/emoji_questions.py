"""Answer a question about a picture: what, where, how many, and is there?

Antol et al. 2015, "VQA: Visual Question Answering" (arXiv:1505.00468), on a small scale.

    picture    two to four of 40 objects on white, each once; see `bakeoff.suite.tasks.emoji.scenes`
    inputs     the words of the question, padded at the end with 0
    target     one of 50: the objects, the quarters "top left", "top right", "bottom left" and
               "bottom right", "zero" to "three", "yes" and "no"
    questions  all four kinds are equally frequent, each a part:
               ``question=1``  "what is left of the dog", "right of", "above" or "below": exactly
                               one object is. Left or right applies if the horizontal distance is
                               larger than the vertical one, else above or below; they are never
                               close to each other
               ``question=2``  "where is the red apple": its centre is in that quarter
               ``question=3``  "how many dogs": zero to three of three or four objects; the others
                               are of one or two further kinds, so that these recur, too
               ``question=4``  "is there a key"
    fairness   given the question, all of its answers are equally likely: 39 objects, four quarters,
               four numbers, two words. A question-only baseline reaches an accuracy of 0.26

Two points differ from the paper: pictures are drawn anew for each question, and an answer is one of
a list, as in the paper's multiple choice.
"""

from __future__ import annotations

from functools import cache
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from bakeoff.models.interface import CONTEXT, INPUTS
from bakeoff.suite.tasks.bases.captions import PictureTask, Words, padded, with_article
from bakeoff.suite.tasks.bases.generated import GeneratedTask, definition_source
from bakeoff.suite.tasks.bases.subwords import PADDING
from bakeoff.suite.tasks.data_order import RandomStream, Whole
from bakeoff.suite.tasks.emoji.atlas import NUM_OBJECTS, SOURCE, atlas
from bakeoff.suite.tasks.emoji.scenes import (
    CANVAS,
    FEWEST,
    GLYPH,
    MARGIN,
    MOST,
    NOTHING,
    PIXEL_MEAN,
    PIXEL_STANDARD_DEVIATION,
    RELATIONS,
    Scenes,
    Truths,
    draw_places,
    is_clear,
    relations,
)
from bakeoff.suite.tasks.task import Batch

VERSION = 1
KINDS = WHAT, WHERE, HOW_MANY, IS_THERE = range(4)
QUARTERS = ("top left", "top right", "bottom left", "bottom right")
NUMBERS = ("zero", "one", "two", "three")
FIRST_QUARTER = NUM_OBJECTS
ZERO = FIRST_QUARTER + len(QUARTERS)
YES, NO = ZERO + len(NUMBERS), ZERO + len(NUMBERS) + 1
NUM_SYMBOLS = 85
LENGTH = 7  # number of words of the longest question


class EmojiQuestions(PictureTask, GeneratedTask):
    """Visual question answering on scenes of emoji."""

    name = "emoji_questions"
    version = VERSION
    architecture = "question_answerer"
    asks_for = "class"
    floors = ("uniform", "majority", "question_alone")
    fixed_length = LENGTH
    source = definition_source(
        name="emoji_questions",
        title="Questions about scenes of emoji",
        origin="after Antol et al. 2015, arXiv:1505.00468, of emoji by OpenMoji, CC BY-SA 4.0",
        definition={
            "canvas": CANVAS,
            "glyph": GLYPH,
            "objects": [FEWEST, MOST],
            "margin": MARGIN,
            "kinds": ["what", "where", "how many", "is there"],
            "answers": "uniform",
        },
        version=VERSION,
        beside=(SOURCE,),
    )
    picture = (CANVAS, CANVAS)
    input_size = NUM_SYMBOLS
    output_size = NO + 1
    pixel_mean = PIXEL_MEAN
    pixel_standard_deviation = PIXEL_STANDARD_DEVIATION
    part_titles: ClassVar[dict[str, str]] = {
        "question": "question",
        "question=1": "what is left of, ...",
        "question=2": "where is",
        "question=3": "how many",
        "question=4": "is there",
    }

    @classmethod
    def vocabulary(cls) -> Words:
        """Return the words of all questions."""
        return _vocabulary()

    def draw(self, stream: RandomStream, count: int, kind: int) -> Batch:
        """Draw kinds of questions, relations, objects, then positions."""
        kinds = stream.integers(count, low=0, high=len(KINDS))
        asked = stream.integers(count, low=0, high=len(RELATIONS))
        about, objects, answers = draw_objects(stream, kinds)
        counts = (objects != NOTHING).sum(axis=1)
        places = draw_places(
            stream,
            counts,
            lambda tried, scenes: is_answered(tried, kinds[scenes], asked[scenes], counts[scenes]),
        )
        scenes = Scenes(objects=objects, places=places)
        targets = np.select(
            [kinds == WHAT, kinds == WHERE], [_related(scenes, asked), _quarters(places)], answers
        )
        inputs = torch.from_numpy(questions()[kinds, asked, about])
        pictures = torch.from_numpy(scenes.painted())
        given = {INPUTS: inputs, "mask": inputs != PADDING, CONTEXT: pictures}
        return Batch(inputs=given, targets=torch.from_numpy(targets), part=torch.from_numpy(kinds))

    def parts(self) -> tuple[str, ...]:
        """Return one part for each kind of question."""
        return tuple(f"question={kind + 1}" for kind in KINDS)

    def in_parts(self, batch: Batch) -> dict[str, Tensor]:
        """Return the parts that the batch records."""
        assert batch.part is not None, "see `draw`"
        return {at: batch.part == kind for kind, at in enumerate(self.parts())}


def answer_texts() -> tuple[str, ...]:
    """Return the text of each answer."""
    return (*atlas().objects, *QUARTERS, *NUMBERS, "yes", "no")


def question(kind: int, relation: int, name: str) -> str:
    """Return the words of a question about an object; only the first kind has a relation."""
    return (
        f"what is {RELATIONS[relation]} the {name}",
        f"where is the {name}",
        f"how many {plural(name)}",
        f"is there {with_article(name)}",
    )[kind]


def plural(name: str) -> str:
    """Return the regular plural ("fish" is the only exception)."""
    if name.endswith("fish"):
        return name
    if name.endswith("y") and name[-2] not in "aeiou":
        return f"{name[:-1]}ies"
    return f"{name}{'es' if name.endswith(('s', 'x', 'ch', 'sh')) else 's'}"


@cache
def _vocabulary() -> Words:
    words = Words(question(*each) for each in _all_questions())
    assert len(words) == NUM_SYMBOLS, "the vocabulary is part of the task"
    return words


def _all_questions() -> list[tuple[int, int, str]]:
    return [
        (kind, relation, name)
        for kind in KINDS
        for relation in range(len(RELATIONS))
        for name in atlas().objects
    ]


@cache
def questions() -> Whole:
    """Return the symbols of each question, padded, `[kinds, relations, objects, LENGTH]`."""
    found = padded([_vocabulary().encoded(question(*each)) for each in _all_questions()])
    return found.reshape(len(KINDS), len(RELATIONS), NUM_OBJECTS, LENGTH)


def draw_objects(stream: RandomStream, kinds: Whole) -> tuple[Whole, Whole, Whole]:
    """Draw what is asked about, the objects of each scene, and the answers.

    The object that is asked about is the first of a scene, or not in it.

    Returns:
        `[scenes]` objects; `[scenes, MOST]` objects, NOTHING after the last one; `[scenes]`
        answers, valid for the last two kinds of questions, which do not depend on positions.
    """
    count, places = len(kinds), np.arange(MOST)
    drawn = stream.distinct(count, MOST + 1, NUM_OBJECTS)
    sizes = np.where(
        kinds == HOW_MANY,
        stream.integers(count, low=MOST - 1, high=MOST + 1),
        stream.integers(count, low=FEWEST, high=MOST + 1),
    )
    numbers = stream.integers(count, low=0, high=len(NUMBERS))
    others = np.take_along_axis(drawn, stream.integers(count, MOST, low=1, high=3), axis=1)
    counted = np.where(places < numbers[:, None], drawn[:, :1], others)
    is_absent = (kinds == IS_THERE) & (stream.integers(count, low=0, high=2) == 1)
    single = np.where(is_absent[:, None], drawn[:, 1:], drawn[:, :MOST])
    objects = np.where((kinds == HOW_MANY)[:, None], counted, single)
    objects = np.where(places < sizes[:, None], objects, NOTHING)
    found = np.where(kinds == HOW_MANY, ZERO + numbers, np.where(is_absent, NO, YES))
    return drawn[:, 0], objects, found


def is_answered(places: Whole, kinds: Whole, asked: Whole, counts: Whole) -> Truths:
    """Return `[scenes, tries]`: True if the first object's position gives one clear answer."""
    offsets = places[..., 1:, :] - places[..., :1, :]
    is_object = (np.arange(1, MOST) < counts[:, None])[:, None]
    is_one = ((relations(offsets) == asked[:, None, None]) & is_object).sum(axis=-1) == 1
    is_one &= (is_clear(offsets) | ~is_object).all(axis=-1)
    off_centre = np.abs(places[..., 0, :] - (CANVAS - GLYPH) // 2)
    is_in_quarter = (off_centre >= MARGIN).all(axis=-1)
    of_kind = [(kinds == kind)[:, None] for kind in (WHAT, WHERE)]
    return np.select(of_kind, [is_one, is_in_quarter], True)


def _related(scenes: Scenes, asked: Whole) -> Whole:
    """Return `[scenes]`: the object in that relation to the first one, or any if none is."""
    offsets = scenes.places[:, 1:] - scenes.places[:, :1]
    is_asked = (relations(offsets) == asked[:, None]) & (scenes.objects[:, 1:] != NOTHING)
    found: Whole = scenes.objects[np.arange(len(asked)), 1 + is_asked.argmax(axis=1)]
    return found


def _quarters(places: Whole) -> Whole:
    """Return `[scenes]`: the answer that names the quarter of the first object."""
    is_low, is_right = np.moveaxis(places[:, 0] > (CANVAS - GLYPH) // 2, -1, 0)
    found: Whole = FIRST_QUARTER + 2 * is_low + is_right
    return found
