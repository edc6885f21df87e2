"""Say which objects are in a picture, from left to right, and how each lies to the next one.

    picture   two to four different objects of 40, on white; see `suite.tasks.emoji.scenes`
    caption   "a red apple left of a dog above a key": the objects from left to right by their
              centres, and between neighbours in that order "left of" where the distance across is
              larger than that down, else "above" or "below". So there is one right caption: no two
              centres are less than 3 pixels apart across, and the two distances between neighbours
              differ by at least 3
    symbols   and the score: see `suite.tasks.bases.captions`
    pairs     of the 780 pairs of objects each belongs to one split, by the SHA-256 of the names: of
              ten parts one is validation's, one is test's, the others are training's. The objects
              of a training scene are of training's pairs alone. Of both held-out splits one half is
              so too, ``pairs=1``; each scene of the other half, ``pairs=2``, has at least one pair
              of its split, and none of the other one. So what is chosen on validation data has not
              seen the pairs of the test, and is chosen for pairs that are new

Each batch says where the object is that a target's word names (`Batch.boxes`), for all words of a
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

from suite.tasks.bases.captions import CaptionTask, Words, captioned, padded, with_article
from suite.tasks.bases.generated import GeneratedTask, definition_source
from suite.tasks.bases.subwords import END, PADDING
from suite.tasks.data_order import RandomStream, Whole
from suite.tasks.emoji.atlas import NUM_OBJECTS, SOURCE, atlas
from suite.tasks.emoji.scenes import (
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
from suite.tasks.task import Batch, Split

VERSION = 1
NUM_PARTS = 10  # of all pairs
KNOWN, OF_VALIDATION, OF_TEST = range(3)  # kinds of pairs, and of scenes
NUM_SYMBOLS = 46
_MOST_WORDS = 5  # of an object: a relation of two words, an article, a name of two
LENGTH = MOST * 3 + (MOST - 1) * 2 + 1  # words of the longest caption, and its end


class EmojiScenes(CaptionTask, GeneratedTask):
    """Write the one right caption."""

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
        """See `PictureTask.vocabulary`."""
        return phrases().words

    def held_out_kinds(self, split: Split) -> Sequence[int]:
        """Scenes of known pairs, then those with a pair of the split."""
        return (KNOWN, {"validation": OF_VALIDATION, "test": OF_TEST}[split])

    def draw(self, stream: RandomStream, count: int, kind: int) -> Batch:
        """Numbers of objects, objects, then places."""
        scenes = draw_scenes(stream, count, kind)
        targets, boxes = captions(scenes)
        inputs, asked = captioned(targets, scenes.painted())
        part = torch.full((count,), int(kind != KNOWN))
        return Batch(inputs=inputs, targets=asked, part=part, boxes=torch.from_numpy(boxes))

    def parts(self) -> tuple[str, ...]:
        """Scenes of known pairs, and those with a new one."""
        return ("pairs=1", "pairs=2")

    def in_parts(self, batch: Batch) -> dict[str, Tensor]:
        """As the batch says."""
        assert batch.part is not None, "see `draw`"
        is_new = (batch.part == 1)[:, None].expand(batch.targets.shape)
        return {"pairs=1": ~is_new, "pairs=2": is_new}


@cache
def kinds_of_pairs() -> Whole:
    """`[objects, objects]`: to which kind each pair belongs."""
    names = atlas().objects
    found = np.full((len(names), len(names)), KNOWN)
    for i, one in enumerate(names):
        for j, other in enumerate(names):
            pair = " and ".join(sorted([one, other]))
            part = int.from_bytes(hashlib.sha256(pair.encode()).digest()[:8]) % NUM_PARTS
            found[i, j] = {0: OF_VALIDATION, 1: OF_TEST}.get(part, KNOWN)
    return found


def draw_scenes(stream: RandomStream, count: int, kind: int, *, apart: int = 1) -> Scenes:
    """Scenes of one kind, the objects from left to right; `apart` as of `draw_places`."""
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
    """The places `[scenes, tries, MOST, 2]` of so many objects in order from left to right."""
    is_object = (np.arange(MOST) < counts[:, None])[:, None]
    order = np.where(is_object, places[..., 1], CANVAS).argsort(axis=-1, kind="stable")
    return np.take_along_axis(places, order[..., None], axis=-2)


def steps_right(places: Whole) -> Whole:
    """`[..., MOST - 1, 2]`: the offset of each object from the next one."""
    return places[..., :-1, :] - places[..., 1:, :]


class Phrases(NamedTuple):
    """The symbols of what captions are made of, PADDING behind the last word.

    Attributes:
        words: The vocabulary.
        objects: `[objects + 1, 3]`, an article and a name; the last row, of NOTHING, is empty.
        relations: `[relations + 1, 2]`; likewise.
    """

    words: Words
    objects: Whole
    relations: Whole


@cache
def phrases() -> Phrases:
    """Those of the objects of the file."""
    named = [with_article(name) for name in atlas().objects]
    between = [name for name in RELATIONS if name != "right of"]
    words = Words([*named, *between])
    found = words.encoded
    assert len(words) == NUM_SYMBOLS, "the vocabulary is part of the task"
    related = [found(name) if name in between else [] for name in RELATIONS]
    return Phrases(words, padded([*map(found, named), []]), padded([*related, []]))


def captions(scenes: Scenes) -> tuple[Whole, Whole]:
    """The words of each caption and its end, filled, `[scenes, LENGTH]`, and the boxes of those.

    Each object has as many places as the longest phrase needs; then those that no word needs are
    moved to the end.
    """
    count = len(scenes.objects)
    related = np.full((count, MOST), NOTHING)
    related[:, 1:] = relations(steps_right(scenes.places))
    related[scenes.objects == NOTHING] = NOTHING
    symbols, order = spelled(scenes.objects, related)
    boxes = np.full((count, MOST, _MOST_WORDS, 4), -1)
    boxes[:, :, -2:] = scenes.boxes()[:, :, None]  # of the name, without the article
    boxes = np.concatenate([boxes.reshape(count, -1, 4), np.full((count, 1, 4), -1)], axis=1)
    found = np.take_along_axis(boxes, order[..., None], axis=1)
    found[symbols == PADDING] = -1
    return symbols, found


def spelled(objects: Whole, related: Whole) -> tuple[Whole, Whole]:
    """The words of captions and their end, filled, `[captions, LENGTH]`.

    Args:
        objects: `[captions, MOST]`, NOTHING behind the last one.
        related: The same shape: how each lies to the one before it, NOTHING for the first.

    Returns:
        The symbols; and where each stood when all objects had as many places.
    """
    known, count = phrases(), len(objects)
    symbols = np.concatenate([known.relations[related], known.objects[objects]], axis=-1)
    symbols = np.concatenate([symbols.reshape(count, -1), np.full((count, 1), END)], axis=1)
    order = (symbols == PADDING).argsort(axis=1, kind="stable")[:, :LENGTH]
    return np.take_along_axis(symbols, order, axis=1), order
