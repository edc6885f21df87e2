"""n-gram language models: predict by counts of the last few symbols.

Interpolated Witten-Bell smoothing (Witten and Bell 1991, IEEE Transactions on Information Theory
37(4), method C; interpolated as in Chen and Goodman 1999, section 2.3). With c(h) occurrences of
the history h in training, followed by T(h) different symbols,

    p(w | h) = (c(h w) + T(h) p(w | h')) / (c(h) + T(h))

where h' is h without its first symbol, and below the empty history stands the uniform distribution
over all symbols. A history that training never showed says nothing: p(w | h) = p(w | h').

Scored are exactly the symbols that the task scores, in its own windows: a history reaches back
n - 1 symbols, and no further than to the window's start, which is where a model's sight ends too.
There is nothing to choose, so the validation split is not read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from suite.floors.floor import Floor
from suite.floors.splits import held_out_batches
from suite.tasks.bases.text_windows import TextWindows
from suite.tasks.task import UNSCORED, Task

_SYMBOLS_AT_ONCE = 2**22  # whose n-grams are sorted together

Whole = NDArray[np.int64]


class NGram(Floor):
    """Bits per symbol of an n-gram model; below its subclasses, one a number n."""

    version = 1
    needs = "a text (suite.tasks.bases.text_windows)"
    n: ClassVar[int]

    def suits(self, task: type[Task]) -> bool:
        """See `Floor.suits`."""
        return issubclass(task, TextWindows) and task.asks_for == "next_symbols"

    def score(self, task: Task) -> float:
        """Trained on the whole training text."""
        assert isinstance(task, TextWindows), "tasks name the floors that suit them"
        model = NGramModel(task.read().training, self.n, task.output_size)
        bits, count = 0.0, 0
        for batch in held_out_batches(task, "test"):
            inputs, targets = batch.inputs["inputs"].numpy(), batch.targets.numpy()
            is_scored = targets != UNSCORED
            known = model.probabilities(inputs, np.where(is_scored, targets, 0))
            bits -= float(np.log2(known[is_scored]).sum())
            count += int(is_scored.sum())
        return bits / count


class Trigram(NGram):
    """The last two symbols."""

    name = "trigram"
    label = "3-gram"
    n = 3


class FiveGram(NGram):
    """The last four symbols."""

    name = "five_gram"
    label = "5-gram"
    n = 5


@dataclass(frozen=True)
class _Counts:
    """How often something was seen; each as one integer, in increasing order."""

    codes: Whole
    counts: Whole

    def of(self, codes: Whole) -> Whole:
        """The count of each; 0 of what was never seen."""
        places = np.searchsorted(self.codes, codes).clip(max=len(self.codes) - 1)
        return np.where(self.codes[places] == codes, self.counts[places], 0)


class NGramModel:
    """The counts of all n-grams up to length n of a text.

    Args:
        text: `[symbols]`, at least n of them.
        n: Of the longest n-grams; ``num_symbols ** n`` must be below 2**63.
        num_symbols: How many there are, seen or not.
    """

    def __init__(self, text: NDArray[np.uint8], n: int, num_symbols: int) -> None:
        self.num_symbols = num_symbols
        self._ngrams = [_count_ngrams(text, order, num_symbols) for order in range(1, n + 1)]
        histories = [_histories(ngrams, num_symbols) for ngrams in self._ngrams]
        self._totals = [totals for totals, _ in histories]
        self._kinds = [kinds for _, kinds in histories]

    def probabilities(self, inputs: Whole, targets: Whole) -> NDArray[np.float64]:
        """`[rows, time]`: p of each target after the inputs up to its place, those of its row."""
        found = np.full(targets.shape, 1.0 / self.num_symbols)
        history = np.zeros_like(targets)  # of each place, as one integer
        for order in range(1, len(self._ngrams) + 1):
            if order > 1:  # one symbol more: that `order - 2` places before the last input
                back = inputs[:, : inputs.shape[1] - (order - 2)]
                history[:, order - 2 :] += back * self.num_symbols ** (order - 2)
            has_history = np.arange(targets.shape[1]) >= order - 2
            longer = self._interpolated(order, history, targets, found)
            found = np.where(has_history, longer, found)
        return found

    def _interpolated(
        self, order: int, history: Whole, targets: Whole, shorter: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        seen = self._ngrams[order - 1].of(history * self.num_symbols + targets)
        total, kinds = self._totals[order - 1].of(history), self._kinds[order - 1].of(history)
        weight = np.maximum(total + kinds, 1)  # where nothing was seen, both are 0
        mixed: NDArray[np.float64] = (seen + kinds * shorter) / weight
        return np.where(total > 0, mixed, shorter)


def _count_ngrams(text: NDArray[np.uint8], order: int, num_symbols: int) -> _Counts:
    """Every run of `order` symbols, as the digits of a number; piece by piece, to save memory."""
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
    """Of what stands before the last symbol: how often it was continued, and in how many ways."""
    codes, starts = np.unique(ngrams.codes // num_symbols, return_index=True)
    totals = np.add.reduceat(ngrams.counts, starts)
    kinds = np.diff(np.append(starts, len(ngrams.codes)))
    return _Counts(codes, totals), _Counts(codes, kinds)
