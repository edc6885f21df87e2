"""Weighted words: by hand, and with a penalty that no test text chose."""

import math
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from suite.floors import tf_idf
from suite.floors.tf_idf import TfIdf
from suite.tasks.registry import build_task
from tests.suite.floors.tiny import TinyReviews


def test_a_mislabelled_text_is_the_one_it_gets_wrong() -> None:
    assert TfIdf().score(TinyReviews(2)) == 3 / 4


def test_only_what_a_model_is_shown_counts() -> None:
    """At one word a text is its first."""
    batch = next(TinyReviews(1).held_out("test", 4))
    assert tf_idf._words(TinyReviews(1), batch) == [["2"], ["3"], ["4"], ["3"]]


def test_a_word_weighs_by_its_rarity_and_a_text_has_length_one() -> None:
    texts = [["a"], ["a", "b"], ["b", "b", "c"]]
    words = tf_idf._vectorizer().fit(texts)
    found = words.transform([["b", "b", "c"]]).toarray()[0]
    rarity = {word: math.log(4 / (1 + number)) + 1 for word, number in {"b": 2, "c": 1}.items()}
    weights = [(1 + math.log(2)) * rarity["b"], rarity["c"]]
    length = math.hypot(*weights)
    assert found == pytest.approx([0.0, weights[0] / length, weights[1] / length])


def test_bytes_are_read_as_the_words_of_their_window() -> None:
    task = build_task("shakespeare_plays", 40)
    batch = next(task.held_out("test", 1))
    (words,) = tf_idf._words(task, batch)
    text = task.text(batch.inputs["inputs"][0].tolist())
    assert " ".join(words).startswith(text.split()[0].lower()[:3])
    assert all(word == word.lower() and word.strip() for word in words)


def test_the_penalty_is_chosen_on_the_validation_split_and_the_test_split_read_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    of_validation = dict(zip(tf_idf.STRENGTHS, [0.1, 0.9, 0.5, 0.2], strict=True))
    asked: list[tuple[str, float]] = []

    class Split:
        def __init__(self, task: object, split: str, words: object) -> None:
            self.split = split

        def score(self, fitted: Any) -> float:
            asked.append((self.split, fitted.strength))
            return of_validation[fitted.strength] if self.split == "validation" else 0.7

    monkeypatch.setattr(tf_idf, "_Split", Split)
    monkeypatch.setattr(tf_idf, "fitted", lambda *given: SimpleNamespace(strength=given[-1]))
    assert TfIdf().score(TinyReviews(2)) == 0.7
    assert asked == [
        *(("validation", strength) for strength in tf_idf.STRENGTHS),
        ("test", tf_idf.STRENGTHS[1]),
    ]


def test_without_scikit_learn_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    assert TfIdf().why_not() == ""
    monkeypatch.setitem(sys.modules, "sklearn", None)  # as if it could not be imported
    assert TfIdf().why_not() == "scikit-learn is not installed"
