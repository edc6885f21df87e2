"""Compare texts, labels and splits with those of the source tasks, in other symbols."""

from __future__ import annotations

import numpy as np
import pytest

from bakeoff.suite.tasks.bases.labelled_texts import PADDING
from bakeoff.suite.tasks.movie_reviews import MovieReviews
from bakeoff.suite.tasks.pretraining.corpora import BEGIN, END, corpora, encoded, vocabulary
from bakeoff.suite.tasks.pretraining.labelled import (
    MOST_WORDS,
    PASSAGES_PER_PLAY,
    GlossesInWords,
    InWords,
    PlaysInWords,
    ReviewsInWords,
)
from bakeoff.suite.tasks.wordnet_glosses import WordnetGlosses


@pytest.mark.whole
@pytest.mark.parametrize(
    ("task", "origin"), [(ReviewsInWords, MovieReviews), (GlossesInWords, WordnetGlosses)]
)
def test_labels_and_splits_are_those_of_the_task_that_has_the_texts(
    task: type[InWords], origin: type
) -> None:
    for part in ("training", "validation", "test"):
        own, theirs = (
            each.data().training if part == "training" else each.data().held_out[part]
            for each in (task, origin)
        )
        assert (own.labels == theirs.labels).all()
        known, names = vocabulary(), origin.data().vocabulary
        for mine, other in zip(own.inputs[:50], theirs.inputs[:50], strict=True):
            both = [(known[a], names[b]) for a, b in zip(mine, other, strict=True)]
            assert all(a == b or "<unknown>" in (a, b) for a, b in both)


def test_a_text_is_framed_cut_and_padded() -> None:
    short, long = encoded(["a", "dog"]), encoded(["a"] * 20)
    examples = ReviewsInWords.data().training[:2]
    inputs = np.empty(2, dtype=object)
    inputs[:] = [short, long]
    batch = ReviewsInWords(8).batch_of(type(examples)(inputs=inputs, labels=examples.labels))
    assert batch.inputs["inputs"][0].tolist() == [BEGIN, *short, END, *[PADDING] * 4]
    assert batch.inputs["inputs"][1].tolist() == [BEGIN, *long[:6], END]
    assert batch.inputs["mask"].sum(dim=1).tolist() == [4, 8]


def test_passages_are_of_the_plays_that_they_are_said_to_be_of() -> None:
    data = PlaysInWords.data()
    acts = corpora()["plays"]["test"]
    examples = data.held_out["test"]
    assert len(examples.labels) == 38 * PASSAGES_PER_PLAY["test"]
    for index in (0, 31, 32, 700, 1_215):
        act = encoded(acts[examples.labels[index]]).tolist()
        passage = examples.inputs[index].tolist()
        assert len(passage) == MOST_WORDS
        starts = [at for at, word in enumerate(act) if word == passage[0]]
        assert any(act[at : at + MOST_WORDS] == passage for at in starts)
    assert (np.bincount(data.training.labels) == PASSAGES_PER_PLAY["training"]).all()
