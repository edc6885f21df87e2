"""Test that subwords follow byte-pair encoding and that texts survive a round trip."""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bakeoff.suite.tasks.bases.subwords import END, PADDING, START, UNKNOWN, WORD, Subwords, learnt

# Sennrich et al. 2016, figure 1, with a leading space at each word start.
LEARNT = Subwords(" estlowrnid", [("e", "s"), ("es", "t"), (" ", "l"), (" l", "o"), ("l", "o")])


def pieces(text: str) -> list[str]:
    return [LEARNT.decoded([symbol]) for symbol in LEARNT.encoded(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("lowest", ["lo", "w", "est"]),  # the space and "l" merge before "l" and "o"
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


def slowly_learnt(texts: list[str], num_merges: int) -> list[tuple[str, str]]:
    """Return merges by algorithm 1 of Sennrich et al., recounting all pairs each time."""
    words = [list(word) for text in texts for word in re.findall(WORD, f" {text}")]
    merges: list[tuple[str, str]] = []
    while len(merges) < num_merges:
        counts = Counter(pair for word in words for pair in pairwise(word))
        if not counts or max(counts.values()) < 2:
            break
        best = min(counts, key=lambda pair: (-counts[pair], pair))
        merges.append(best)
        for word in words:
            at = 0
            while at < len(word) - 1:
                if (word[at], word[at + 1]) == best:
                    word[at : at + 2] = ["".join(best)]
                at += 1
    return merges


@given(st.lists(st.text("abc d,", min_size=1, max_size=30), max_size=6), st.integers(0, 12))
def test_learnt_are_the_merges_of_the_paper(drawn: list[str], num_merges: int) -> None:
    texts = [text for text in (" ".join(each.split()) for each in drawn) if text]
    characters = "".join(sorted({c for text in texts for c in f" {text}"}))
    found = learnt(texts, 4 + len(characters) + num_merges)
    expected = Subwords(characters, slowly_learnt(texts, num_merges))
    assert found._texts == expected._texts
    assert found._ranks == expected._ranks
    for text in texts:
        assert found.decoded(found.encoded(text)) == text


def test_what_stands_once_is_not_merged() -> None:
    assert len(learnt(["abc"], 100)) == 4 + 4
    assert len(learnt(["abc abc"], 100)) == 4 + 4 + 3
    assert len(learnt(["abc abc"], 4 + 4 + 1)) == 4 + 4 + 1
