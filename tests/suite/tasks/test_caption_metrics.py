"""CIDEr-D and ROUGE-L by hand, on a few captions; parity tests hold them against public code."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
import torch

from suite.tasks.batch import UNSCORED, Batch
from suite.tasks.caption_metrics import (
    CaptionMetric,
    CiderD,
    RougeL,
    captions,
    longest_common_subsequence,
)
from suite.tasks.sequence_metrics import Bleu
from suite.tasks.sequence_to_sequence.digits import END, Reversal

REFERENCES = ("a red cat", "a dog", "a red dog on a mat", "two cats")


def references() -> Sequence[str]:
    return REFERENCES


def score_of(metric: CaptionMetric, written: str, asked: str) -> float:
    return metric.score(written.split(), asked.split())


@pytest.mark.parametrize(
    ("one", "other", "length"),
    [("a b c d", "a c d", 3), ("a b", "b a", 1), ("", "a", 0), ("x a y b", "a b x", 2)],
)
def test_words_in_common_keep_their_order(one: str, other: str, length: int) -> None:
    for pair in ((one, other), (other, one)):
        assert longest_common_subsequence(*(text.split() for text in pair)) == length


def test_recall_weighs_more_than_precision() -> None:
    """Of two words one is missing, or one is too many."""
    square = 1.2**2
    missing, spare = score_of(RougeL(), "a", "a b"), score_of(RougeL(), "a b", "a")
    assert missing == pytest.approx((1 + square) * 0.5 / (0.5 + square))
    assert spare == pytest.approx((1 + square) * 0.5 / (1 + square * 0.5))
    assert missing < spare
    assert score_of(RougeL(), "a dog", "a dog") == score_of(RougeL(), "", "") == 1
    assert score_of(RougeL(), "b", "a") == score_of(RougeL(), "", "a") == 0


def test_a_right_caption_has_ten_and_a_short_one_less() -> None:
    """Of two words there are no n-grams of three, nor of four."""
    metric = CiderD(references=references)
    assert score_of(metric, *["a red dog on a mat"] * 2) == pytest.approx(10)
    assert score_of(metric, "two cats", "two cats") == pytest.approx(5)
    assert score_of(metric, "", "two cats") == score_of(metric, "a dog", "two cats") == 0


def test_rare_words_count_more_by_hand() -> None:
    """Of four documents three have "a", two "red" and "dog", one "cat"; no word pair is shared."""
    a, two, one = (math.log(4 / count) for count in (3, 2, 1))
    metric = CiderD(references=references)
    # "a dog" against "a red cat": of single words "a" alone is shared, and one word is missing.
    cosine = a * a / (math.hypot(a, two) * math.hypot(a, two, one))
    found = score_of(metric, "a dog", "a red cat")
    assert found == pytest.approx(10 * math.exp(-1 / 72) * cosine / 4)
    # A word that no document has weighs as one that one has.
    cosine = two * two / (math.hypot(two, one) * math.hypot(two, a))
    found = score_of(metric, "green dog", "a dog")
    assert found == pytest.approx(10 * cosine / 4)


def test_a_word_said_again_counts_once() -> None:
    """Of the single words, once and twice against once each, the second "cats" adds nothing."""
    one = math.log(4)
    metric = CiderD(references=references)
    found = score_of(metric, "two cats cats", "two cats")
    of_words = 2 * one**2 / (math.hypot(one, 2 * one) * math.hypot(one, one))
    of_pairs = one**2 / (math.hypot(one, one) * one)
    assert found == pytest.approx(10 * math.exp(-1 / 72) * (of_words + of_pairs) / 4)


def test_one_document_makes_no_word_rare_and_none_is_refused() -> None:
    assert score_of(CiderD(references=lambda: ["a b c d"]), "a b c d", "a b c d") == 0
    with pytest.raises(ValueError, match="references is empty"):
        score_of(CiderD(references=list), "a", "a")


def test_references_are_read_once() -> None:
    calls = []

    def counted() -> Sequence[str]:
        calls.append(1)
        return REFERENCES

    for _ in range(3):
        score_of(CiderD(references=counted), "a dog", "a dog")
    assert len(calls) == 1


def as_numbers(symbols: Sequence[int]) -> str:
    return " ".join(map(str, symbols))


@pytest.mark.parametrize(
    "metric", [RougeL(end=9), CiderD(end=9, references=lambda: ["3 4", "5", "6"])]
)
def test_sums_are_means_over_sentences_however_they_are_cut(metric: CaptionMetric) -> None:
    """Symbols without a text are words; the last row is not asked for."""
    targets = torch.tensor([[3, 4, 9], [5, 9, UNSCORED], [UNSCORED] * 3])
    whole, written = Batch(inputs={}, targets=targets), [[3, 4], [5, 6], [7]]
    each = [score_of(metric, "3 4", "3 4"), score_of(metric, "5 6", "5")]
    assert metric.sums_of_written(written, whole).tolist() == pytest.approx([sum(each), 2])
    pieces = [
        metric.sums_of_written([written[row]], whole.rows(slice(row, row + 1))) for row in (0, 1)
    ]
    assert metric.over(pieces) == pytest.approx(sum(each) / 2)
    assert 0 < each[1] < each[0]


def test_captions_are_those_that_a_split_asks_for() -> None:
    class Spelt(Reversal):
        metric = Bleu(end=END, text=as_numbers)

    batch = next(Spelt(5).held_out("test", 3))
    found = captions(Spelt(5))
    expected = [as_numbers(row or ()) for row in Spelt.metric.asked(batch)]
    assert found[:3] == expected
    assert len(found) == sum(len(each.targets) for each in Spelt(5).held_out("test", 100))
    assert not any(str(END) in sentence.split() for sentence in found)
