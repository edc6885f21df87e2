"""Metrics of whole sequences: exact match, BLEU and chrF; also of sequences that a model generates.

BLEU (Papineni et al. 2002, doi:10.3115/1073083.1073135) and chrF (Popovic 2015,
doi:10.18653/v1/W15-3049) are computed by the library sacrebleu (Post 2018, arXiv:1804.08771). It is
imported on the first use of one of them.
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

from bakeoff.models.decoding import Decoder
from bakeoff.models.interface import Outputs
from bakeoff.suite.tasks.batch import UNSCORED, Batch
from bakeoff.suite.tasks.metrics import Metric, as_sums

Symbols = Sequence[int]


@dataclass(frozen=True, kw_only=True)
class SequenceMetric(Metric):
    """A metric that compares the symbols that are written for each example with its target.

    Attributes:
        decoder: The decoder by which the model generates, reading its own outputs. Without one, the
            metric takes the likeliest symbol at each scored position under teacher forcing.
        end: The symbol that ends a sequence and does not belong to it, if there is one.
    """

    num_symbols: int | None = None
    decoder: Decoder | None = None
    end: int | None = None

    @abstractmethod
    def counts(self, written: Symbols, *asked: Symbols) -> Sequence[float]:
        """Return what one example adds to the sums; `asked` are its references, usually one."""

    def sums(self, outputs: Outputs, batch: Batch) -> Tensor:
        """Return the sums for the likeliest symbols."""
        found = self.sums_of_written(self.likeliest(outputs, batch), batch)
        is_nan = outputs.logits[batch.is_scored(outputs.logits)].isnan().any()
        return found * math.nan if is_nan else found

    def likeliest(self, outputs: Outputs, batch: Batch) -> list[Symbols]:
        """Return for each row the likeliest symbols at scored positions, up to the end symbol."""
        is_scored = batch.is_scored(outputs.logits)
        symbols = outputs.logits.argmax(dim=-1).masked_fill(~is_scored, UNSCORED)
        return [self._sequence(row) for row in symbols.tolist()]

    def sums_of_written(self, written: Iterable[Symbols], batch: Batch) -> Tensor:
        """Return the sums for the symbols that the model wrote, skipping rows without targets.

        Args:
            written: The symbols of each row, without the end symbol.
            batch: The batch with the targets, `[batch, time]`.
        """
        rows = zip(written, self.right(batch), strict=True)
        counts = [self.counts(found, *asked) for found, asked in rows if asked]
        return torch.stack([as_sums(*each) for each in counts]).sum(dim=0)

    def asked(self, batch: Batch) -> list[Symbols | None]:
        """Return for each row the target symbols, or None if no target is scored."""
        is_asked = (batch.targets != UNSCORED).any(dim=1).tolist()
        rows = zip(batch.targets.tolist(), is_asked, strict=True)
        return [self._sequence(row) if counts else None for row, counts in rows]

    def right(self, batch: Batch) -> list[tuple[Symbols, ...]]:
        """Return for each row all right answers; an empty tuple if no target is scored."""
        asked = self.asked(batch)
        if batch.references is None:
            return [() if row is None else (row,) for row in asked]
        rows = zip(batch.references.tolist(), asked, strict=True)
        return [() if row is None else tuple(map(self._sequence, each)) for each, row in rows]

    def _sequence(self, row: Symbols) -> Symbols:
        """Return the symbols at scored positions, up to the end symbol."""
        symbols = [symbol for symbol in row if symbol != UNSCORED]
        return symbols[: symbols.index(self.end)] if self.end in symbols else symbols


@dataclass(frozen=True, kw_only=True)
class ExactMatch(SequenceMetric):
    """The share of examples whose symbols are all right, with none missing and none in excess."""

    name: str = "exact_match"
    unit: str = "1"
    better: Literal["higher", "lower", "none"] = "higher"

    def counts(self, written: Symbols, *asked: Symbols) -> Sequence[float]:
        """Return whether the symbols equal one of the references, and the number of examples."""
        return list(written) in map(list, asked), 1


def symbols_as_words(symbols: Symbols) -> str:
    """Return each symbol's number as a word, for tasks whose symbols are not text."""
    return " ".join(map(str, symbols))


@dataclass(frozen=True, kw_only=True)
class SacrebleuMetric(SequenceMetric):
    """A metric of sacrebleu with its default settings; 0 to 100.

    Attributes:
        text: The function that converts symbols to a sentence.
        num_references: The number of references of each sentence; part of the signature.
    """

    better: Literal["higher", "lower", "none"] = "higher"
    text: Callable[[Symbols], str] = symbols_as_words
    num_references: int = 1
    scorer: ClassVar[str]  # the class in sacrebleu.metrics

    @property
    def signature(self) -> str:
        """The signature of sacrebleu: the settings and version that reproduce the number."""
        scorer = _scorer(self.scorer)
        scorer.num_refs = self.num_references  # else it reports that of the last sentence
        return str(scorer.get_signature())

    def counts(self, written: Symbols, *asked: Symbols) -> Sequence[float]:
        """Return the statistics of one sentence, which sacrebleu adds up over a corpus."""
        sentences = [self.text(written)], [[self.text(each)] for each in asked]
        statistics: list[list[float]] = _scorer(self.scorer)._extract_corpus_statistics(*sentences)
        return statistics[0]

    def value(self, sums: Tensor) -> float:
        """Return the score of a corpus with these statistics."""
        if sums.isnan().any():
            return math.nan
        statistics = sums.long().tolist()
        return float(_scorer(self.scorer)._compute_score_from_stats(statistics).score)


@dataclass(frozen=True, kw_only=True)
class Bleu(SacrebleuMetric):
    """BLEU of a whole split, over n-grams of up to four words."""

    name: str = "bleu"
    unit: str = "BLEU"
    scorer: ClassVar[str] = "BLEU"


@dataclass(frozen=True, kw_only=True)
class ChrF(SacrebleuMetric):
    """chrF2 of a whole split, over n-grams of up to six characters, ignoring spaces."""

    name: str = "chrf"
    unit: str = "chrF"
    scorer: ClassVar[str] = "CHRF"


@cache
def _scorer(name: str) -> Any:
    """Return a metric of sacrebleu, whose import takes 0.1 s.

    Its two private methods are the halves of `corpus_score`, which only works within one process;
    because they are private, pyproject.toml pins the version exactly.
    """
    from sacrebleu import metrics

    return getattr(metrics, name)()
