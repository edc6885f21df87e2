"""Name the objects in a picture from left to right, and the relation of each to the next one.

    picture   two to four different objects of 40, on white; see `bakeoff.suite.tasks.emoji.scenes`
    caption   "a red apple left of a dog above a key": the objects from left to right by their
              centres, and between neighbours in that order "left of" if the horizontal distance is
              larger than the vertical one, else "above" or "below". There is exactly one right
              caption: no two centres are less than 3 pixels apart horizontally, and the two
              distances between neighbours differ by at least 3
    symbols   and the score: see `bakeoff.suite.tasks.bases.captions`
    pairs     each of the 780 pairs of objects belongs to one split, by the SHA-256 of the names: of
              ten parts one is for validation, one is for test, the others are for training. A
              training scene contains only training pairs. So does one half of both held-out splits,
              ``pairs=1``; each scene of the other half, ``pairs=2``, has at least one pair of its
              split, and none of the other one. A choice made on validation data therefore does not
              depend on the test pairs, and is made for pairs that are new

Each batch holds the box of the object that a target word names (`Batch.boxes`), for all words of a
name.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cache
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from bakeoff.suite.tasks.bases.captions import CaptionTask, Words, captioned, padded, with_article
from bakeoff.suite.tasks.bases.generated import GeneratedTask, definition_source
from bakeoff.suite.tasks.bases.subwords import END, PADDING
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
    draw_until,
    is_clear,
    pairs_in,
    pairs_of,
    relations,
)
from bakeoff.suite.tasks.task import Batch, Split

VERSION = 1
NUM_PARTS = 10  # equal parts of all pairs
KNOWN, OF_VALIDATION, OF_TEST = range(3)  # kinds of pairs, and of scenes
NUM_SYMBOLS = 46
_MOST_WORDS = 5  # words per object: a relation of two words, an article, a name of two
LENGTH = MOST * 3 + (MOST - 1) * 2 + 1  # words of the longest caption, and its end


class EmojiScenes(CaptionTask, GeneratedTask):
    """Captioning of scenes that have exactly one right caption."""

    fixed_length = LENGTH
    name = "emoji_scenes"
    version = VERSION
    source = definition_source(
        name="emoji_scenes",
        title="Scenes of emoji with captions",
        origin="this project, of emoji by OpenMoji, CC BY-SA 4.0",
        definition={
            "canvas": CANVAS,
            "glyph": GLYPH,
            "objects": [FEWEST, MOST],
            "margin": MARGIN,
            "order": "from left to right",
            "relations": "of neighbours",
            "parts": NUM_PARTS,
        },
        version=VERSION,
        beside=(SOURCE,),
    )
    picture = (CANVAS, CANVAS)
    has_boxes = True
    input_size = NUM_SYMBOLS
    output_size = NUM_SYMBOLS
    pixel_mean = PIXEL_MEAN
    pixel_standard_deviation = PIXEL_STANDARD_DEVIATION
    part_titles: ClassVar[dict[str, str]] = {
        "pairs": "pairs of objects",
        "pairs=1": "all seen in training",
        "pairs=2": "some new",
    }

    @classmethod
    def vocabulary(cls) -> Words:
        """Return the words of the captions."""
        return phrases().words

    def held_out_kinds(self, split: Split) -> Sequence[int]:
        """Return the kinds: scenes of known pairs, then those with a pair of the split."""
        return (KNOWN, {"validation": OF_VALIDATION, "test": OF_TEST}[split])

    def draw(self, stream: RandomStream, count: int, kind: int) -> Batch:
        """Draw numbers of objects, objects, then positions."""
        scenes = draw_scenes(stream, count, kind)
        targets, boxes = captions(scenes)
        inputs, asked = captioned(targets, scenes.painted())
        part = torch.full((count,), int(kind != KNOWN))
        return Batch(inputs=inputs, targets=asked, part=part, boxes=torch.from_numpy(boxes))

    def parts(self) -> tuple[str, ...]:
        """Return the parts: scenes of known pairs, and those with a new one."""
        return ("pairs=1", "pairs=2")

    def in_parts(self, batch: Batch) -> dict[str, Tensor]:
        """Return the parts that the batch records."""
        assert batch.part is not None, "see `draw`"
        is_new = (batch.part == 1)[:, None].expand(batch.targets.shape)
        return {"pairs=1": ~is_new, "pairs=2": is_new}


@cache
def kinds_of_pairs() -> Whole:
    """Return the kind of each pair, `[objects, objects]`."""
    names = atlas().objects
    found = np.full((len(names), len(names)), KNOWN)
    for i, one in enumerate(names):
        for j, other in enumerate(names):
            pair = " and ".join(sorted([one, other]))
            part = int.from_bytes(hashlib.sha256(pair.encode()).digest()[:8]) % NUM_PARTS
            found[i, j] = {0: OF_VALIDATION, 1: OF_TEST}.get(part, KNOWN)
    return found


def draw_scenes(stream: RandomStream, count: int, kind: int, *, apart: int = 1) -> Scenes:
    """Draw scenes of one kind, the objects from left to right; `draw_places` explains `apart`."""
    counts = stream.integers(count, low=FEWEST, high=MOST + 1)

    def has_kind(objects: Whole, scenes: Whole) -> Truths:
        is_pair = pairs_in(counts[scenes])[:, None]
        kinds = np.where(is_pair, pairs_of(kinds_of_pairs(), objects), KNOWN)
        is_kind = kinds == kind
        found: Truths = (is_kind | (kinds == KNOWN)).all(axis=-1) & is_kind.any(axis=-1)
        return found

    def has_one_caption(places: Whole, scenes: Whole) -> Truths:
        offsets = steps_right(from_left(places, counts[scenes]))
        is_step = (np.arange(1, MOST) < counts[scenes][:, None])[:, None]
        is_unclear = ~is_clear(offsets) | (offsets[..., 1] > -MARGIN)
        return np.asarray(~(is_unclear & is_step).any(axis=-1))

    objects = draw_until(
        (count, MOST), lambda draws: stream.distinct(draws, MOST, NUM_OBJECTS), has_kind
    )
    drawn = draw_places(stream, counts, has_one_caption, apart=apart)
    places = from_left(drawn[:, None], counts)[:, 0]
    is_object = np.arange(MOST) < counts[:, None]
    return Scenes(objects=np.where(is_object, objects, NOTHING), places=places)


def from_left(places: Whole, counts: Whole) -> Whole:
    """Sort the positions `[scenes, tries, MOST, 2]` of `counts` objects from left to right."""
    is_object = (np.arange(MOST) < counts[:, None])[:, None]
    order = np.where(is_object, places[..., 1], CANVAS).argsort(axis=-1, kind="stable")
    return np.take_along_axis(places, order[..., None], axis=-2)


def steps_right(places: Whole) -> Whole:
    """Return the offset of each object from the next one, `[..., MOST - 1, 2]`."""
    return places[..., :-1, :] - places[..., 1:, :]


class Phrases(NamedTuple):
    """The symbols of the phrases of captions, padded with PADDING.

    Attributes:
        words: The vocabulary.
        objects: `[objects + 1, 3]`, an article and a name; the last row, for NOTHING, is empty.
        relations: `[relations + 1, 2]`; the last row is empty, too.
    """

    words: Words
    objects: Whole
    relations: Whole


@cache
def phrases() -> Phrases:
    """Return the phrases for the objects of the file."""
    named = [with_article(name) for name in atlas().objects]
    between = [name for name in RELATIONS if name != "right of"]
    words = Words([*named, *between])
    found = words.encoded
    assert len(words) == NUM_SYMBOLS, "the vocabulary is part of the task"
    related = [found(name) if name in between else [] for name in RELATIONS]
    return Phrases(words, padded([*map(found, named), []]), padded([*related, []]))


def captions(scenes: Scenes) -> tuple[Whole, Whole]:
    """Return the words of each caption and its end, padded, `[scenes, LENGTH]`, and their boxes.

    Each object has as many positions as the longest phrase needs; then the unused ones are moved to
    the end.
    """
    count = len(scenes.objects)
    related = np.full((count, MOST), NOTHING)
    related[:, 1:] = relations(steps_right(scenes.places))
    related[scenes.objects == NOTHING] = NOTHING
    symbols, order = spelled(scenes.objects, related)
    boxes = np.full((count, MOST, _MOST_WORDS, 4), -1)
    boxes[:, :, -2:] = scenes.boxes()[:, :, None]  # for the name, not for the article
    boxes = np.concatenate([boxes.reshape(count, -1, 4), np.full((count, 1, 4), -1)], axis=1)
    found = np.take_along_axis(boxes, order[..., None], axis=1)
    found[symbols == PADDING] = -1
    return symbols, found


def spelled(objects: Whole, related: Whole) -> tuple[Whole, Whole]:
    """Return the words of captions and their end, padded, `[captions, LENGTH]`.

    Args:
        objects: `[captions, MOST]`, NOTHING after the last one.
        related: The same shape: the relation of each to the one before it, NOTHING for the first.

    Returns:
        The symbols; and the index of each before unused positions were moved to the end.
    """
    known, count = phrases(), len(objects)
    symbols = np.concatenate([known.relations[related], known.objects[objects]], axis=-1)
    symbols = np.concatenate([symbols.reshape(count, -1), np.full((count, 1), END)], axis=1)
    order = (symbols == PADDING).argsort(axis=1, kind="stable")[:, :LENGTH]
    return np.take_along_axis(symbols, order, axis=1), order
