"""Test that scenes match their captions and boxes, and that pairs stay in their splits."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, pairwise

import numpy as np
import pytest
import torch

from bakeoff.suite.tasks.bases.captions import Words, captioned, with_article
from bakeoff.suite.tasks.batch import joined
from bakeoff.suite.tasks.emoji.atlas import atlas
from bakeoff.suite.tasks.emoji.emoji_scenes import (
    KNOWN,
    LENGTH,
    OF_TEST,
    OF_VALIDATION,
    EmojiScenes,
    kinds_of_pairs,
)
from bakeoff.suite.tasks.emoji.scenes import CANVAS, GLYPH
from bakeoff.suite.tasks.sequence_metrics import Bleu
from bakeoff.suite.tasks.task import UNSCORED, Batch, Split

TASK = EmojiScenes(LENGTH)
Box = tuple[int, ...]


def _training(num_scenes: int = 200) -> Batch:
    return TASK.training_batch(5, num_scenes, seed=1)


def _captions(batch: Batch) -> Iterator[str]:
    for row in batch.targets:
        yield TASK.text(row[row != UNSCORED].tolist())


def _objects(batch: Batch, row: int) -> list[tuple[str, Box]]:
    """Return the names and boxes of a scene's objects, in caption order."""
    assert batch.boxes is not None
    found: dict[Box, list[str]] = {}
    for symbol, box in zip(batch.targets[row].tolist(), batch.boxes[row].tolist(), strict=True):
        if box[0] >= 0:
            found.setdefault(tuple(box), []).append(TASK.text([symbol]))
    return [(" ".join(words), box) for box, words in found.items()]


def _expected(objects: list[tuple[str, Box]]) -> str:
    """Return the caption by its definition, in a plain loop."""
    ordered = sorted(objects, key=lambda each: each[1][1])
    words = [with_article(ordered[0][0])]
    for (_, one), (name, other) in pairwise(ordered):
        down, across = other[0] - one[0], other[1] - one[1]
        assert across >= 3
        assert abs(across - abs(down)) >= 3
        relation = "left of" if across > abs(down) else "above" if down > 0 else "below"
        words.append(f"{relation} {with_article(name)}")
    return " ".join(words)


def test_a_caption_is_the_one_that_the_boxes_ask_for() -> None:
    batch = _training()
    captions = list(_captions(batch))
    assert [_expected(_objects(batch, row)) for row in range(len(captions))] == captions
    assert {len(_objects(batch, row)) for row in range(len(captions))} == {2, 3, 4}
    assert {"above", "below", "left"} <= {word for each in captions for word in each.split()}


def test_the_picture_shows_each_object_in_its_box_and_nothing_else() -> None:
    batch, held = _training(60), atlas()
    deviation, mean = map(torch.tensor, (TASK.pixel_standard_deviation, TASK.pixel_mean))
    pictures = (batch.inputs["context"] * deviation + mean) * 255
    for row, picture in enumerate(pictures.numpy()):
        expected = np.full((CANVAS, CANVAS, 3), 255.0)
        for name, (top, left, bottom, right) in _objects(batch, row):
            glyph = held.glyphs[held.objects.index(name)].astype(float)
            halved = (glyph[::2, ::2] + glyph[1::2, ::2] + glyph[::2, 1::2] + glyph[1::2, 1::2]) / 4
            assert (expected[top:bottom, left:right] == 255).all(), "one covers another"
            expected[top:bottom, left:right] = halved
            assert (bottom - top, right - left) == (GLYPH, GLYPH)
        np.testing.assert_allclose(picture, expected, atol=0.01)


def test_articles_relations_ends_and_fillers_have_no_box() -> None:
    batch = _training(50)
    assert batch.boxes is not None
    nouns = {word for name in atlas().objects for word in name.split()}
    for symbols, boxes in zip(batch.targets.tolist(), batch.boxes.tolist(), strict=True):
        for symbol, box in zip(symbols, boxes, strict=True):
            is_noun = symbol != UNSCORED and TASK.text([symbol]) in nouns
            assert (box != [-1] * 4) == is_noun


def _pairs(batch: Batch, row: int) -> set[int]:
    """Return the kinds of the pairs in a scene."""
    names = [atlas().objects.index(name) for name, _ in _objects(batch, row)]
    assert len(set(names)) == len(names)
    return {int(kinds_of_pairs()[pair]) for pair in combinations(names, 2)}


def test_no_pair_that_is_held_out_stands_in_a_training_scene() -> None:
    batch = _training(400)
    assert all(_pairs(batch, row) == {KNOWN} for row in range(400))


@pytest.mark.parametrize(("split", "kind"), [("validation", OF_VALIDATION), ("test", OF_TEST)])
def test_a_held_out_split_has_its_own_pairs_in_one_half(split: Split, kind: int) -> None:
    whole = joined(list(TASK.held_out(split, 500)))
    is_new = TASK.in_parts(whole)["pairs=2"][:, 0]
    assert is_new.sum() * 2 == len(is_new) == TASK.num_held_out[split]
    for row in range(0, len(is_new), 7):
        kinds = _pairs(whole, row)
        assert kinds <= {KNOWN, kind}
        assert (kind in kinds) == bool(is_new[row])


def test_about_a_tenth_of_the_pairs_is_of_each_held_out_split() -> None:
    table = kinds_of_pairs()
    assert (table == table.T).all()
    counts = np.bincount(table[np.triu_indices(len(table), 1)])
    assert counts.sum() == 780
    assert (abs(counts[1:] - 78) < 25).all()


def test_every_object_comes_and_no_number_of_them_is_rare() -> None:
    batch = _training(600)
    found = [[name for name, _ in _objects(batch, row)] for row in range(600)]
    assert {name for names in found for name in names} == set(atlas().objects)
    counts = np.bincount([len(names) for names in found], minlength=5)[2:]
    assert (abs(counts - 200) < 60).all()


def test_boxes_and_parts_are_the_same_again_and_stay_with_their_rows() -> None:
    batch, again = _training(8), EmojiScenes(LENGTH).training_batch(5, 8, seed=1)
    assert batch.boxes is not None
    assert again.boxes is not None
    assert torch.equal(batch.boxes, again.boxes)
    rows = batch.rows(slice(2, 4)).boxes
    assert rows is not None
    assert torch.equal(rows, batch.boxes[2:4])


def test_a_word_before_a_vowel_has_the_other_article() -> None:
    assert with_article("orange book") == "an orange book"
    assert with_article("red apple") == "a red apple"
    assert any(" an " in caption for caption in _captions(_training()))


def test_the_inputs_are_the_targets_one_place_later() -> None:
    inputs, targets = captioned(np.array([[5, 6, 2, 0]]), np.zeros((1, 2, 2, 3), np.float32))
    assert inputs["inputs"].tolist() == [[1, 5, 6, 0]]
    assert inputs["mask"].tolist() == [[True, True, True, False]]
    assert targets.tolist() == [[5, 6, 2, UNSCORED]]


def test_words_are_symbols_and_symbols_words() -> None:
    words = Words(["a dog", "a red cat"])
    assert words.encoded("a red dog") == [3, 6, 5]
    assert words.decoded([1, 3, 6, 5, 2, 0]) == "a red dog"
    assert words.words([1, 3, 5]) == [("a", range(1, 2)), ("dog", range(2, 3))]
    assert len(words) == 7


def test_a_perfect_caption_scores_100() -> None:
    assert isinstance(TASK.metric, Bleu)
    batch = next(TASK.held_out("test", 16))
    written = [row[row > 2].tolist() for row in batch.targets]
    assert TASK.metric.value(TASK.metric.sums_of_written(written, batch)) == pytest.approx(100)
