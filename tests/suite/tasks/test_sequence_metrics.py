"""Compare sequence metrics with sacrebleu; their sums add up over any partition of a split."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest
import sacrebleu
import torch
from sacrebleu import metrics

from bakeoff.models.interface import Outputs
from bakeoff.suite.tasks.batch import UNSCORED, Batch
from bakeoff.suite.tasks.metrics import Metric
from bakeoff.suite.tasks.sequence_metrics import (
    Bleu,
    ChrF,
    ExactMatch,
    SacrebleuMetric,
    SequenceMetric,
    symbols_as_words,
)

END = 9
HOSTILE = [
    "",
    " ",
    "\n",
    "a",
    ".",
    "<skipped>",
    "x-\ny",
    "&quot;",
    "\x00\x85\u2028",
    "e\u0301",
    "1,000.5",
    "€ 😀",
]
CORPORA = {
    "prose": [
        ("the cat sat on the mat .", "the cat sat upon a mat."),
        ("it is 3.5 degrees, not 10-12", "It is 3.5 degrees, not 10-12, he said: &quot;he&quot;"),
    ],
    "one word": [("a", "a")],
    "too short": [("a b", "a b c d"), ("c", "c d")],
    "all wrong": [("x y z w", "a b c d")],
    "no four right": [("a b c x d e f", "a b c y d e f")],
    "one empty": [("", "a b"), ("a b c d e", "a b c d e")],
    "all empty": [("", "a b"), ("", "c")],
    "empty references": [("a b c d e", ""), ("a b c d e", "a b c d e")],
    "hostile": [(one, other) for one in HOSTILE for other in HOSTILE],
}


def random_corpus(seed: int) -> list[tuple[str, str]]:
    chance = random.Random(seed)
    words = ["the", "a", "3.14", "10-12", "(x)", "&amp;", "don't", "end.", "café", "U.S.", *HOSTILE]
    return [
        tuple(" ".join(chance.choices(words, k=chance.randrange(16))) for _ in range(2))
        for _ in range(40)
    ]


def in_pieces(metric: Callable[..., Metric], corpus: list[tuple[str, str]], size: int) -> float:
    """Return the metric over batches of a corpus; each symbol is an index into its texts."""
    texts = [text for pair in corpus for text in pair]
    made = metric(text=lambda symbols: "".join(texts[symbol] for symbol in symbols))
    places = range(0, len(texts), 2)
    pieces = [places[first : first + size] for first in range(0, len(places), size)]
    return made.over(
        made.sums_of_written(
            [[place] for place in piece],
            Batch(inputs={}, targets=torch.tensor([[place + 1] for place in piece])),
        )
        for piece in pieces
    )


@pytest.mark.parametrize("corpus", [*CORPORA, 0, 1, 2])
def test_the_numbers_are_sacrebleus_however_the_split_is_cut(corpus: str | int) -> None:
    pairs = CORPORA[corpus] if isinstance(corpus, str) else random_corpus(corpus)
    written, asked = map(list, zip(*pairs, strict=True))
    for ours, theirs in ((Bleu, metrics.BLEU()), (ChrF, metrics.CHRF())):
        right = theirs.corpus_score(written, [asked]).score
        assert [in_pieces(ours, pairs, size) for size in (1, 3, 100)] == [right] * 3
        assert ours().signature == str(theirs.get_signature())
        assert ours().signature.endswith(f"version:{sacrebleu.__version__}")


def test_the_numbers_are_those_that_they_were() -> None:
    """Compare with numbers from sacrebleu 2.6.0; another version may change scores."""
    assert in_pieces(Bleu, CORPORA["prose"], 1) == pytest.approx(41.41347725082837)
    assert in_pieces(ChrF, CORPORA["prose"], 1) == pytest.approx(52.40096782370327)


def test_a_mean_of_batches_would_be_another_number() -> None:
    pairs = CORPORA["prose"]
    alone = [in_pieces(Bleu, [pair], 1) for pair in pairs]
    assert sum(alone) / 2 != pytest.approx(in_pieces(Bleu, pairs, 1), rel=0.01)


def logits_of(rows: list[list[int]]) -> Outputs:
    return Outputs(torch.nn.functional.one_hot(torch.tensor(rows), 10).float())


TARGETS = torch.tensor([[3, 4, END, UNSCORED], [5, END, UNSCORED, UNSCORED], [UNSCORED] * 4])


@pytest.mark.parametrize(
    ("rows", "num_right"),
    [
        # symbols after the end are not targets
        ([[3, 4, END, 1], [5, END, 1, 1], [0, 0, 0, 0]], 2),
        ([[3, 4, 1, END], [5, END, 1, 1], [0, 0, 0, 0]], 1),  # the end symbol is missing
        ([[3, END, END, 1], [5, 5, 1, 1], [0, 0, 0, 0]], 0),  # too short, too long
    ],
)
def test_a_sequence_is_right_if_all_of_it_is(rows: list[list[int]], num_right: int) -> None:
    """Use a third row without targets."""
    batch = Batch(inputs={}, targets=TARGETS)
    assert ExactMatch(end=END).sums(logits_of(rows), batch).tolist() == [num_right, 2]


def test_what_was_written_may_be_longer_than_what_is_asked_for() -> None:
    batch = Batch(inputs={}, targets=TARGETS)
    for longer, num_right in (([3, 4], 2), ([3, 4, 4, 4, 4, 4], 1), ([], 1)):
        found = ExactMatch(end=END).sums_of_written([longer, [5], [7]], batch)
        assert found.tolist() == [num_right, 2]


@pytest.mark.parametrize("metric", [ExactMatch(end=END), Bleu(end=END), ChrF(end=END)])
def test_a_logit_that_is_not_a_number_gives_nan_where_it_is_asked_for(
    metric: SequenceMetric,
) -> None:
    outputs = logits_of([[3, 4, END, 1], [5, END, 1, 1], [0, 0, 0, 0]])
    batch = Batch(inputs={}, targets=TARGETS)
    outputs.logits[2, 0, 0] = math.nan
    assert not math.isnan(metric.over([metric.sums(outputs, batch)]))
    outputs.logits[0, 0, 0] = math.nan
    assert math.isnan(metric.over([metric.sums(outputs, batch)]))


@pytest.mark.parametrize("kind", [Bleu, ChrF])
def test_several_references_are_those_of_sacrebleu(kind: type[SacrebleuMetric]) -> None:
    """Check also that the signature has the number of references, whatever was scored before."""
    written = [[1, 2, 3, 4, 5, 6], [7, 8, 9, 4, 2]]
    asked = [[[1, 2, 3, 9, 5], [1, 2, 3, 4, 4, 6, 7]], [[7, 8], [9, 4, 2, 5, 8, 9, 4]]]
    metric = kind(num_references=2)
    sums = sum(
        torch.tensor(metric.counts(one, *several)).double()
        for one, several in zip(written, asked, strict=True)
    )
    theirs = getattr(metrics, kind.scorer)()
    streams = [[symbols_as_words(several[n]) for several in asked] for n in range(2)]
    expected = theirs.corpus_score([symbols_as_words(one) for one in written], streams)
    assert metric.value(sums) == pytest.approx(expected.score, abs=1e-9)
    assert "nrefs:1|" in kind().signature
    assert metric.signature == str(theirs.get_signature())
    assert "nrefs:2|" in metric.signature


def test_symbols_without_text_are_words() -> None:
    metric: Metric = Bleu(end=END)
    rows = [[1, 2, 3, 4, 5, END]]
    batch = Batch(inputs={}, targets=torch.tensor(rows))
    assert metric.value(metric.sums(logits_of(rows), batch)) == pytest.approx(100)
