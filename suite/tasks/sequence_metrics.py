"""Metrics of whole sequences: exact match, BLEU and chrF; also of what a model writes by itself.

BLEU (Papineni et al. 2002, doi:10.3115/1073083.1073135) and chrF (Popovic 2015,
doi:10.18653/v1/W15-3049) are those of the library sacrebleu 2.6.0 (Post 2018, arXiv:1804.08771)
with its defaults, one reference a sentence: the same counts, and the same numbers of them. They are
written here because its interface adds up counts of one process only.
"""

from __future__ import annotations

import math
import re
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from models.decoding import Decoder
from models.outputs import Outputs
from suite.tasks.batch import UNSCORED, Batch
from suite.tasks.metrics import Metric, as_sums

Symbols = Sequence[int]


@dataclass(frozen=True, kw_only=True)
class SequenceMetric(Metric):
    """Compares the symbols that are written for each example with those that are asked for.

    Attributes:
        decoder: How the model writes, reading its own outputs; None where it gives the likeliest
            symbol at each scored place, having read the right ones before it.
        end: The symbol that ends a sequence, and is no part of it; None where there is none.
    """

    num_symbols: int | None = None
    decoder: Decoder | None = None
    end: int | None = None

    @abstractmethod
    def counts(self, written: Symbols, asked: Symbols) -> Sequence[float]:
        """What one example adds to each of the sums."""

    def sums(self, outputs: Outputs, batch: Batch) -> Tensor:
        """Of the likeliest symbols."""
        is_scored = batch.is_scored(outputs.logits)
        likeliest = outputs.logits.argmax(dim=-1).masked_fill(~is_scored, UNSCORED)
        found = self.sums_of_written(map(self._sequence, likeliest.tolist()), batch)
        return found * math.nan if outputs.logits[is_scored].isnan().any() else found

    def sums_of_written(self, written: Iterable[Symbols], batch: Batch) -> Tensor:
        """Of what the model has written for each row; rows of which nothing is asked do not count.

        Args:
            written: The symbols of each row, without the one that ends it.
            batch: With the targets, `[batch, time]`.
        """
        is_asked = (batch.targets != UNSCORED).any(dim=1).tolist()
        rows = zip(written, map(self._sequence, batch.targets.tolist()), is_asked, strict=True)
        counts = [self.counts(found, asked) for found, asked, counts in rows if counts]
        return torch.stack([as_sums(*each) for each in counts]).sum(dim=0)

    def _sequence(self, row: Symbols) -> Symbols:
        """The symbols at scored places, before the end."""
        symbols = [symbol for symbol in row if symbol != UNSCORED]
        return symbols[: symbols.index(self.end)] if self.end in symbols else symbols


@dataclass(frozen=True, kw_only=True)
class ExactMatch(SequenceMetric):
    """The share of examples of which all symbols are right, and none is missing or too many."""

    name: str = "exact_match"
    unit: str = "1"
    better: Literal["higher", "lower", "none"] = "higher"

    def counts(self, written: Symbols, asked: Symbols) -> Sequence[float]:
        """Right examples, and examples."""
        return list(written) == list(asked), 1


def symbols_as_words(symbols: Symbols) -> str:
    """Each symbol's number as a word, for tasks whose symbols are no text."""
    return " ".join(map(str, symbols))


@dataclass(frozen=True, kw_only=True)
class Bleu(SequenceMetric):
    """BLEU of a whole split, 0 to 100: how many n-grams of up to four words are right.

    Attributes:
        text: Makes a sentence of symbols.
        signature: sacrebleu's, without its version.
    """

    name: str = "bleu"
    unit: str = "BLEU"
    better: Literal["higher", "lower", "none"] = "higher"
    text: Callable[[Symbols], str] = symbols_as_words
    signature: ClassVar[str] = "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp"
    order: ClassVar[int] = 4

    def counts(self, written: Symbols, asked: Symbols) -> Sequence[float]:
        """Words written and asked for; then of each order n-grams that are right; then all."""
        found, wanted = (words_of(self.text(symbols)) for symbols in (written, asked))
        orders = range(1, self.order + 1)
        matches = [_num_shared(_ngrams(found, n), _ngrams(wanted, n)) for n in orders]
        totals = [max(0, len(found) - n + 1) for n in orders]
        return [len(found), len(wanted), *matches, *totals]

    def value(self, sums: Tensor) -> float:
        """The geometric mean of the shares of right n-grams, times the penalty for brevity."""
        num_written, num_asked, *counts = sums.tolist()
        matches, totals = counts[: self.order], counts[self.order :]
        if not any(matches) or not all(totals):
            return 0.0
        logs, smoothing = [], 1.0
        for right, total in zip(matches, totals, strict=True):
            smoothing = smoothing if right else smoothing / 2
            logs.append(math.log(100.0 * (right or smoothing) / total))
        brevity = math.exp(min(0.0, 1 - num_asked / num_written))
        return brevity * math.exp(sum(logs) / self.order)


@dataclass(frozen=True, kw_only=True)
class ChrF(SequenceMetric):
    """chrF2 of a whole split, 0 to 100: right n-grams of up to six characters, without spaces.

    Attributes:
        text: Makes a sentence of symbols.
        signature: sacrebleu's, without its version.
    """

    name: str = "chrf"
    unit: str = "chrF"
    better: Literal["higher", "lower", "none"] = "higher"
    text: Callable[[Symbols], str] = symbols_as_words
    signature: ClassVar[str] = "nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no"
    order: ClassVar[int] = 6
    beta: ClassVar[int] = 2

    def counts(self, written: Symbols, asked: Symbols) -> Sequence[float]:
        """Of each order: n-grams written, asked for, and right."""
        found, wanted = ("".join(self.text(symbols).split()) for symbols in (written, asked))
        numbers: list[float] = []
        for n in range(1, self.order + 1):
            mine, theirs = _ngrams(found, n), _ngrams(wanted, n)
            num_written = mine.total() if theirs else 0  # as sacrebleu counts
            numbers += [num_written, theirs.total(), _num_shared(mine, theirs)]
        return numbers

    def value(self, sums: Tensor) -> float:
        """F of the mean precision and the mean recall, in which recall counts beta times."""
        if sums.isnan().any():
            return math.nan
        orders = [each for each in sums.reshape(-1, 3).tolist() if each[0] and each[1]]
        if not any(right for _, _, right in orders):
            return 0.0
        precision = sum(right / written for written, _, right in orders) / len(orders)
        recall = sum(right / asked for _, asked, right in orders) / len(orders)
        factor = self.beta**2
        score: float = (1 + factor) * precision * recall / (factor * precision + recall)
        return 100 * score


_ENTITIES = {"&quot;": '"', "&amp;": "&", "&lt;": "<", "&gt;": ">"}
_SPACED = [
    (re.compile(r"([{-~\[-` -&(-+:-@/])"), r" \1 "),
    (re.compile(r"([^0-9])([.,])"), r"\1 \2 "),
    (re.compile(r"([.,])([^0-9])"), r" \1 \2"),
    (re.compile(r"([0-9])(-)"), r"\1 \2 "),
]


def words_of(sentence: str) -> list[str]:
    """The words by which WMT counts: the tokens of mteval-v13a."""
    line = sentence.rstrip().replace("<skipped>", "").replace("-\n", "").replace("\n", " ")
    for written, meant in _ENTITIES.items():
        line = line.replace(written, meant)
    line = f" {line} "
    for pattern, spaced in _SPACED:
        line = pattern.sub(spaced, line)
    return line.split()


def _ngrams(units: Sequence[str], n: int) -> Counter[Sequence[str]]:
    places = range(len(units) - n + 1)
    return Counter(
        units[i : i + n] if isinstance(units, str) else tuple(units[i : i + n]) for i in places
    )


def _num_shared(a: Counter[Sequence[str]], b: Counter[Sequence[str]]) -> int:
    return (a & b).total()
