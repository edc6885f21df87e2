"""Test CIDEr-D and ROUGE-L by hand on a few captions; parity tests compare with public code."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
import torch

from bakeoff.suite.tasks.batch import UNSCORED, Batch
from bakeoff.suite.tasks.caption_metrics import (
    CaptionMetric,
    CiderD,
    Document,
    RougeL,
    captions,
    longest_common_subsequence,
    rarity_among,
)
from bakeoff.suite.tasks.sequence_metrics import Bleu, ExactMatch
from bakeoff.suite.tasks.sequence_to_sequence.digits import END, Reversal

REFERENCES = ("a red cat", "a dog", "a red dog on a mat", "two cats")


def references() -> Sequence[Document]:
    """Return one reference for each picture."""
    return [(each,) for each in REFERENCES]


def score_of(metric: CaptionMetric, written: str, *asked: str) -> float:
    return metric.score(written.split(), *(each.split() for each in asked))


@pytest.mark.parametrize(
    ("one", "other", "length"),
    [("a b c d", "a c d", 3), ("a b", "b a", 1), ("", "a", 0), ("x a y b", "a b x", 2)],
)
def test_words_in_common_keep_their_order(one: str, other: str, length: int) -> None:
    for pair in ((one, other), (other, one)):
        assert longest_common_subsequence(*(text.split() for text in pair)) == length


def test_recall_weighs_more_than_precision() -> None:
    """Leave out one of two words, or add one."""
    square = 1.2**2
    missing, spare = score_of(RougeL(), "a", "a b"), score_of(RougeL(), "a b", "a")
    assert missing == pytest.approx((1 + square) * 0.5 / (0.5 + square))
    assert spare == pytest.approx((1 + square) * 0.5 / (1 + square * 0.5))
    assert missing < spare
    assert score_of(RougeL(), "a dog", "a dog") == score_of(RougeL(), "", "") == 1
    assert score_of(RougeL(), "b", "a") == score_of(RougeL(), "", "a") == 0


def test_a_right_caption_has_ten_and_a_short_one_less() -> None:
    """Include captions of two words, which have no 3-grams or 4-grams."""
    metric = CiderD(references=references)
    assert score_of(metric, *["a red dog on a mat"] * 2) == pytest.approx(10)
    assert score_of(metric, "two cats", "two cats") == pytest.approx(5)
    assert score_of(metric, "", "two cats") == score_of(metric, "a dog", "two cats") == 0


def test_rare_words_count_more_by_hand() -> None:
    """Use four documents: three have "a", two "red" and "dog", one "cat"; no shared bigram."""
    a, two, one = (math.log(4 / count) for count in (3, 2, 1))
    metric = CiderD(references=references)
    # "a dog" against "a red cat": they share only the unigram "a", and one word is missing.
    cosine = a * a / (math.hypot(a, two) * math.hypot(a, two, one))
    found = score_of(metric, "a dog", "a red cat")
    assert found == pytest.approx(10 * math.exp(-1 / 72) * cosine / 4)
    # A word that is in no document has the weight of one that is in one document.
    cosine = two * two / (math.hypot(two, one) * math.hypot(two, a))
    found = score_of(metric, "green dog", "a dog")
    assert found == pytest.approx(10 * cosine / 4)


def test_a_word_said_again_counts_once() -> None:
    """Check that the second "cats" adds nothing to the unigram matches."""
    one = math.log(4)
    metric = CiderD(references=references)
    found = score_of(metric, "two cats cats", "two cats")
    of_words = 2 * one**2 / (math.hypot(one, 2 * one) * math.hypot(one, one))
    of_pairs = one**2 / (math.hypot(one, one) * one)
    assert found == pytest.approx(10 * math.exp(-1 / 72) * (of_words + of_pairs) / 4)


def test_one_document_makes_no_word_rare_and_none_is_refused() -> None:
    assert score_of(CiderD(references=lambda: [("a b c d",)]), "a b c d", "a b c d") == 0
    with pytest.raises(ValueError, match="references is empty"):
        score_of(CiderD(references=list), "a", "a")


def test_references_are_read_once() -> None:
    calls = []

    def counted() -> Sequence[Document]:
        calls.append(1)
        return references()

    for _ in range(3):
        score_of(CiderD(references=counted), "a dog", "a dog")
    assert len(calls) == 1


def as_numbers(symbols: Sequence[int]) -> str:
    return " ".join(map(str, symbols))


@pytest.mark.parametrize(
    "metric", [RougeL(end=9), CiderD(end=9, references=lambda: [("3 4",), ("5",), ("6",)])]
)
def test_sums_are_means_over_sentences_however_they_are_cut(metric: CaptionMetric) -> None:
    """Use symbols without a text as words; the last row has no target."""
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
    expected = [(as_numbers(row or ()),) for row in Spelt.metric.asked(batch)]
    assert found[:3] == expected
    assert len(found) == sum(len(each.targets) for each in Spelt(5).held_out("test", 100))
    assert not any(str(END) in sentence.split() for (sentence,) in found)


def test_of_several_references_the_best_precision_and_the_best_recall_count() -> None:
    """Use a long reference with two of the three words, and a short one that is recalled."""
    square, metric = 1.2**2, RougeL()
    found = score_of(metric, "a red dog", "a big red cat with a hat", "dog")
    precision, recall = 2 / 3, 1.0
    assert found == pytest.approx((1 + square) * precision * recall / (recall + square * precision))
    assert score_of(metric, "", "a", "") == 1
    assert score_of(metric, "b", "a", "") == 0
    assert score_of(metric, "a dog", "a dog", "b") == 1


def test_cider_is_the_mean_over_references_and_a_picture_is_one_document() -> None:
    documents = [("a red cat", "the red cat"), ("a dog", "one dog"), ("two cats", "a cat")]
    metric = CiderD(references=lambda: documents)
    each = [score_of(metric, "a red cat", asked) for asked in documents[0]]
    assert score_of(metric, "a red cat", *documents[0]) == pytest.approx(sum(each) / 2)
    rarity = rarity_among(metric.references)
    assert (rarity.num_documents, rarity.num_with["red",], rarity.num_with["cat",]) == (3, 1, 2)


def test_a_batch_may_have_references_beside_its_targets() -> None:
    """Check that only the references are scored, and only where there are targets."""
    kept = [[[3, 4, UNSCORED], [5, 6, 7]], [[8, 9, UNSCORED], [8, UNSCORED, UNSCORED]]]
    batch = Batch(
        inputs={}, targets=torch.tensor([[3, 1], [1, 1]]), references=torch.tensor(kept)
    ).only(torch.tensor([True, False]))
    assert RougeL(end=1).right(batch) == [([3, 4], [5, 6, 7]), ()]
    for metric in (RougeL(end=1), ExactMatch(end=1)):
        assert metric.sums_of_written([[5, 6, 7], [8]], batch).tolist() == [1, 1]
        assert metric.sums_of_written([[3], [8]], batch)[0] < 1
