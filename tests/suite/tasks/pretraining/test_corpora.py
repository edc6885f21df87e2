"""Test texts without markup, the vocabulary, and that unlabelled texts are not held out."""

from __future__ import annotations

import numpy as np
import pytest

from bakeoff.suite.tasks.bases.labelled_texts import PADDING, UNKNOWN, words_of
from bakeoff.suite.tasks.pretraining.corpora import (
    BEGIN,
    DOES_NOT_FOLLOW,
    END,
    FIRST_WORD,
    FOLLOWS,
    HIDDEN,
    NUM_SYMBOLS,
    PARTS,
    corpora,
    encoded,
    passages,
    plain_text,
    vocabulary,
)
from bakeoff.suite.tasks.wikipedia_bytes import split_articles

NAMES = ("wikipedia", "plays", "definitions", "sentences")


def article(text: str) -> bytes:
    return f'<page><title>A</title><text xml:space="preserve">{text}</text></page>'.encode()


@pytest.mark.parametrize(
    ("markup", "plain"),
    [
        ("'''Aspirin''' is a ''drug''", "Aspirin is a drug"),
        ("a [[pain|kind of pain]] and [[fever]]", "a kind of pain and fever"),
        ("it is {{convert|1|{{x}}|km}} long", "it is   long"),
        ("so&lt;ref name=a&gt;No 1&lt;/ref&gt; it&lt;ref name=b/&gt; was", "so  it  was"),
        ("see [http://a.org/b the page] of it", "see the page of it"),
        ("[[File:A.jpg|thumb|A [[cat]] here]]cats", "cats"),
        ("a&lt;!-- not\nshown --&gt;b", "a b"),
        ("AT&amp;amp;T &amp;nbsp; x", "AT&T \xa0 x"),
    ],
)
def test_markup_is_left_out(markup: str, plain: str) -> None:
    filler = ", which is a line that is long enough to be taken for prose by the rule"
    found = plain_text(article(markup + filler))
    assert found == [(plain + filler).lstrip()]


def test_tables_headings_and_short_lines_are_left_out() -> None:
    long = "A line that is prose, since it has more than sixty characters in a row here."
    text = f"== {long} ==\n* {long}\nshort\n{{| {long}\n| {long}\n|}}\n| {long}\n! {long}\n{long}"
    assert plain_text(article(text)) == [long, long]


def test_no_markup_is_left_in_the_articles() -> None:
    shares = [
        np.mean([mark in text for text in corpora()["wikipedia"]["training"]])
        for mark in ("{", "[", "<", "=", "|")
    ]
    assert max(shares) < 0.03


def test_the_vocabulary_is_that_of_the_texts_for_training() -> None:
    symbols = vocabulary()
    assert len(symbols) == len(set(symbols)) == NUM_SYMBOLS
    assert symbols[:FIRST_WORD] == ("<pad>", "<unknown>", "<hidden>", "<begin>", "<end>")
    assert (PADDING, UNKNOWN, HIDDEN, BEGIN, END) == (0, 1, 2, 3, 4)
    assert symbols[DOES_NOT_FOLLOW:] == ("<does not follow>", "<follows>")
    assert FOLLOWS == NUM_SYMBOLS - 1
    assert symbols[FIRST_WORD : FIRST_WORD + 3] == (",", "the", "of")
    assert encoded(["the", "qzxv", ","]).tolist() == [6, UNKNOWN, 5]


def test_the_sizes_are_the_recorded_ones() -> None:
    """Other texts define another task and must raise its version."""
    found = {name: tuple(sum(map(len, corpora()[name][part])) for part in PARTS) for name in NAMES}
    assert found == {
        "wikipedia": (432_135, 33_306, 57_691),
        "plays": (647_102, 227_486, 223_869),
        "definitions": (413_148, 59_683, 119_874),
        "sentences": (158_964, 23_266, 45_976),
    }


@pytest.mark.parametrize("name", ["definitions", "sentences"])
def test_no_held_out_text_is_among_those_for_training(name: str) -> None:
    training = {tuple(words) for words in corpora()[name]["training"]}
    for part in ("validation", "test"):
        held_out = {tuple(words) for words in corpora()[name][part]}  # type: ignore[index]
        assert held_out
        assert held_out.isdisjoint(training)


def test_articles_are_held_out_whole() -> None:
    training = {tuple(words) for words in corpora()["wikipedia"]["training"]}
    for xml in split_articles()["test"]:
        paragraphs = [tuple(words_of(text)) for text in plain_text(xml)]
        assert sum(text in training for text in paragraphs) <= 0.02 * len(paragraphs) + 1


def test_passages_are_the_texts_in_a_row() -> None:
    found = passages(("definitions", "sentences"), "validation")
    texts = [*corpora()["definitions"]["validation"], *corpora()["sentences"]["validation"]]
    assert (found.symbols == END).sum() == len(texts)
    ends = np.flatnonzero(found.symbols == END)
    assert found.symbols[: ends[0]].tolist() == encoded(texts[0]).tolist()
    assert found.symbols[ends[-2] + 1 : -1].tolist() == encoded(texts[-1]).tolist()


def test_a_window_begins_with_a_sentence() -> None:
    found = passages(("wikipedia",), "validation")
    before = found.symbols[found.starts[1:] - 1]
    assert {END} < set(before.tolist()) <= {END, *encoded([".", "!", "?"]).tolist()}
    assert found.starts[0] == 0
    assert (found.symbols[found.starts] != END).all()
    windows = found.windows(found.starts[:3], 5)
    assert windows[0].tolist() == found.symbols[:5].tolist()
    last = found.windows(np.array([len(found.symbols) - 2]), 4)[0]
    assert last.tolist() == [*found.symbols[-2:], *found.symbols[:2]]
