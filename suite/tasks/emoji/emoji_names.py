"""Name an emoji: pictures with their Unicode names.

    picture   2,093 emoji, 32 x 32 pixels, no two alike
    caption   the name, one to eleven of 214 words, each of which is in four names or more: "woman
              farmer medium skin tone", "couple with heart man man dark skin tone light skin tone"
    symbols   and the score: see `bakeoff.suite.tasks.bases.captions`; by number of words:
    ``words=5`` splits    by the SHA-256 of the name: of twenty parts one is for validation, three
    are for test

    split        images
    training     1,684
    validation   114
    test         295

Most are people: of a profession or a sport, a gender and a skin tone. The held-out names are
therefore compositions of known words, such as a farmer whose training pictures have another gender
or skin tone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from bakeoff.suite.tasks.bases.captions import CaptionTask, Words, captioned
from bakeoff.suite.tasks.bases.images import scaled
from bakeoff.suite.tasks.bases.subwords import END, PADDING
from bakeoff.suite.tasks.data_order import Whole, shuffled_indices
from bakeoff.suite.tasks.emoji.atlas import SIDE, SOURCE, atlas
from bakeoff.suite.tasks.task import Batch, Split

NUM_PARTS, VALIDATION_PARTS, TEST_PARTS = 20, (0,), (1, 2, 3)
NUM_SYMBOLS = 217
MOST_WORDS = (3, 5, 7, 11)  # largest number of words in each part


@dataclass(frozen=True)
class NamedImages:
    """The emoji of a split.

    Attributes:
        images: `[images, 32, 32, 3]`, standardised for a model.
        names: `[images, time]`, the words of each and its end symbol, padded at the end.
    """

    images: NDArray[np.float32]
    names: Whole

    def batch(self, chosen: slice | Whole) -> Batch:
        """Return the chosen emoji as a batch."""
        inputs, targets = captioned(self.names[chosen].copy(), self.images[chosen].copy())
        return Batch(inputs=inputs, targets=targets)


class EmojiNames(CaptionTask):
    """Captioning of emoji with their names."""

    name = "emoji_names"
    source = SOURCE
    fixed_length = MOST_WORDS[-1] + 1
    picture = (SIDE, SIDE)
    input_size = NUM_SYMBOLS
    output_size = NUM_SYMBOLS
    pixel_mean = (0.8314, 0.8207, 0.7925)
    pixel_standard_deviation = (0.2894, 0.3014, 0.3409)
    part_titles: ClassVar[dict[str, str]] = {
        "words": "words of the name",
        **{f"words={most}": f"{fewer + 1} to {most}" for fewer, most in pairwise((0, *MOST_WORDS))},
    }

    @classmethod
    def vocabulary(cls) -> Words:
        """Return the words of all names."""
        return _vocabulary()

    def num_training_examples(self) -> int:
        """Return the number of training emoji."""
        return len(_split("training").names)

    def training_batch(self, step: int, batch: int, seed: int) -> Batch:
        """Return a batch, drawn without replacement in each epoch, in an order of its own."""
        count = self.num_training_examples()
        chosen = shuffled_indices(seed=seed, step=step, batch=batch, num_examples=count)
        return _split("training").batch(chosen)

    def held_out(self, split: Split, batch: int) -> Iterator[Batch]:
        """Yield the split's emoji in Unicode's order."""
        found = _split(split)
        for first in range(0, len(found.names), batch):
            yield found.batch(slice(first, first + batch))

    def parts(self) -> tuple[str, ...]:
        """Return one part for each largest number of words."""
        return tuple(f"words={most}" for most in MOST_WORDS)

    def in_parts(self, batch: Batch) -> dict[str, Tensor]:
        """Return the parts by the number of words; the mask also counts the start symbol."""
        num_words = batch.inputs["mask"].sum(dim=1, keepdim=True) - 1
        return {
            f"words={most}": ((fewer < num_words) & (num_words <= most)).expand(batch.targets.shape)
            for fewer, most in pairwise((0, *MOST_WORDS))
        }


def split_of(name: str) -> str:
    """Return the split of a name."""
    part = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8]) % NUM_PARTS
    if part in TEST_PARTS:
        return "test"
    return "validation" if part in VALIDATION_PARTS else "training"


@cache
def _vocabulary() -> Words:
    words = Words(atlas().names)
    assert len(words) == NUM_SYMBOLS, "the vocabulary is part of the task"
    return words


@cache
def _split(split: str) -> NamedImages:
    held, words = atlas(), _vocabulary()
    chosen = [place for place, name in enumerate(held.names) if split_of(name) == split]
    names = np.full((len(chosen), EmojiNames.fixed_length), PADDING, dtype=np.int64)
    for row, place in enumerate(chosen):
        symbols = [*words.encoded(held.names[place]), END]
        names[row, : len(symbols)] = symbols
    task = EmojiNames
    images = scaled(held.images[chosen], task.pixel_mean, task.pixel_standard_deviation)
    return NamedImages(images, names)
