"""Test the drawing task: coarse positions, held-out pairs, no leak of the picture to the model."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from bakeoff.suite.tasks.data_order import RandomStream
from bakeoff.suite.tasks.emoji.emoji_pictures import EmojiPictures
from bakeoff.suite.tasks.emoji.emoji_scenes import (
    KNOWN,
    LENGTH,
    OF_TEST,
    OF_VALIDATION,
    draw_scenes,
)
from bakeoff.suite.tasks.emoji.emoji_tokens import EmojiTokens
from bakeoff.suite.tasks.emoji.reading import APART, PicturesRight
from bakeoff.suite.tasks.emoji.scenes import NOTHING

PIXELS = 48 * 48


@pytest.mark.parametrize("kind", [KNOWN, OF_VALIDATION, OF_TEST])
def test_objects_stand_where_whole_tokens_do(kind: int) -> None:
    scenes = draw_scenes(RandomStream(3, 2), 200, kind, apart=APART)
    places = scenes.places[scenes.objects != NOTHING]
    assert not (places % APART).any()
    assert {int(each) for each in np.unique(places)} == {0, 8, 16, 24, 32}


def test_what_is_asked_for_is_the_picture_of_the_caption() -> None:
    task, metric = EmojiTokens(LENGTH), PicturesRight()
    for batch in (task.training_batch(0, 8, seed=1), next(task.held_out("test", 8))):
        assert torch.equal(batch.targets, batch.inputs["context"])
        assert metric.value(metric.sums_of(batch.targets, batch)) == 1
        others = metric.sums_of(batch.targets.roll(1, dims=0), batch)
        assert metric.value(others) < 1


def test_both_trainings_are_on_the_same_kind_of_pictures() -> None:
    tokens, pictures = EmojiTokens(LENGTH), EmojiPictures(PIXELS)
    for split in ("validation", "test"):
        one, other = (next(task.held_out(split, 500)) for task in (tokens, pictures))
        assert torch.equal(one.targets, other.targets)
        assert torch.equal(other.inputs["inputs"], other.targets)
    assert torch.equal(
        tokens.training_batch(4, 8, seed=2).targets, pictures.training_batch(4, 8, seed=2).targets
    )


def test_half_of_what_is_held_out_has_a_new_pair() -> None:
    for task in (EmojiTokens(LENGTH), EmojiPictures(PIXELS)):
        whole = next(task.held_out("test", 2_000))
        assert whole.part is not None
        assert whole.part.tolist() == [0] * 1_000 + [1] * 1_000
        parts = task.in_parts(whole)
        assert parts["pairs=2"][1_000:].all()
        assert not parts["pairs=2"][:1_000].any()
