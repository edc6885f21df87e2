"""The mean picture, and the picture whose caption is nearest, where both are known."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import pytest
import torch

from models.interface import Input
from suite.floors.registry import floor
from suite.tasks.batch import Batch
from suite.tasks.emoji.emoji_pictures import EmojiPictures
from suite.tasks.emoji.emoji_scenes import EmojiScenes
from suite.tasks.emoji.emoji_tokens import EmojiTokens
from suite.tasks.emoji.picture_metrics import PixelError
from suite.tasks.task import Split, Task
from tests.suite.floors.tiny import SOURCE
from tests.suite.floors.tiny_pictures import FILLER, Row, filled, pictures_of


class Drawings(Task):
    """Captions begin with a 1; the pictures of alike captions are alike."""

    name = "drawings"
    architecture = "image_tokens"
    asks_for = "drawing"
    source = SOURCE
    metric = PixelError(is_drawn=True)
    input_size, output_size, lengths = 10, 1, (6, 6)
    training: ClassVar[list[Row]] = [
        ([1, 0], [1, 3, 4, 5]),
        ([2, 0], [1, 5, 4, 3]),
        ([3, 0], [1, 3]),
        ([4, 0], [1, 6, 7, 8, 9]),
    ]
    test: ClassVar[list[Row]] = [
        ([1, 0], [1, 3, 4, 5, 2]),  # a word more than the first
        ([2, 0], [1, 5, 4, 3]),  # the words of the first, in the order of the second
        ([3, 2], [1, 3, 8]),
    ]

    @classmethod
    def other_inputs(cls, length: int) -> dict[str, Input]:
        return {"context": Input(kind="image", size=1, length=2, grid=(1, 2))}

    def num_training_examples(self) -> int:
        return len(self.training)

    def training_batch(self, step: int, batch: int, seed: int) -> Batch:
        return self._batch_of([self.training[(step * batch + n) % 4] for n in range(batch)])

    def held_out(self, split: Split, batch: int) -> Iterator[Batch]:
        assert split == "test", "nothing is to be chosen"
        yield self._batch_of(self.test)

    def _batch_of(self, rows: list[Row]) -> Batch:
        texts = filled([words for _, words in rows], 6, FILLER)
        given = {"inputs": texts, "mask": texts != FILLER, "context": pictures_of(rows)}
        return Batch(inputs=given, targets=pictures_of(rows))


def test_a_caption_has_the_picture_of_the_one_with_most_words_in_common() -> None:
    """Pairs of neighbours say in which order; the third has but one word of its own picture's."""
    assert floor("nearest_drawing").suits(Drawings)
    assert floor("nearest_drawing").score(Drawings(6)) == pytest.approx(2**2 / 6)


class Returned(Drawings):
    """The same pictures, to be given back."""

    asks_for = "image"
    metric = PixelError()


def test_the_mean_picture_is_that_of_the_training_data() -> None:
    assert floor("mean_picture").suits(Returned)
    mean = torch.tensor([2.5, 0])
    asked = torch.tensor([[1.0, 0], [2, 0], [3, 2]])
    wanted = (asked - mean).square().mean().item()
    assert floor("mean_picture").score(Returned(6)) == pytest.approx(wanted)


def test_each_asks_for_what_it_needs() -> None:
    for name, suited in (("mean_picture", EmojiPictures), ("nearest_drawing", EmojiTokens)):
        for task in (EmojiPictures, EmojiTokens, EmojiScenes):
            assert floor(name).suits(task) == (task is suited)
