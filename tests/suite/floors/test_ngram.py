"""n-gram models: by hand, against the slow definition, and over what the task scores."""

import math
from collections.abc import Sequence

import numpy as np
import pytest

from suite.floors import ngram
from suite.floors.ngram import FiveGram, NGramModel, Trigram
from tests.suite.floors.tiny import TinyText

ABABA = np.array([0, 1, 0, 1, 0], dtype=np.uint8)


def _slow(text: Sequence[int], num_symbols: int, history: tuple[int, ...], symbol: int) -> float:
    """The definition, word by word."""
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
        ([1, 0], [0, 2], [53 / 63, 1 / 63]),  # a after b; what was never seen after ba
        ([2, 0], [0, 1], [11 / 21, 50 / 63]),  # no history is known: one symbol less
    ],
)
def test_trigrams_of_ababa_by_hand(
    inputs: list[int], targets: list[int], known: list[float]
) -> None:
    model = NGramModel(ABABA, 3, 3)
    found = model.probabilities(np.array([inputs]), np.array([targets]))
    assert found[0] == pytest.approx(known, rel=1e-12)


@pytest.mark.parametrize("n", [1, 2, 5])
def test_every_place_is_the_slow_definition_with_what_its_window_holds(
    n: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ngram, "_SYMBOLS_AT_ONCE", 37)  # n-grams stand across pieces
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


def test_exactly_the_symbols_of_the_task_are_scored() -> None:
    """Windows of two over 1 0 2 0: scored are 0 after 1, 2 after 1 0, and 0 after 2 alone."""
    bits = -(math.log2(53 / 63) + math.log2(1 / 63) + math.log2(11 / 21)) / 3
    assert Trigram().score(TinyText(2)) == pytest.approx(bits, rel=1e-12)


def test_a_longer_window_lets_a_history_reach_further_back() -> None:
    """One symbol at a time, the 2 stands after 0 alone; in a window of three, after 1 0."""
    text = TinyText(3)
    assert FiveGram().score(text) != FiveGram().score(TinyText(1))
    assert FiveGram().score(TinyText(1)) == pytest.approx(
        -(math.log2(53 / 63) + math.log2(2 / 63) + math.log2(11 / 21)) / 3, rel=1e-12
    )
