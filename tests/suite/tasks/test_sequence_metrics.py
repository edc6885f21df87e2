"""Metrics of sequences: sacrebleu's numbers, from sums that add up however a split is cut."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import pytest
import torch

from models.outputs import Outputs
from suite.tasks.batch import UNSCORED, Batch
from suite.tasks.metrics import Metric
from suite.tasks.sequence_metrics import Bleu, ChrF, ExactMatch, SequenceMetric, words_of

END = 9
# Written, asked for, and BLEU and chrF of sacrebleu 2.6.0 with its defaults.
CORPORA: dict[str, tuple[list[str], list[str], float, float]] = {
    "prose": (
        ["the cat sat on the mat .", "it is 3.5 degrees, not 10-12; said &quot;he&quot;"],
        ["the cat sat upon a mat.", "It is 3.5 degrees, not 10-12, he said: &quot;he&quot;"],
        48.381896874050355, 71.36453804460521,
    ),
    "too short": (["a b", "c"], ["a b c d", "c d"], 0.0, 42.857142857142854),
    "all wrong": (["x y z w"], ["a b c d"], 0.0, 0.0),
    "equal": (["one two three four five"], ["one two three four five"], 100.00000000000004, 100.0),
    "no four right": (["a b c x d e f"], ["a b c y d e f"], 41.11336169005196, 32.06349206349206),
    "one empty": (["", "a b c d e"], ["a b", "a b c d e"], 67.03200460356396, 92.07459207459206),
}  # fmt: skip


def read(sentences: Sequence[str]) -> Callable[[Sequence[int]], str]:
    """Symbols are places in a list of sentences, so that any text can be asked for."""
    return lambda symbols: "".join(sentences[symbol] for symbol in symbols)


def in_pieces(kind: type[Bleu] | type[ChrF], corpus: str, size: int) -> float:
    written, asked, *_ = CORPORA[corpus]
    metric = kind(text=read([*written, *asked]))
    places = torch.arange(len(written))
    pieces = [
        metric.sums_of_written(
            places[first : first + size, None].tolist(),
            Batch(inputs={}, targets=len(written) + places[first : first + size, None]),
        )
        for first in range(0, len(written), size)
    ]
    return metric.over(pieces)


@pytest.mark.parametrize("corpus", CORPORA)
def test_the_numbers_are_sacrebleus_however_the_split_is_cut(corpus: str) -> None:
    *_, bleu, chrf = CORPORA[corpus]
    for size in (1, 2):
        assert in_pieces(Bleu, corpus, size) == pytest.approx(bleu, rel=1e-14)
        assert in_pieces(ChrF, corpus, size) == pytest.approx(chrf, rel=1e-14)


def test_a_mean_of_batches_would_be_another_number() -> None:
    written, asked, bleu, _ = CORPORA["prose"]
    metric = Bleu(text=read([*written, *asked]))
    alone = [metric.value(torch.tensor(metric.counts([i], [2 + i])).double()) for i in (0, 1)]
    assert sum(alone) / 2 != pytest.approx(bleu, rel=0.01)


def test_sacrebleu_agrees_where_it_is_installed() -> None:
    metrics = pytest.importorskip("sacrebleu.metrics")
    chance = torch.Generator().manual_seed(0)
    vocabulary = ["the", "a", "3.14", "10-12", "(x)", "&amp;", "don't", "end.", "caf\u00e9", "U.S."]
    drawn = torch.randint(len(vocabulary), (2, 50, 12), generator=chance).tolist()
    written, asked = ([" ".join(vocabulary[i] for i in row) for row in rows] for rows in drawn)
    for ours, theirs in ((Bleu, metrics.BLEU()), (ChrF, metrics.CHRF())):
        metric = ours(text=read([*written, *asked]))
        found = metric.over(
            torch.tensor(metric.counts([i], [50 + i]), dtype=torch.float64) for i in range(50)
        )
        assert found == pytest.approx(theirs.corpus_score(written, [asked]).score, rel=1e-14)
        assert str(theirs.get_signature()).startswith(ours.signature)


def test_words_are_those_of_mteval() -> None:
    assert words_of('Say "it": 1,000.5 in 10-12, U.S.-made.') == [
        "Say", '"', "it", '"', ":", "1,000.5", "in", "10", "-", "12", ",", "U", ".", "S", ".",
        "-made", ".",
    ]  # fmt: skip


def logits_of(rows: list[list[int]]) -> Outputs:
    return Outputs(torch.nn.functional.one_hot(torch.tensor(rows), 10).float())


TARGETS = torch.tensor([[3, 4, END, UNSCORED], [5, END, UNSCORED, UNSCORED], [UNSCORED] * 4])


@pytest.mark.parametrize(
    ("rows", "num_right"),
    [
        ([[3, 4, END, 1], [5, END, 1, 1], [0, 0, 0, 0]], 2),  # what follows the end is not asked
        ([[3, 4, 1, END], [5, END, 1, 1], [0, 0, 0, 0]], 1),  # no end where there should be one
        ([[3, END, END, 1], [5, 5, 1, 1], [0, 0, 0, 0]], 0),  # too short, too long
    ],
)
def test_a_sequence_is_right_if_all_of_it_is(rows: list[list[int]], num_right: int) -> None:
    """The third row is not asked for."""
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


def test_symbols_without_text_are_words() -> None:
    metric: Metric = Bleu(end=END)
    rows = [[1, 2, 3, 4, 5, END]]
    batch = Batch(inputs={}, targets=torch.tensor(rows))
    assert metric.value(metric.sums(logits_of(rows), batch)) == pytest.approx(100)
