"""Subwords are those of byte-pair encoding, and a text comes back whole."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.tasks.bases.subwords import END, PADDING, START, UNKNOWN, Subwords

# Sennrich et al. 2016, figure 1, with a space where a word begins.
LEARNT = Subwords(" estlowrnid", [("e", "s"), ("es", "t"), (" ", "l"), (" l", "o"), ("l", "o")])


def pieces(text: str) -> list[str]:
    return [LEARNT.decoded([symbol]) for symbol in LEARNT.encoded(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("lowest", ["lo", "w", "est"]),  # the space and "l" before "l" and "o"
        ("west", ["", "w", "est"]),
        ("tees es", ["", "t", "e", "es", "", "es"]),
    ],
)
def test_the_merge_that_was_learnt_first_comes_first(text: str, expected: list[str]) -> None:
    assert pieces(text) == expected


def test_every_occurrence_is_merged_and_none_twice() -> None:
    learnt = Subwords(" a", [("a", "a")])
    found = [learnt.decoded([symbol]) for symbol in learnt.encoded("aaaaa")[1:]]
    assert found == ["aa", "aa", "a"]


@given(st.lists(st.text(" estlowrnid"[1:], min_size=1), min_size=1).map(" ".join))
def test_a_text_comes_back(text: str) -> None:
    assert LEARNT.decoded([START, *LEARNT.encoded(text), END, PADDING]) == text


def test_what_was_never_seen_is_shown_as_that() -> None:
    assert UNKNOWN in LEARNT.encoded("x")
    assert LEARNT.decoded(LEARNT.encoded("loxest")) == "lo\N{REPLACEMENT CHARACTER}est"
    assert len(LEARNT) == 4 + 11 + 5


@given(st.lists(st.text("estlow,'x", min_size=1), min_size=1).map(" ".join))
def test_words_are_cut_as_before_merging_and_hold_all_symbols(text: str) -> None:
    symbols = LEARNT.encoded(text)
    words = LEARNT.words(symbols)
    shown = LEARNT.decoded(symbols)
    assert [word for word, _ in words] == re.findall(r"\w+|[^\w\s]", shown)
    assert [place for _, places in words for place in places] == list(range(len(symbols)))
    for word, places in words:
        assert LEARNT.decoded([symbols[place] for place in places]).strip() == word


def test_a_mark_is_a_word() -> None:
    learnt = Subwords(" alow,", [(" ", "l"), (" l", "o")])
    found = learnt.words(learnt.encoded("low, a"))
    assert found == [("low", range(2)), (",", range(2, 3)), ("a", range(3, 5))]
    assert learnt.words([]) == []
