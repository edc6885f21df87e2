"""Test that the right caption occurs once among the candidates and that others are wrong."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import pytest
import torch

from bakeoff.models.interface import Outputs
from bakeoff.suite.tasks.batch import joined
from bakeoff.suite.tasks.emoji.emoji_pairs import LENGTH, NUM_ALIKE, NUM_CANDIDATES, EmojiPairs
from bakeoff.suite.tasks.emoji.emoji_scenes import EmojiScenes
from bakeoff.suite.tasks.task import UNSCORED, Batch, TaskError

TASK = EmojiPairs(LENGTH)


@cache
def _test_split() -> Batch:
    return joined(list(TASK.held_out("test", 500)))


def _candidates(batch: Batch) -> Iterator[tuple[list[str], int]]:
    for row, target in zip(batch.inputs["inputs"].tolist(), batch.targets.tolist(), strict=True):
        yield [TASK.text(symbols) for symbols in row], target


def _names(caption: str) -> list[str]:
    """Return the object names of a caption, sorted."""
    for word in ("left of", "above", "below"):
        caption = caption.replace(word, "|")
    return sorted(name.strip() for name in caption.split("|"))


def test_a_training_picture_has_the_caption_of_its_scene() -> None:
    """Compare with the captioning task, which draws the same scenes."""
    batch = TASK.training_batch(4, 50, seed=2)
    other = EmojiScenes(LENGTH).training_batch(4, 50, seed=2)
    assert torch.equal(batch.inputs["context"], other.inputs["context"])
    assert batch.inputs["inputs"].shape == (50, 1, LENGTH)
    asked = other.targets.masked_fill(other.targets == UNSCORED, 0)
    assert torch.equal(batch.inputs["inputs"][:, 0], asked)
    assert torch.equal(batch.inputs["mask"][:, 0], asked != 0)
    assert not batch.targets.any()


@pytest.mark.whole
def test_candidates_differ_and_the_target_is_anywhere() -> None:
    split = _test_split()
    assert split.inputs["inputs"].shape[1:] == (NUM_CANDIDATES, LENGTH)
    for texts, _ in _candidates(split):
        assert len(set(texts)) == NUM_CANDIDATES
    counts = torch.bincount(split.targets, minlength=NUM_CANDIDATES) / len(split.targets)
    assert counts.min() > 0.5 / NUM_CANDIDATES
    assert counts.max() < 1.5 / NUM_CANDIDATES


def test_some_wrong_captions_of_every_second_picture_name_its_objects() -> None:
    split = _test_split()
    assert split.part is not None
    for (texts, target), kind in zip(_candidates(split), split.part.tolist(), strict=True):
        alike = [_names(text) == _names(texts[target]) for text in texts]
        assert sum(alike) - 1 >= NUM_ALIKE * kind
        if kind == 0:  # another picture may contain the same objects
            assert sum(alike) <= 3
    of_kinds = [int((split.part == kind).sum()) for kind in (0, 1)]
    assert of_kinds == [1_000, 1_000]


def test_the_target_is_what_the_picture_shows() -> None:
    """Compare with the captioning task, which holds out the same scenes."""
    scenes = joined(list(EmojiScenes(LENGTH).held_out("test", 500)))
    split = _test_split()
    same = (scenes.inputs["context"] == split.inputs["context"][:1]).flatten(1).all(dim=1)
    (row,) = same.nonzero().flatten().tolist()
    symbols = scenes.targets[row][scenes.targets[row] != UNSCORED].tolist()
    texts, target = next(_candidates(split))
    assert texts[target] == EmojiScenes(LENGTH).text(symbols)


def test_a_candidate_that_ties_with_the_target_stands_before_it() -> None:
    metric, other = TASK.metric, TASK.also_scored[0]
    targets = torch.tensor([2, 0, 1])
    logits = torch.zeros(3, NUM_CANDIDATES)
    logits[1, 0], logits[2, :4] = 1.0, torch.tensor([3.0, 2.0, 2.0, 1.0])
    batch = Batch(inputs={}, targets=targets)
    assert metric.value(metric.sums(Outputs(logits), batch)) == pytest.approx(1 / 3)
    assert other.value(other.sums(Outputs(logits), batch)) == pytest.approx(2 / 3)


def test_a_model_without_vectors_is_refused_in_a_sentence() -> None:
    batch = TASK.training_batch(0, 2, seed=0)
    with pytest.raises(TaskError, match=r"must return 'image_vector' in Outputs\.auxiliary"):
        TASK.loss(Outputs(torch.zeros(2, 1)), batch)
