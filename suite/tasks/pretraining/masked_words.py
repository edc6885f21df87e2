"""Predict the hidden words of texts: the pretraining task of BERT.

Windows are those of `bakeoff.suite.tasks.pretraining.windows`;
`bakeoff.suite.tasks.pretraining.masking` describes how many words are hidden and what replaces
them. Words outside the vocabulary, and symbols that begin or end a text, are never asked for.
`places` holds the positions that are asked for, so that a model computes only their logits. The
tasks differ in the masking or in the texts:

    definitions_masked        15 %, as BERT: 80 % of it masked, 10 % another word, 10 % unchanged
    definitions_masked_5      5 %; definitions_masked_40 has 40 %
    definitions_masked_only   all of the 15 % masked
    definitions_spans         three neighbours together
    definitions_pairs         with the question whether the second text follows the first
    wikipedia_masked          on articles; plays_masked on plays, english_masked on all texts

Bits are per hidden word, and do not compare between kinds of masking.

The input of definitions_pairs is 3, a text, 4, a second text, 4, each of half the length;
`segments` distinguishes the two. In half of all windows the second text is from another position,
where it is cut in the same way as a true one, so neither text alone reveals the answer. The first
token predicts it as one of the last two symbols, and the loss is the sum of the mean over hidden
words and the mean over answers (Devlin et al. 2019, appendix A.2).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from bakeoff.models.interface import INPUTS, PLACES, SEGMENTS, Answer, Input, Outputs
from bakeoff.suite.tasks.data_order import RandomStream, Whole
from bakeoff.suite.tasks.metrics import Accuracy, Bits
from bakeoff.suite.tasks.pretraining.corpora import (
    BEGIN,
    DOES_NOT_FOLLOW,
    END,
    FIRST_WORD,
    FOLLOWS,
    HIDDEN,
)
from bakeoff.suite.tasks.pretraining.masking import Masking
from bakeoff.suite.tasks.pretraining.windows import ALL, TextsWithoutLabels
from bakeoff.suite.tasks.task import UNSCORED, Batch

_WORDS = range(FIRST_WORD, DOES_NOT_FOLLOW)


class DefinitionsMasked(TextsWithoutLabels):
    """Prediction of hidden words of definitions: 15 %, as BERT."""

    name = "definitions_masked"
    asks_for: ClassVar[Answer] = "symbols"
    metric = Bits(name="bits_per_hidden_word")
    version = 2
    masking: ClassVar[Masking] = Masking()

    def asked(self, stream: RandomStream, windows: Whole, others: Whole) -> Batch:
        """Return the first `length` symbols of the windows, with some words hidden."""
        return self.masked(stream, windows[:, : self.length])

    @classmethod
    def other_inputs(cls, length: int) -> dict[str, Input]:
        """Return the positions that are asked for."""
        return {PLACES: Input(kind="tokens", size=length, length=cls.num_places(length))}

    @classmethod
    def num_places(cls, length: int) -> int:
        """Return the largest number of positions that are asked for."""
        return cls.masking.most_spans(length) * cls.masking.span

    def masked(self, stream: RandomStream, texts: Whole) -> Batch:
        """Hide some words of the texts and ask for them; unused answer slots are UNSCORED."""
        may_hide = (texts >= _WORDS.start) & (texts < _WORDS.stop)
        hidden, asked = self.masking.hide(stream, texts, may_hide, mask=HIDDEN, others=_WORDS)
        count = self.num_places(self.length)
        places = np.argsort(~asked, axis=1, kind="stable")[:, :count]
        targets = np.take_along_axis(np.where(asked, texts, UNSCORED), places, axis=1)
        inputs = {INPUTS: torch.from_numpy(hidden), PLACES: torch.from_numpy(places)}
        return Batch(inputs=inputs, targets=torch.from_numpy(targets))


class DefinitionsMasked5(DefinitionsMasked):
    """Prediction of hidden words of definitions: 5 %."""

    name = "definitions_masked_5"
    masking = Masking(share=0.05)


class DefinitionsMasked40(DefinitionsMasked):
    """Prediction of hidden words of definitions: 40 %, as Wettig et al. 2023 (arXiv:2202.08005)."""

    name = "definitions_masked_40"
    masking = Masking(share=0.4)


class DefinitionsMaskedOnly(DefinitionsMasked):
    """Prediction of hidden words of definitions, all of them masked, as Wettig et al. 2023."""

    name = "definitions_masked_only"
    masking = Masking(replaced=1.0, random=0.0)


class DefinitionsSpans(DefinitionsMasked):
    """Prediction of hidden spans of three words; SpanBERT's spans have 3.8 on average."""

    name = "definitions_spans"
    masking = Masking(span=3)


class WikipediaMasked(DefinitionsMasked):
    """Prediction of hidden words of Wikipedia articles."""

    name = "wikipedia_masked"
    corpora = ("wikipedia",)


class PlaysMasked(DefinitionsMasked):
    """Prediction of hidden words of Shakespeare's plays."""

    name = "plays_masked"
    corpora = ("plays",)


class EnglishMasked(DefinitionsMasked):
    """Prediction of hidden words of all texts."""

    name = "english_masked"
    corpora = ALL


@dataclass(frozen=True, kw_only=True)
class HiddenWordBits(Bits):
    """The bits of the hidden words, without the answer of the first token."""

    name: str = "bits_per_hidden_word"

    def sums(self, outputs: Outputs, batch: Batch) -> Tensor:
        """Return the bits and the number of words."""
        return super().sums(outputs, batch.only(_is_word(batch)))


@dataclass(frozen=True, kw_only=True)
class NextTextAccuracy(Accuracy):
    """The accuracy of the prediction whether the second text follows the first."""

    name: str = "next_text_accuracy"

    def sums(self, outputs: Outputs, batch: Batch) -> Tensor:
        """Return the numbers of right answers and of answers."""
        return super().sums(outputs, batch.only(~_is_word(batch)))


class DefinitionsPairs(DefinitionsMasked):
    """Prediction of hidden words, and whether the second of two texts follows the first."""

    name = "definitions_pairs"
    metric = HiddenWordBits()
    also_scored = (NextTextAccuracy(),)

    @classmethod
    def other_inputs(cls, length: int) -> dict[str, Input]:
        """Return the segment of each token, and the positions that are asked for."""
        segments = Input(kind="tokens", size=2, length=length)
        return {SEGMENTS: segments, **super().other_inputs(length)}

    @classmethod
    def num_places(cls, length: int) -> int:
        """Return the largest number of positions asked for, including the first token."""
        return 1 + super().num_places(length)

    def asked(self, stream: RandomStream, windows: Whole, others: Whole) -> Batch:
        """Return pairs of texts with some words hidden, and whether the second text follows."""
        texts, segments, follows = self._paired(stream, windows, others)
        masked = self.masked(stream, texts)
        answers = torch.from_numpy(np.where(follows, FOLLOWS, DOES_NOT_FOLLOW))
        first = torch.zeros_like(answers)
        places = torch.cat([first[:, None], masked.inputs[PLACES][:, :-1]], dim=1)
        inputs = {**masked.inputs, PLACES: places, SEGMENTS: torch.from_numpy(segments)}
        targets = torch.cat([answers[:, None], masked.targets[:, :-1]], dim=1)
        return Batch(inputs=inputs, targets=targets)

    def loss(self, outputs: Outputs, batch: Batch, label_smoothing: float = 0.0) -> Tensor:
        """Return the sum of the mean over words and the mean over answers."""
        targets, logits = batch.targets, outputs.logits
        words = targets.masked_fill(~_is_word(batch), UNSCORED)
        first = targets[:, 0]
        answers = torch.where(first == UNSCORED, first, first - DOES_NOT_FOLLOW)
        how: dict[str, Any] = {"ignore_index": UNSCORED, "label_smoothing": label_smoothing}
        of_words = cross_entropy(logits.flatten(0, 1), words.flatten(), **how)
        return of_words + cross_entropy(logits[:, 0, DOES_NOT_FOLLOW:], answers, **how)

    def _paired(
        self, stream: RandomStream, windows: Whole, others: Whole
    ) -> tuple[Whole, Whole, Whole]:
        """Return the pairs `[windows, time]`, their segments, and 1 for each true pair."""
        half = (self.length - 3) // 2
        rest = self.length - 3 - half
        follows = stream.uniform(len(windows)) < 0.5
        second = np.where(follows[:, None], windows, others)[:, 1 + half : 1 + half + rest]
        begin, end = (np.full((len(windows), 1), symbol) for symbol in (BEGIN, END))
        texts = np.concatenate([begin, windows[:, 1 : 1 + half], end, second, end], axis=1)
        segments = np.zeros_like(texts)
        segments[:, half + 2 :] = 1
        return texts, segments, follows.astype(np.int64)


def _is_word(batch: Batch) -> Tensor:
    """Return a mask `[batch, answers]` of all answers but the first."""
    places = torch.arange(batch.targets.shape[1], device=batch.targets.device)
    return (places > 0).expand_as(batch.targets)
