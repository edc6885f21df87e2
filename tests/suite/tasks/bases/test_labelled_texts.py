"""Test that texts are cut, split and padded as documented, and that splits are disjoint."""

from collections import Counter

import numpy as np
import pytest
import torch

from bakeoff.suite.tasks.bases.labelled_texts import (
    NUM_SYMBOLS,
    PADDING,
    UNKNOWN,
    TextClassification,
    split_of,
    split_texts,
    words_of,
)
from bakeoff.suite.tasks.movie_reviews import MovieReviews, read_sentences
from bakeoff.suite.tasks.registry import build_task
from bakeoff.suite.tasks.wordnet_glosses import SUPERSENSES, WordnetGlosses, read_glosses

NAMES = ("movie_reviews", "wordnet_glosses")
NUM_TEXTS = {"movie_reviews": 10_072, "wordnet_glosses": 48_000}


def _task(name: str, length: int = 24) -> TextClassification:
    task = build_task(name, length)
    assert isinstance(task, TextClassification)
    return task


def test_words_are_runs_of_letters_and_single_signs() -> None:
    assert words_of("It's a 3-hour film , isn't it ?_ 'Tis") == [
        "it's",
        "a",
        "3",
        "-",
        "hour",
        "film",
        ",",
        "isn't",
        "it",
        "?",
        "_",
        "'",
        "tis",
    ]
    assert words_of("café") == ["café"]


def test_the_same_words_are_in_the_same_split() -> None:
    assert split_of(words_of("A  bad film.")) == split_of(words_of("a bad FILM ."))
    counts = Counter(split_of([str(number)]) for number in range(10_000))
    assert counts["training"] / 10_000 == pytest.approx(0.7, abs=0.02)
    assert counts["test"] / 10_000 == pytest.approx(0.2, abs=0.02)


def test_a_held_out_word_that_training_never_showed_is_unknown() -> None:
    texts = [(f"word{number} common", number % 2) for number in range(200)]
    data = split_texts(texts)
    assert data.vocabulary[:3] == ("<pad>", "<unknown>", "common")
    common = data.vocabulary.index("common")
    for held_out in data.held_out.values():
        assert {tuple(text) for text in held_out.inputs} == {(UNKNOWN, common)}
    assert UNKNOWN not in np.concatenate(data.training.inputs)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_vocabulary_is_full_and_of_training_words_only(name: str) -> None:
    task = _task(name)
    vocabulary = task.data().vocabulary
    assert len(vocabulary) == len(set(vocabulary)) == NUM_SYMBOLS == task.input_size
    seen = np.bincount(np.concatenate(task.data().training.inputs), minlength=NUM_SYMBOLS)
    assert (seen[2:] > 0).all()


@pytest.mark.parametrize("name", NAMES)
def test_the_splits_are_all_the_texts_in_their_shares(name: str) -> None:
    texts = _task(name).data()
    sizes = {"training": len(texts.training.labels)}
    sizes |= {split: len(held_out.labels) for split, held_out in texts.held_out.items()}
    total = sum(sizes.values())
    assert total == NUM_TEXTS[name]
    assert sizes["training"] / total == pytest.approx(0.7, abs=0.01)
    assert sizes["validation"] / total == pytest.approx(0.1, abs=0.01)


def test_no_text_stands_in_two_splits() -> None:
    for texts in ([t for _, t in read_sentences()], [t for _, t in read_glosses()]):
        home: dict[str, str] = {}
        for text in texts:
            words = words_of(text)
            assert words
            assert home.setdefault(" ".join(words), split_of(words)) == split_of(words)


@pytest.mark.parametrize("name", NAMES)
def test_a_text_is_cut_at_the_length_and_padded_behind(name: str) -> None:
    long, short = (next(_task(name, length).held_out("test", 50)) for length in (60, 7))
    for name in ("inputs", "mask"):
        assert torch.equal(long.inputs[name][:, :7], short.inputs[name])
    assert torch.equal(long.inputs["inputs"] != PADDING, long.inputs["mask"])


def test_reviews_are_positive_and_negative_in_equal_parts() -> None:
    sentences = read_sentences()
    assert len(sentences) == 10_605
    ratings = np.array([rating for rating, _ in sentences])
    assert (ratings.min() >= -4, ratings.max() <= 4) == (True, True)
    assert ((ratings >= 0.5).sum(), (ratings <= -0.5).sum()) == (4_996, 5_076)


def test_words_of_praise_stand_in_positive_reviews() -> None:
    texts = MovieReviews(40).data()
    index = texts.vocabulary.index("wonderful"), texts.vocabulary.index("dull")
    praised, blamed = ([word in text for text in texts.training.inputs] for word in index)
    assert texts.training.labels[praised].mean() > 0.85
    assert texts.training.labels[blamed].mean() < 0.15


def test_definitions_have_26_classes_of_unequal_size() -> None:
    counts = Counter(name for name, _ in read_glosses())
    assert set(counts) == set(SUPERSENSES)
    assert len(counts) == WordnetGlosses.output_size == 26
    ((most, count),) = counts.most_common(1)
    assert most == "artifact"
    assert count / counts.total() == pytest.approx(0.14, abs=0.01)


def test_a_definition_comes_without_its_examples() -> None:
    glosses = {gloss for _, gloss in read_glosses()}
    assert not [gloss for gloss in glosses if gloss.endswith('"')]
    assert len(glosses) > 47_000
