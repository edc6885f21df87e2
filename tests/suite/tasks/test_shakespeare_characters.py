"""Test that the text is the announced one and that training never contains held-out plays."""

import math

import numpy as np
import pytest
import torch

from bakeoff.models.interface import Outputs
from bakeoff.suite.tasks.shakespeare_characters import (
    HELD_OUT_PLAYS,
    SCORED_CHARACTERS_PER_PLAY,
    VOCABULARY,
    ShakespeareCharacters,
    read_plays,
)
from bakeoff.suite.tasks.task import UNSCORED, Split

corpus = ShakespeareCharacters.read
SPLITS: tuple[Split, ...] = ("validation", "test")


def _decode(tokens: torch.Tensor) -> str:
    return "".join(VOCABULARY[token] for token in tokens.flatten().tolist())


def test_the_counts_are_the_recorded_ones() -> None:
    plays = read_plays()
    text = "".join(plays.values())
    assert len(plays) == 38
    assert len(text) == 4_957_113
    assert len(text.split()) == 902_300
    assert "".join(sorted(set(text))) == VOCABULARY
    assert len(VOCABULARY) == 81


def test_no_markup_is_left() -> None:
    for name, text in read_plays().items():
        assert not set("*_#") & set(text), name
        assert " \n" not in text, name
        assert "\n " not in text, name
        assert text.startswith(text.strip()), name


def test_known_lines_stand_where_they_should() -> None:
    plays = read_plays()
    assert "To be, or not to be: that is the question:" in plays["tragedies/hamlet"]
    assert plays["tragedies/macbeth"].startswith("Macbeth\n\nACT I\n\nSCENE I. A desert place.\n")


def test_the_three_splits_are_all_the_plays() -> None:
    plays = read_plays()
    held_out = [name for names in HELD_OUT_PLAYS.values() for name in names]
    assert len(held_out) == len(set(held_out)) == 4
    training = "".join(text for name, text in plays.items() if name not in held_out)
    assert len(corpus().training) == len(training) == 4_471_317
    assert _decode(torch.from_numpy(corpus().training[:1000])) == training[:1000]


def test_every_symbol_is_seen_in_training() -> None:
    assert len(np.unique(corpus().training)) == len(VOCABULARY)


@pytest.mark.whole
def test_no_50_characters_of_a_held_out_text_stand_in_training() -> None:
    for split in SPLITS:
        for play in corpus().held_out[split]:
            scored = play[: SCORED_CHARACTERS_PER_PLAY[split] + 1]
            assert not _is_shared(scored, corpus().training, 50).any()


def test_a_shared_text_would_be_found() -> None:
    training = corpus().training
    piece = np.concatenate([corpus().held_out["test"][0][:100], training[70_000:70_050]])
    assert np.flatnonzero(_is_shared(piece, training, 50)).tolist() == [100]


def _is_shared(text: np.ndarray, training: np.ndarray, width: int) -> np.ndarray:
    """Return a mask of the runs of `width` tokens that also occur in the training text."""
    runs, known = _window_hashes(text, width), _window_hashes(training, width)
    # The first 24 bits of the hash leave few of the four million runs to compare in full.
    is_candidate = np.zeros(2**24, dtype=bool)
    is_candidate[runs >> np.uint64(40)] = True
    return np.isin(runs, known[is_candidate[known >> np.uint64(40)]])


def _window_hashes(tokens: np.ndarray, width: int) -> np.ndarray:
    """Return a hash of each run of `width` tokens: a polynomial modulo 2**64."""
    count = len(tokens) - width + 1
    hashes = np.zeros(count, dtype=np.uint64)
    for place in range(width):
        hashes *= np.uint64(6_364_136_223_846_793_005)
        hashes += tokens[place : place + count]
    return hashes


def test_targets_are_the_characters_that_follow() -> None:
    batch = ShakespeareCharacters(200).training_batch(0, 16, seed=0)
    assert torch.equal(batch.inputs["inputs"][:, 1:], batch.targets[:, :-1])
    training = _decode(torch.from_numpy(corpus().training))
    for inputs, targets in zip(batch.inputs["inputs"], batch.targets, strict=True):
        assert _decode(inputs) + _decode(targets[-1]) in training


def test_training_windows_reach_both_ends_of_the_text() -> None:
    length = len(corpus().training) - 2
    task = ShakespeareCharacters.__new__(ShakespeareCharacters)
    task.length = length  # leaves two start positions
    firsts = {
        tuple(task.training_batch(step, 1, seed=0).inputs["inputs"][0, :5].tolist())
        for step in range(12)
    }
    text = corpus().training
    assert firsts == {tuple(text[:5].tolist()), tuple(text[1:6].tolist())}


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("length", [128, 100, 1, 40_000, 70_000])
def test_each_scored_character_is_predicted_once_at_every_length(split: Split, length: int) -> None:
    targets = torch.cat(
        [batch.targets.flatten() for batch in ShakespeareCharacters(length).held_out(split, 2048)]
    )
    num_scored = SCORED_CHARACTERS_PER_PLAY[split]
    expected = [torch.from_numpy(play[1 : num_scored + 1]) for play in corpus().held_out[split]]
    assert torch.equal(targets[targets != UNSCORED], torch.cat(expected).long())


def test_windows_of_a_held_out_play_follow_each_other() -> None:
    batch = next(ShakespeareCharacters(128).held_out("test", 10))
    assert _decode(batch.inputs["inputs"]) == read_plays()["comedies/twelfth-night"][:1280]
    assert torch.equal(batch.inputs["inputs"][1:, 0], batch.targets[:-1, -1])


@pytest.mark.parametrize("split", SPLITS)
def test_a_uniform_predictor_needs_log2_81_bits(split: Split) -> None:
    task = ShakespeareCharacters(500)
    sums = sum(
        task.metric.sums(Outputs(torch.zeros(*batch.targets.shape, 81)), batch)
        for batch in task.held_out(split, 16)
    )
    assert sums[1] == {"validation": 65_536, "test": 131_072}[split]
    assert task.metric.value(sums) == pytest.approx(math.log2(81), rel=1e-6)


def test_the_score_of_character_frequencies_is_their_cross_entropy() -> None:
    """Check the unigram level of 4.80 bits, which any model that learns soon beats."""
    frequencies = np.bincount(corpus().training, minlength=81) / len(corpus().training)
    scored = np.concatenate([play[1:65_537] for play in corpus().held_out["test"]])
    logits = torch.from_numpy(frequencies).log().float()
    task = ShakespeareCharacters(512)
    bits = task.metric.over(
        task.metric.sums(Outputs(logits.expand(*batch.targets.shape, 81)), batch)
        for batch in task.held_out("test", 32)
    )
    assert bits == pytest.approx(-np.log2(frequencies)[scored].mean(), rel=1e-6)
    assert bits == pytest.approx(4.80, abs=0.005)
