"""Metrics of whole sequences: exact match, BLEU and chrF; also of what a model writes by itself.

BLEU (Papineni et al. 2002, doi:10.3115/1073083.1073135) and chrF (Popovic 2015,
doi:10.18653/v1/W15-3049) are computed by the library sacrebleu (Post 2018, arXiv:1804.08771). It is
imported when the first of them is asked for.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from models.decoding import Decoder
from models.interface import Outputs
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
    def counts(self, written: Symbols, *asked: Symbols) -> Sequence[float]:
        """What one example adds to each of the sums; `asked` are its references, mostly one."""

    def sums(self, outputs: Outputs, batch: Batch) -> Tensor:
        """Of the likeliest symbols."""
        found = self.sums_of_written(self.likeliest(outputs, batch), batch)
        is_nan = outputs.logits[batch.is_scored(outputs.logits)].isnan().any()
        return found * math.nan if is_nan else found

    def likeliest(self, outputs: Outputs, batch: Batch) -> list[Symbols]:
        """Of each row the likeliest symbols at scored places, before the one that ends it."""
        is_scored = batch.is_scored(outputs.logits)
        symbols = outputs.logits.argmax(dim=-1).masked_fill(~is_scored, UNSCORED)
        return [self._sequence(row) for row in symbols.tolist()]

    def sums_of_written(self, written: Iterable[Symbols], batch: Batch) -> Tensor:
        """Of what the model has written for each row; rows of which nothing is asked do not count.

        Args:
            written: The symbols of each row, without the one that ends it.
            batch: With the targets, `[batch, time]`.
        """
        rows = zip(written, self.right(batch), strict=True)
        counts = [self.counts(found, *asked) for found, asked in rows if asked]
        return torch.stack([as_sums(*each) for each in counts]).sum(dim=0)

    def asked(self, batch: Batch) -> list[Symbols | None]:
        """Of each row the symbols that are asked for; None where nothing is."""
        is_asked = (batch.targets != UNSCORED).any(dim=1).tolist()
        rows = zip(batch.targets.tolist(), is_asked, strict=True)
        return [self._sequence(row) if counts else None for row, counts in rows]

    def right(self, batch: Batch) -> list[tuple[Symbols, ...]]:
        """Of each row all that would be right; none where nothing is asked for."""
        asked = self.asked(batch)
        if batch.references is None:
            return [() if row is None else (row,) for row in asked]
        rows = zip(batch.references.tolist(), asked, strict=True)
        return [() if row is None else tuple(map(self._sequence, each)) for each, row in rows]

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

    def counts(self, written: Symbols, *asked: Symbols) -> Sequence[float]:
        """Right examples, and examples; one that is any of the references is right."""
        return list(written) in map(list, asked), 1


def symbols_as_words(symbols: Symbols) -> str:
    """Each symbol's number as a word, for tasks whose symbols are no text."""
    return " ".join(map(str, symbols))


@dataclass(frozen=True, kw_only=True)
class SacrebleuMetric(SequenceMetric):
    """A metric of sacrebleu with its defaults; 0 to 100.

    Attributes:
        text: Makes a sentence of symbols.
        num_references: Of each sentence; it stands in the signature.
    """

    better: Literal["higher", "lower", "none"] = "higher"
    text: Callable[[Symbols], str] = symbols_as_words
    num_references: int = 1
    scorer: ClassVar[str]  # the class in sacrebleu.metrics

    @property
    def signature(self) -> str:
        """Of sacrebleu: settings and version, by which others compute the same number."""
        scorer = _scorer(self.scorer)
        scorer.num_refs = self.num_references  # it keeps that of the last sentence
        return str(scorer.get_signature())

    def counts(self, written: Symbols, *asked: Symbols) -> Sequence[float]:
        """The statistics of one sentence, as sacrebleu adds them up over a corpus."""
        sentences = [self.text(written)], [[self.text(each)] for each in asked]
        statistics: list[list[float]] = _scorer(self.scorer)._extract_corpus_statistics(*sentences)
        return statistics[0]

    def value(self, sums: Tensor) -> float:
        """The score of a corpus with these statistics."""
        if sums.isnan().any():
            return math.nan
        statistics = sums.long().tolist()
        return float(_scorer(self.scorer)._compute_score_from_stats(statistics).score)


@dataclass(frozen=True, kw_only=True)
class Bleu(SacrebleuMetric):
    """BLEU of a whole split: how many n-grams of up to four words are right."""

    name: str = "bleu"
    unit: str = "BLEU"
    scorer: ClassVar[str] = "BLEU"


@dataclass(frozen=True, kw_only=True)
class ChrF(SacrebleuMetric):
    """chrF2 of a whole split: right n-grams of up to six characters, without spaces."""

    name: str = "chrf"
    unit: str = "chrF"
    scorer: ClassVar[str] = "CHRF"


@cache
def _scorer(name: str) -> Any:
    """A metric of sacrebleu, which takes 0.1 s to import.

    Its two private methods are the halves of `corpus_score`, which adds up one process only; so
    pyproject.toml names its version exactly.
    """
    from sacrebleu import metrics

    return getattr(metrics, name)()
