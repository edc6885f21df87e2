"""Compare IBM model 1 with loops over pairs and with a textbook's table, and test its links."""

from __future__ import annotations

import itertools
from collections import defaultdict

import numpy as np
import pytest

from bakeoff.suite.probes.attention import word_aligner
from bakeoff.suite.probes.attention.word_aligner import NUM_ROUNDS, Lexicon, WordAligner, fitted

# Koehn 2010, "Statistical Machine Translation", figure 4.5.
TEXTBOOK = [("the house", "das Haus"), ("the book", "das Buch"), ("a book", "ein Buch")]
LONGER = [
    *TEXTBOOK,
    ("the book and the house", "das Buch und das Haus"),
    ("a house a house", "ein ein Haus"),
    ("and", "und ja"),
]


def cut(corpus: list[tuple[str, str]]) -> list[tuple[list[str], list[str]]]:
    return [(source.split(), target.split()) for source, target in corpus]


def slow(
    pairs: list[tuple[list[str], list[str]]], *, has_null: bool = True
) -> dict[tuple[str, str], float]:
    """Return t(f | e) by Brown et al., section 4.1, link by link; the null word is ""."""
    null = [""] if has_null else []
    chances: dict[tuple[str, str], float] = defaultdict(lambda: 1.0)
    for _ in range(NUM_ROUNDS):
        counts: dict[tuple[str, str], float] = defaultdict(float)
        totals: dict[str, float] = defaultdict(float)
        for source, target in pairs:
            for f in target:
                whole = sum(chances[f, e] for e in null + source)
                for e in null + source:
                    counts[f, e] += chances[f, e] / whole
                    totals[e] += chances[f, e] / whole
        chances = defaultdict(float, {(f, e): n / totals[e] for (f, e), n in counts.items()})
    return chances


def learnt(aligner: WordAligner, *, is_forward: bool) -> dict[tuple[str, str], float]:
    """Return the fitted probabilities by word pair."""
    known, asked = aligner._vocabularies[:: 1 if is_forward else -1]
    lexicon = aligner.forward if is_forward else aligner.backward
    numbers = {"": 0, **known}
    found = lexicon.between(np.array([*numbers.values()]), np.array([*asked.values()]))
    return {
        (f, e): found[row, column]
        for (row, f), (column, e) in itertools.product(enumerate(asked), enumerate(numbers))
    }


@pytest.mark.parametrize("corpus", [TEXTBOOK, LONGER], ids=["textbook", "longer"])
def test_it_is_the_sum_over_all_links_in_both_directions(corpus: list[tuple[str, str]]) -> None:
    pairs = cut(corpus)
    aligner = WordAligner(pairs)
    for is_forward in (True, False):
        expected = slow(pairs if is_forward else [(f, e) for e, f in pairs])
        found = learnt(aligner, is_forward=is_forward)
        assert {k for k, v in found.items() if v} == {k for k, v in expected.items() if v}
        for pair, chance in expected.items():
            assert found[pair] == pytest.approx(chance, rel=1e-9), pair


def test_the_loops_are_those_of_the_textbook() -> None:
    """Compare with the textbook's table after three rounds; it has no null word."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(globals(), "NUM_ROUNDS", 3)
        chances = slow(cut(TEXTBOOK), has_null=False)
    found = {pair: round(chances[pair], 4) for pair in [("das", "the"), ("Buch", "the")]}
    assert found == {("das", "the"): 0.7479, ("Buch", "the"): 0.1208}
    assert chances["Haus", "the"] == pytest.approx(0.1313, abs=1e-4)


def test_many_words_have_wide_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that pairs are counted in 32 bits while these are enough."""
    pairs = cut(LONGER)
    narrow = WordAligner(pairs).forward
    numbers = [np.array(each) for each in ([1, 2], [3, 100_000])]
    wide = fitted(numbers, numbers)
    assert wide.keys.max() > 2**31
    assert wide.between(np.array([100_000]), np.array([100_000]))[0, 0] > 0
    assert isinstance(narrow, Lexicon)
    assert narrow.keys.dtype == wide.keys.dtype


def test_links_are_the_translations() -> None:
    aligner = WordAligner(cut(LONGER))
    links = aligner.links(
        ["the", "book", "and", "a", "house"], ["das", "Buch", "und", "ein", "Haus"]
    )
    assert links.sure.tolist() == np.eye(5, dtype=bool).tolist()
    assert links.possible.tolist() == links.sure.tolist()


def test_a_word_that_stands_twice_is_linked_to_the_place_at_the_same_share() -> None:
    aligner = WordAligner(cut(LONGER))
    links = aligner.links(["the", "house", "the", "book"], ["das", "Haus", "das", "Buch"])
    assert links.sure.tolist() == np.eye(4, dtype=bool).tolist()
    last = aligner.links(["the", "book"], ["Buch", "und", "das", "Buch"])
    assert last.sure.argmax(axis=1).tolist()[3] == 1


def test_what_was_never_seen_has_no_links() -> None:
    aligner = WordAligner(cut(LONGER))
    links = aligner.links(["the", "zebra"], ["Zebra", "das"])
    assert links.possible.tolist() == [[False, False], [True, False]]
    assert not aligner.links(["zebra"], ["Zebra"]).possible.any()
    assert aligner.links([], ["das"]).possible.shape == (1, 0)
    assert aligner.links(["the"], []).sure.shape == (0, 1)


def test_null_takes_what_nothing_explains() -> None:
    """Check that a word that occurs in every target is aligned with the null word."""
    words = [f"w{number}" for number in range(8)]
    pairs = [([f"e{w}"], [f"f{w}", "ja"]) for w in words]
    aligner = WordAligner(pairs)
    assert aligner.links(["ew0"], ["fw0", "ja"]).sure.tolist() == [[True], [False]]
    row = word_aligner.best_links(aligner.forward, np.array([1]), np.array([2]))
    assert not row.any()
