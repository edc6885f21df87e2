"""Test that hidden words are masked, targets are the originals, and held-out masks are fixed."""

import pytest
import torch

from bakeoff.suite.tasks.shakespeare_characters import VOCABULARY, ShakespeareCharacters, read_plays
from bakeoff.suite.tasks.shakespeare_masked import HIDDEN, ShakespeareMasked
from bakeoff.suite.tasks.task import UNSCORED, Batch, Split

SPLITS: tuple[Split, ...] = ("validation", "test")


def _restored(batch: Batch) -> torch.Tensor:
    return torch.where(batch.inputs["inputs"] == HIDDEN, batch.targets, batch.inputs["inputs"])


@pytest.mark.parametrize(("length", "num_hidden"), [(128, 19), (100, 15), (1, 1), (3, 1)])
def test_15_percent_of_a_window_are_hidden(length: int, num_hidden: int) -> None:
    batch = ShakespeareMasked(length).training_batch(0, 20, seed=0)
    assert ((batch.inputs["inputs"] == HIDDEN).sum(dim=1) == num_hidden).all()
    assert torch.equal(batch.targets != UNSCORED, batch.inputs["inputs"] == HIDDEN)


def test_the_answers_put_back_give_the_text() -> None:
    batch = ShakespeareMasked(128).training_batch(4, 16, seed=1)
    unmasked = ShakespeareCharacters(128).training_batch(4, 16, seed=1)
    assert torch.equal(_restored(batch), unmasked.inputs["inputs"])


def test_every_place_of_a_window_is_hidden_as_often() -> None:
    task = ShakespeareMasked(20)
    hidden = torch.cat(
        [task.training_batch(step, 500, seed=0).inputs["inputs"] == HIDDEN for step in range(10)]
    )
    assert (hidden.double().mean(dim=0) - 0.15).abs().max() < 0.02


def test_held_out_windows_hide_different_places() -> None:
    hidden = next(ShakespeareMasked(96).held_out("test", 50)).inputs["inputs"] == HIDDEN
    assert len({tuple(row.tolist()) for row in hidden}) == 50


def test_held_out_windows_are_those_of_the_plays() -> None:
    batch = next(ShakespeareMasked(128).held_out("test", 10))
    text = "".join(VOCABULARY[token] for token in _restored(batch).flatten().tolist())
    assert text == read_plays()["comedies/twelfth-night"][:1280]


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("length", [64, 100, 1000])
def test_the_number_of_scored_characters_hardly_depends_on_the_length(
    split: Split, length: int
) -> None:
    batches = ShakespeareMasked(length).held_out(split, 512)
    count = sum(int((batch.targets != UNSCORED).sum()) for batch in batches)
    assert 9_600 <= count // {"validation": 1, "test": 2}[split] <= 10_300


def test_nothing_of_a_filled_tail_is_asked_for() -> None:
    *_, last = ShakespeareMasked(30_000).held_out("validation", 1)
    asked = (last.targets[0] != UNSCORED).nonzero().flatten()
    assert 300 < len(asked) < 530
    assert asked.max() < 2_768


def test_a_person_reads_the_text_with_gaps() -> None:
    task = ShakespeareMasked(100)
    text = task.text(next(task.held_out("test", 1)).inputs["inputs"][0].tolist())
    assert text.count("_") == 15
    play = read_plays()["comedies/twelfth-night"]
    assert all(shown in ("_", there) for shown, there in zip(text, play, strict=False))
