"""Find the caption of a picture among others, with training on matching pairs only.

Radford et al. 2021 (CLIP, arXiv:2103.00020, section 2.3); the candidates with the same words in
another order follow Yuksekgonul et al. 2023, "When and why vision-language models behave like
bags-of-words" (arXiv:2210.01936, section 2).

    pairs       pictures and captions as in `bakeoff.suite.tasks.emoji.emoji_scenes`; half of the
                held-out scenes have a pair of objects that does not occur in training
    inputs      `[batch, candidates, time]`, words and an end: in training only a picture's own
                caption, and the other captions of the batch are its further candidates; held out,
                16 captions, of which one, at a random index, is right
    candidates  ``candidates=1``: captions of other pictures of the split. ``candidates=2``: five of
                them name the same objects, in another order or with other relations, which a model
                that reads captions as bags of words cannot distinguish
    loss        in training, the mean of two cross-entropies: of each picture's caption among all
                captions of the batch, and of each caption's picture among all pictures
    score       recall at 1 of 16 candidates, so 1/16 by chance; recall at 5 is also scored

There is one caveat, as in the paper: captions of one batch may be equal by chance, and still count
as wrong for each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import permutations, product
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from bakeoff.models.interface import CONTEXT, IMAGE_VECTOR, INPUTS, SCALE, TEXT_VECTOR, Outputs
from bakeoff.suite.tasks.bases.captions import PictureTask, Words
from bakeoff.suite.tasks.bases.generated import GeneratedTask, definition_source
from bakeoff.suite.tasks.bases.subwords import PADDING
from bakeoff.suite.tasks.data_order import RandomStream, Whole, held_out_stream
from bakeoff.suite.tasks.emoji.atlas import SOURCE
from bakeoff.suite.tasks.emoji.emoji_scenes import (
    LENGTH,
    NUM_SYMBOLS,
    EmojiScenes,
    captions,
    draw_scenes,
    phrases,
    spelled,
)
from bakeoff.suite.tasks.emoji.scenes import (
    MOST,
    NOTHING,
    PIXEL_MEAN,
    PIXEL_STANDARD_DEVIATION,
    RELATIONS,
    Scenes,
)
from bakeoff.suite.tasks.metrics import Recall
from bakeoff.suite.tasks.task import Batch, Split, TaskError

VERSION = 1
NUM_CANDIDATES, NUM_ALIKE = 16, 5
_ALIKE = 1  # kind of candidates some of which name the same objects; 0 is the other kind


class EmojiPairs(PictureTask, GeneratedTask):
    """Choice of a picture's own caption among several."""

    name = "emoji_pairs"
    version = VERSION
    architecture = "contrastive"
    asks_for = "choice"
    fixed_length = LENGTH
    metric = Recall(name="recall_at_1", num_kept=1)
    also_scored = (Recall(name="recall_at_5", num_kept=5),)
    compares_examples = True
    floors = ("uniform", "nearest_choice")
    picture = EmojiScenes.picture
    input_size = NUM_SYMBOLS
    output_size = NUM_CANDIDATES
    pixel_mean = PIXEL_MEAN
    pixel_standard_deviation = PIXEL_STANDARD_DEVIATION
    part_titles: ClassVar[dict[str, str]] = {
        "candidates": "wrong captions",
        "candidates=1": "of other pictures",
        "candidates=2": "some of the same objects",
    }
    source = definition_source(
        name="emoji_pairs",
        title="Scenes of emoji, each with its caption among others",
        origin="this project, of emoji by OpenMoji, CC BY-SA 4.0",
        definition={
            "scenes": EmojiScenes.source.sha256,
            "candidates": NUM_CANDIDATES,
            "alike": NUM_ALIKE,
        },
        version=VERSION,
        beside=(SOURCE,),
    )

    @classmethod
    def vocabulary(cls) -> Words:
        """Return the words of the captions."""
        return phrases().words

    def draw(self, stream: RandomStream, count: int, kind: int) -> Batch:
        """Draw pictures, each with its own caption."""
        scenes = draw_scenes(stream, count, kind)
        return _asked(captions(scenes)[0][:, None], scenes, np.zeros(count, dtype=np.int64))

    def held_out(self, split: Split, batch: int) -> Iterator[Batch]:
        """Yield scenes of known pairs of objects, then those with a new one."""
        whole = _whole_split(split, self.num_held_out[split])
        for first in range(0, len(whole.targets), batch):
            yield whole.rows(slice(first, first + batch))

    def loss(self, outputs: Outputs, batch: Batch, label_smoothing: float = 0.0) -> Tensor:
        """Return the contrastive loss over the whole batch; see `Task.compares_examples`.

        Raises:
            TaskError: if the model does not return the vectors and the scale as auxiliary outputs.
        """
        for name in (IMAGE_VECTOR, TEXT_VECTOR, SCALE):
            if name not in outputs.auxiliary:
                raise TaskError(f"{self.name}: a model must return {name!r} in Outputs.auxiliary")
        images, texts = outputs.auxiliary[IMAGE_VECTOR], outputs.auxiliary[TEXT_VECTOR][:, 0]
        logits = outputs.auxiliary[SCALE].mean() * images @ texts.T
        own = torch.arange(len(logits), device=logits.device)
        sides = [cross_entropy(x, own, label_smoothing=label_smoothing) for x in (logits, logits.T)]
        return (sides[0] + sides[1]) / 2

    def parts(self) -> tuple[str, ...]:
        """Return the parts by the kind of wrong captions."""
        return ("candidates=1", "candidates=2")

    def in_parts(self, batch: Batch) -> dict[str, Tensor]:
        """Return the parts that the batch records."""
        assert batch.part is not None, "see `_whole_split`"
        return {at: batch.part == kind for kind, at in enumerate(self.parts())}


def _asked(candidates: Whole, scenes: Scenes, targets: Whole) -> Batch:
    """Return a batch of candidates `[scenes, candidates, time]`, with `targets` as answers."""
    texts, part = torch.from_numpy(candidates), torch.zeros(len(targets), dtype=torch.int64)
    given = {
        INPUTS: texts,
        "mask": texts != PADDING,
        CONTEXT: torch.from_numpy(scenes.painted()),
    }
    return Batch(inputs=given, targets=torch.from_numpy(targets), part=part)


@lru_cache(maxsize=2)
def _whole_split(split: Split, num_examples: int) -> Batch:
    """Return both kinds of scenes, each with both kinds of candidates in turn."""
    stream = held_out_stream(split)
    kinds = EmojiScenes(LENGTH).held_out_kinds(split)
    drawn = [draw_scenes(stream, num_examples // len(kinds), kind) for kind in kinds]
    scenes = Scenes(
        objects=np.concatenate([each.objects for each in drawn]),
        places=np.concatenate([each.places for each in drawn]),
    )
    own, count = captions(scenes)[0], len(scenes.objects)
    kind = np.arange(count) % 2
    wrong = _of_others(stream, own)
    for number in np.flatnonzero(kind == _ALIKE):
        alike = _alike(stream, scenes, int(number), own[number])
        is_new = (wrong[number][:, None] != alike).any(axis=-1).all(axis=-1)
        others = wrong[number][is_new][: NUM_CANDIDATES - 1 - NUM_ALIKE]
        wrong[number] = np.concatenate([alike, others])
    place = stream.integers(count, low=0, high=NUM_CANDIDATES)
    candidates = np.concatenate([own[:, None], wrong], axis=1)
    rows = np.arange(count)
    candidates[rows, 0], candidates[rows, place] = (
        candidates[rows, place].copy(),
        candidates[rows, 0].copy(),
    )
    found = _asked(candidates, scenes, place)
    return Batch(inputs=found.inputs, targets=found.targets, part=torch.from_numpy(kind))


def _of_others(stream: RandomStream, own: Whole) -> Whole:
    """Draw captions of the split, distinct and all wrong, `[scenes, candidates - 1, time]`."""
    known, which = np.unique(own, axis=0, return_inverse=True)
    drawn = stream.distinct(len(own), NUM_CANDIDATES - 1, len(known) - 1)
    found: Whole = known[drawn + (drawn >= which.reshape(-1, 1))]
    return found


def _alike(stream: RandomStream, scenes: Scenes, number: int, own: Whole) -> Whole:
    """Draw distinct wrong captions of the same objects, `[NUM_ALIKE, time]`."""
    objects = scenes.objects[number]
    present = [int(each) for each in objects if each != NOTHING]
    between = [RELATIONS.index(name) for name in RELATIONS if name != "right of"]
    ways = product(permutations(present), product(between, repeat=len(present) - 1))
    rows = list(ways)
    named = np.full((len(rows), MOST), NOTHING)
    related = np.full((len(rows), MOST), NOTHING)
    for row, (order, relation) in enumerate(rows):
        named[row, : len(order)], related[row, 1 : len(order)] = order, relation
    written = spelled(named, related)[0]
    wrong = written[(written != own).any(axis=1)]
    chosen: Whole = wrong[stream.distinct(1, NUM_ALIKE, len(wrong))[0]]
    return chosen
