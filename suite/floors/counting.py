"""Floors that count symbols in the training data: n-grams, dictionaries, conditional majorities.

**n-grams** use interpolated Witten-Bell smoothing (Witten and Bell 1991, IEEE Transactions on
Information Theory 37(4), method C; interpolated as in Chen and Goodman 1999, section 2.3). With
c(h) occurrences of the history h in training, followed by T(h) different symbols,

    p(w | h) = (c(h w) + T(h) p(w | h')) / (c(h) + T(h))

where h' is h without its first symbol; the distribution below the empty history is uniform. For an
unseen history p(w | h) = p(w | h'). The scored symbols and the windows are those of the task: a
history has n - 1 symbols, or fewer at the start of a window, as for a model.

**Word by word**, each symbol s of the source is translated to the symbol t with the largest Dice
coefficient (Dice 1945, doi:10.2307/1932409), 2 n(s, t) / (n(s) + n(t)), where n counts training
examples with s in the source, with t in the target, or with both. An unseen symbol is copied; a tie
goes to the smaller symbol.

**Question alone** measures how well the questions of a data set can be answered without its
pictures (Goyal et al. 2017, arXiv:1612.00837).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from bakeoff.models.interface import CONTEXT, INPUTS
from bakeoff.suite.floors.floor import (
    Floor,
    asked_sequences,
    context_of,
    held_out_batches,
    score_of_logits,
    score_of_written,
    texts,
    training_batches,
)
from bakeoff.suite.tasks.bases.text_windows import TextWindows
from bakeoff.suite.tasks.metrics import Accuracy
from bakeoff.suite.tasks.sequence_metrics import SequenceMetric
from bakeoff.suite.tasks.task import UNSCORED, Batch, Split, Task

WIDTHS = (3, 4, 5, 6)  # widths of shared substrings
_SYMBOLS_AT_ONCE = 2**22  # the number of n-grams that are sorted together

IntArray = NDArray[np.int64]
Question = tuple[int, ...]


class FirstSymbol(Floor):
    """The most frequent class of the training examples with the same first symbol.

    The first symbol of a ListOps example is the outermost operator: a maximum is mostly 9, a
    minimum mostly 0. A model that beats this floor uses other symbols too.
    """

    name = "first_symbol"
    label = "by the first symbol"
    asks_for = ("class",)
    metric = Accuracy
    input_kinds = ("tokens",)

    def score(self, task: Any) -> float:
        """Return the share of right answers."""
        seen = _pair_counts(task, training_batches(task))
        asked = _pair_counts(task, held_out_batches(task, "test"))
        right = asked[np.arange(len(asked)), seen.argmax(axis=1)]
        return float(right.sum() / asked.sum())


def _pair_counts(task: Task, batches: Iterable[Batch]) -> IntArray:
    """Return how often each class follows each first symbol, `[symbols, classes]`."""
    counts = np.zeros((task.input_size, task.output_size), dtype=np.int64)
    for batch in batches:
        np.add.at(counts, (batch.inputs[INPUTS][:, 0].numpy(), batch.targets.numpy()), 1)
    return counts


class QuestionAlone(Floor):
    """The most frequent answer to the same question, or to any question if it is unseen."""

    name = "question_alone"
    label = "question alone"
    asks_for = ("class",)
    input_kinds = ("tokens",)
    context = "image"

    def score(self, task: Any) -> float:
        """Return the metric of those answers."""
        answers, usual = most_frequent_answers(training_batches(task))

        def logits(batch: Batch) -> Tensor:
            classes = [answers.get(question, usual) for question in _questions(batch)]
            return functional.one_hot(torch.tensor(classes), task.output_size).float()

        return score_of_logits(task, logits)


def most_frequent_answers(batches: Iterable[Batch]) -> tuple[Mapping[Question, int], int]:
    """Return the most frequent answer to each question and over all; the first one in a tie."""
    by_question: dict[Question, Counter[int]] = defaultdict(Counter)
    for batch in batches:
        for question, answer in zip(_questions(batch), batch.targets.tolist(), strict=True):
            by_question[question][answer] += 1
    total = sum(by_question.values(), Counter())
    most = {question: counts.most_common(1)[0][0] for question, counts in by_question.items()}
    return most, total.most_common(1)[0][0]


def _questions(batch: Batch) -> Iterator[Question]:
    return (tuple(text.tolist()) for text in texts(batch))


class CopiedSource(Floor):
    """The symbols of the source, without padding, taken as the output."""

    name = "copied_source"
    label = "copied source"
    is_fitted = False
    asks_for = ("sequence",)
    metric = SequenceMetric
    context = "tokens"

    def suits(self, task: type[Task]) -> bool:
        """Return True if source and target have one vocabulary."""
        context = context_of(task)
        return super().suits(task) and context is not None and context.size == task.output_size

    def score(self, task: Any) -> float:
        """Return the metric of the copies."""
        return score_of_written(
            task, lambda batch: (source.tolist() for source in texts(batch, CONTEXT))
        )


class WordByWord(Floor):
    """The symbols of the source, each translated by a dictionary."""

    name = "word_by_word"
    label = "word by word"
    asks_for = ("sequence",)
    metric = SequenceMetric
    context = "tokens"

    def score(self, task: Any) -> float:
        """Return the metric of the translations."""
        known = dictionary(task, task.metric.end)
        return score_of_written(
            task, lambda batch: (known[source].tolist() for source in texts(batch, CONTEXT))
        )


def dictionary(task: Task, end: int | None) -> IntArray:
    """Return the translation of each symbol of the source, `[symbols]`."""
    num_symbols = task.other_inputs(task.length)[CONTEXT].size
    both = np.zeros((num_symbols, task.output_size), dtype=np.int32)
    in_source, in_target = (np.zeros(size, dtype=np.int64) for size in both.shape)
    for batch in training_batches(task):
        pairs = zip(texts(batch, CONTEXT), asked_sequences(batch, end), strict=True)
        for source, target in pairs:
            own, others = np.unique(source), np.unique(target)
            in_source[own] += 1
            in_target[others] += 1
            both[np.ix_(own, others)] += 1
    dice = both / np.maximum(1, in_source[:, None] + in_target)  # without the factor of 2
    return np.where(in_source > 0, dice.argmax(axis=1), np.arange(num_symbols))


class SharedSubstrings(Floor):
    """A threshold on the number of distinct substrings that both sequences of a pair have.

    The threshold is the smallest of those that classify the most training pairs correctly. The
    width of the substrings is the first of `WIDTHS` with the best score on the validation split. In
    passages of two languages, such substrings are mostly names.
    """

    name = "shared_substrings"
    label = "by shared strings"
    asks_for = ("pair",)
    metric = Accuracy
    input_kinds = ("tokens",)

    def suits(self, task: type[Task]) -> bool:
        """Return True if the answer is yes or no."""
        return super().suits(task) and task.output_size == 2

    def score(self, task: Any) -> float:
        """Return the share of right answers at the best width."""
        training = list(training_batches(task))
        least = {width: least_shared(training, width) for width in WIDTHS}

        def right(split: Split, width: int) -> float:
            shared, answers = _shared_counts(held_out_batches(task, split), width)
            return float(((shared >= least[width]) == answers).mean())

        return right("test", max(WIDTHS, key=lambda width: right("validation", width)))


def least_shared(batches: Iterable[Batch], width: int) -> int:
    """Return the smallest number of shared substrings for which the answer is yes."""
    shared, answers = _shared_counts(batches, width)
    right = [((shared >= least) == answers).sum() for least in range(shared.max() + 2)]
    return int(np.argmax(right))


def _shared_counts(batches: Iterable[Batch], width: int) -> tuple[IntArray, NDArray[np.bool_]]:
    """Return the number of shared substrings of each pair, and its answer, both `[pairs]`."""
    shared, answers = [], []
    for batch in batches:
        for first, second in batch.inputs[INPUTS].numpy():
            shared.append(len(_substrings(first, width) & _substrings(second, width)))
        answers.append(batch.targets.numpy() == 1)
    return np.array(shared), np.concatenate(answers)


def _substrings(symbols: IntArray, width: int) -> set[bytes]:
    windows = np.lib.stride_tricks.sliding_window_view(symbols, min(width, len(symbols)))
    return {window.tobytes() for window in windows}


class _NGram(Floor):
    """The bits per symbol of an n-gram model of the training text."""

    task = TextWindows
    asks_for = ("next_symbols",)
    n: ClassVar[int]

    def score(self, task: Any) -> float:
        """Return the bits per scored symbol."""
        model = NGramModel(task.read().training, self.n, task.output_size)
        bits, count = 0.0, 0
        for batch in held_out_batches(task, "test"):
            inputs, targets = batch.inputs[INPUTS].numpy(), batch.targets.numpy()
            is_scored = targets != UNSCORED
            known = model.probabilities(inputs, np.where(is_scored, targets, 0))
            bits -= float(np.log2(known[is_scored]).sum())
            count += int(is_scored.sum())
        return bits / count


class Trigram(_NGram):
    """An n-gram model with two symbols of history."""

    name = "trigram"
    label = "3-gram"
    n = 3


class FiveGram(_NGram):
    """An n-gram model with four symbols of history."""

    name = "five_gram"
    label = "5-gram"
    n = 5


@dataclass(frozen=True)
class _Counts:
    """Counts of n-grams, each written as one integer, in increasing order."""

    codes: IntArray
    counts: IntArray

    def of(self, codes: IntArray) -> IntArray:
        """Return the count of each n-gram; 0 for unseen ones."""
        places = np.searchsorted(self.codes, codes).clip(max=len(self.codes) - 1)
        return np.where(self.codes[places] == codes, self.counts[places], 0)


class NGramModel:
    """The counts of all n-grams up to length n of a text.

    Args:
        text: The training text, `[symbols]`, with at least n symbols.
        n: The length of the longest n-grams; ``num_symbols ** n`` must be below 2**63.
        num_symbols: The number of symbols, seen or not.
    """

    def __init__(self, text: NDArray[np.uint8], n: int, num_symbols: int) -> None:
        self.num_symbols = num_symbols
        self._ngrams = [_count_ngrams(text, order, num_symbols) for order in range(1, n + 1)]
        histories = [_histories(ngrams, num_symbols) for ngrams in self._ngrams]
        self._totals = [totals for totals, _ in histories]
        self._kinds = [kinds for _, kinds in histories]

    def probabilities(self, inputs: IntArray, targets: IntArray) -> NDArray[np.float64]:
        """Return p(target | inputs of its row up to its position), `[rows, time]`."""
        found = np.full(targets.shape, 1.0 / self.num_symbols)
        history = np.zeros_like(targets)  # the history of each position, as one integer
        for order in range(1, len(self._ngrams) + 1):
            if order > 1:  # add one symbol: `order - 2` positions before the last input
                back = inputs[:, : inputs.shape[1] - (order - 2)]
                history[:, order - 2 :] += back * self.num_symbols ** (order - 2)
            has_history = np.arange(targets.shape[1]) >= order - 2
            longer = self._interpolated(order, history, targets, found)
            found = np.where(has_history, longer, found)
        return found

    def _interpolated(
        self, order: int, history: IntArray, targets: IntArray, shorter: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        seen = self._ngrams[order - 1].of(history * self.num_symbols + targets)
        total, kinds = self._totals[order - 1].of(history), self._kinds[order - 1].of(history)
        weight = np.maximum(total + kinds, 1)  # both are 0 for an unseen history
        mixed: NDArray[np.float64] = (seen + kinds * shorter) / weight
        return np.where(total > 0, mixed, shorter)


def _count_ngrams(text: NDArray[np.uint8], order: int, num_symbols: int) -> _Counts:
    """Count the runs of `order` symbols, encoded as integers; work in pieces to save memory."""
    num_ngrams = len(text) - order + 1
    assert num_ngrams > 0, "a text is longer than its n-grams"
    codes, counts = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    for first in range(0, num_ngrams, _SYMBOLS_AT_ONCE):
        last = min(first + _SYMBOLS_AT_ONCE, num_ngrams)
        piece = np.zeros(last - first, dtype=np.int64)
        for offset in range(order):
            piece = piece * num_symbols + text[first + offset : last + offset]
        new_codes, new_counts = np.unique(piece, return_counts=True)
        codes, places = np.unique(np.concatenate([codes, new_codes]), return_inverse=True)
        merged = np.bincount(places, np.concatenate([counts, new_counts]))
        counts = merged.astype(np.int64)
    return _Counts(codes, counts)


def _histories(ngrams: _Counts, num_symbols: int) -> tuple[_Counts, _Counts]:
    """Return how often each history was continued, and by how many different symbols."""
    codes, starts = np.unique(ngrams.codes // num_symbols, return_index=True)
    totals = np.add.reduceat(ngrams.counts, starts)
    kinds = np.diff(np.append(starts, len(ngrams.codes)))
    return _Counts(codes, totals), _Counts(codes, kinds)
