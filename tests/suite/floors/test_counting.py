"""Check floors that count symbols, by hand and against slow definitions."""

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import pytest
import torch

from bakeoff.suite.floors import counting, floor
from bakeoff.suite.floors.counting import NGramModel, dictionary, least_shared
from bakeoff.suite.floors.registry import FLOORS
from bakeoff.suite.tasks.batch import Batch
from bakeoff.suite.tasks.registry import build_task
from bakeoff.suite.tasks.sequence_metrics import Bleu
from tests.suite.floors.tiny import (
    END,
    Row,
    TinyCaptions,
    TinyQuestions,
    TinyText,
    TinyTranslations,
)

ABABA = np.array([0, 1, 0, 1, 0], dtype=np.uint8)


def test_the_first_symbol_of_nested_lists_is_the_outermost_operator() -> None:
    task = build_task("listops", 32)
    seen: dict[int, Counter[int]] = defaultdict(Counter)
    for batch in floor.training_batches(task):
        for first, value in zip(batch.inputs["inputs"][:, 0], batch.targets, strict=True):
            seen[int(first)][int(value)] += 1
    right = total = 0
    for batch in floor.held_out_batches(task, "test"):
        for first, value in zip(batch.inputs["inputs"][:, 0], batch.targets, strict=True):
            right += int(seen[int(first)].most_common(1)[0][0] == int(value))
            total += 1
    found = FLOORS["first_symbol"].score(task)
    assert found == pytest.approx(right / total, abs=0.01)  # ties
    assert found > FLOORS["majority"].score(task) + 0.1


class Questions(TinyQuestions):
    """The answer to (3, 4) is 7 twice and 8 once; (4, 3) has 8, and (3) has 9 three times."""

    training: ClassVar[list[Row]] = [
        ([0, 0], symbols)
        for symbols in ([3, 4, 8], [3, 4, 7], [3, 4, 7], [4, 3, 8], [3, 9], [3, 9], [3, 9])
    ]
    test: ClassVar[list[Row]] = [
        ([0, 0], symbols)
        for symbols in ([3, 4, 7], [3, 4, 8], [4, 3, 8], [3, 9], [5, 9], [5, 4, 7])
    ]


@pytest.mark.parametrize("tokens_at_once", [8, 16_384])
def test_a_question_is_all_of_its_words_in_their_order(
    monkeypatch: pytest.MonkeyPatch, tokens_at_once: int
) -> None:
    """Check that 7, the 8 of (4, 3), 9, and the unseen question with answer 9 are right."""
    monkeypatch.setattr(floor, "_TOKENS_AT_ONCE", tokens_at_once)
    assert FLOORS["question_alone"].score(Questions(4)) == 4 / 6
    assert FLOORS["majority"].score(Questions(4)) == 2 / 6


class Copies(TinyTranslations):
    """A palindrome, a copy of different length, and two other pairs."""

    test: ClassVar = [
        ([3, 4, 4, 3], [3, 4, 4, 3]),
        ([5, 6, 5], [5, 6, 5]),
        ([3, 4, 5, 6], [6, 5, 4, 3]),
        ([7, 8], [8, 7]),
    ]


def test_a_copied_source_counts_without_its_padding() -> None:
    class Judged(Copies):
        metric = Bleu(end=END)

    assert FLOORS["copied_source"].score(Copies(5)) == 0.5
    assert 0 < FLOORS["copied_source"].score(Judged(5)) < 100


def test_pixels_are_not_symbols_even_if_there_are_as_many_channels() -> None:
    class OfOne(TinyCaptions):
        output_size = 1

    for task in (TinyCaptions, OfOne):
        assert not FLOORS["copied_source"].suits(task)
        assert not FLOORS["word_by_word"].suits(task)


class Pairs(TinyTranslations):
    """The translations are 3 -> 7, 4 -> 8 and 5 -> 9 in any context; training lacks 6."""

    training: ClassVar = [([3, 4], [7, 8]), ([3, 5], [7, 9]), ([4, 5], [8, 9]), ([5], [9])]
    test: ClassVar = [([4, 3], [8, 7]), ([3, 6], [7, 6]), ([5], [9])]


def test_each_symbol_is_translated_and_an_unseen_one_is_copied() -> None:
    assert dictionary(Pairs(3), END)[[3, 4, 5, 6]].tolist() == [7, 8, 9, 6]
    assert FLOORS["word_by_word"].score(Pairs(3)) == 1.0


def test_a_symbol_that_is_everywhere_is_not_the_translation_of_all() -> None:
    """Add a full stop to each pair; it is mostly more frequent than the translation."""

    class Stopped(Pairs):
        training: ClassVar = [([*s, 10][:2], [t[0], 11]) for s, t in [*Pairs.training, ([5], [9])]]

    assert dictionary(Stopped(3), END)[3] == 7


def _bytes(*rows: tuple[str, str, int]) -> Batch:
    texts = [[list(each.encode()) for each in row[:2]] for row in rows]
    return Batch(
        inputs={"inputs": torch.tensor(texts)}, targets=torch.tensor([row[2] for row in rows])
    )


@pytest.mark.parametrize(
    ("rows", "width", "least"),
    [
        # A substring counts once, at any position.
        ([("abcabc", "zzzabc", 1), ("abcdef", "abcdxx", 1), ("abcdef", "ghijkl", 0)], 3, 1),
        ([("abcdef", "abcdxx", 1), ("abcabc", "zzzabc", 0)], 3, 2),
        # A threshold above all counts always predicts no.
        ([("aaaa", "aaaa", 0), ("abcd", "abcd", 0)], 2, 4),
    ],
)
def test_the_threshold_gets_most_pairs_right(
    rows: list[tuple[str, str, int]], width: int, least: int
) -> None:
    assert least_shared([_bytes(*rows)], width) == least


@pytest.mark.slow
def test_names_tell_passages_of_two_languages_better_than_chance_and_not_well() -> None:
    assert 0.55 < FLOORS["shared_substrings"].score(build_task("retrieval", 128)) < 0.8


def _slow(text: Sequence[int], num_symbols: int, history: tuple[int, ...], symbol: int) -> float:
    """Return p(symbol | history) by the definition."""
    reach = len(history)
    followers = [
        text[place + reach]
        for place in range(len(text) - reach)
        if tuple(text[place : place + reach]) == history
    ]
    shorter = _slow(text, num_symbols, history[1:], symbol) if history else 1 / num_symbols
    if not followers:
        return shorter
    kinds = len(set(followers))
    return (followers.count(symbol) + kinds * shorter) / (len(followers) + kinds)


@pytest.mark.parametrize(
    ("inputs", "targets", "known"),
    [
        ([0, 1], [1, 0], [50 / 63, 179 / 189]),  # b after a; a after ab
        ([1, 0], [0, 2], [53 / 63, 1 / 63]),  # a after b; an unseen symbol after ba
        ([2, 0], [0, 1], [11 / 21, 50 / 63]),  # unseen history: one symbol less
    ],
)
def test_trigrams_of_ababa_by_hand(
    inputs: list[int], targets: list[int], known: list[float]
) -> None:
    model = NGramModel(ABABA, 3, 3)
    found = model.probabilities(np.array([inputs]), np.array([targets]))
    assert found[0] == pytest.approx(known, rel=1e-12)


@pytest.mark.parametrize("n", [1, 2, 5])
def test_every_probability_is_that_of_the_slow_definition(
    n: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counting, "_SYMBOLS_AT_ONCE", 37)  # n-grams cross chunk borders
    chance = np.random.default_rng(0)
    text = chance.integers(0, 3, 200).astype(np.uint8)
    windows = chance.integers(0, 4, (5, 8))
    inputs, targets = windows[:, :-1], windows[:, 1:]
    found = NGramModel(text, n, 4).probabilities(inputs, targets)
    for row, place in np.ndindex(*targets.shape):
        history = tuple(inputs[row, max(0, place - n + 2) : place + 1].tolist()) if n > 1 else ()
        slow = _slow(text.tolist(), 4, history, int(targets[row, place]))
        assert found[row, place] == pytest.approx(slow, rel=1e-12)


def test_probabilities_sum_to_one() -> None:
    chance = np.random.default_rng(1)
    model = NGramModel(chance.integers(0, 5, 300).astype(np.uint8), 4, 6)
    inputs = chance.integers(0, 6, (7, 9))
    total = sum(model.probabilities(inputs, np.full_like(inputs, w)) for w in range(6))
    assert total == pytest.approx(np.ones(inputs.shape), rel=1e-12)


@pytest.mark.parametrize(
    ("name", "length", "probabilities"),
    [
        ("trigram", 2, (53 / 63, 1 / 63, 11 / 21)),  # 0 after 1, 2 after 1 0, 0 after 2
        ("five_gram", 1, (53 / 63, 2 / 63, 11 / 21)),  # one symbol at a time: 2 after 0
    ],
)
def test_exactly_the_symbols_of_the_task_are_scored_in_its_windows(
    name: str, length: int, probabilities: tuple[float, ...]
) -> None:
    bits = -sum(map(math.log2, probabilities)) / 3
    assert FLOORS[name].score(TinyText(length)) == pytest.approx(bits, rel=1e-12)
