"""Predict the next words of texts: the pretraining task of GPT, and a mixture of GPT and BERT.

Windows are those of `bakeoff.suite.tasks.pretraining.windows`.

    definitions_next     each token predicts the next one, and attends to those before it
    definitions_prefix   the first half of a window is the prefix, whose tokens attend to each
                         other; the words after it are predicted, each from the prefix and from
                         those before it (Liu et al. 2018, arXiv:1801.10198; Raffel et al. 2020,
                         arXiv:1910.10683, section 3.2.1)
"""

from __future__ import annotations

from typing import ClassVar

import torch

from bakeoff.models.interface import INPUTS, Answer, prefix_length
from bakeoff.suite.tasks.data_order import RandomStream, Whole
from bakeoff.suite.tasks.metrics import Bits
from bakeoff.suite.tasks.pretraining.windows import TextsWithoutLabels
from bakeoff.suite.tasks.task import Batch


class DefinitionsNext(TextsWithoutLabels):
    """Prediction of the next word from left to right."""

    name = "definitions_next"
    architecture = "bert_left_to_right"
    asks_for: ClassVar[Answer] = "next_symbols"
    reads_answers = True
    metric = Bits(name="bits_per_word")

    def asked(self, stream: RandomStream, windows: Whole, others: Whole) -> Batch:
        """Return the windows with the next symbol of each position as its target."""
        inputs, targets = windows[:, :-1].copy(), windows[:, 1:].copy()
        return Batch(inputs={INPUTS: torch.from_numpy(inputs)}, targets=torch.from_numpy(targets))


class DefinitionsPrefix(DefinitionsNext):
    """Prediction of the next word after a prefix that is read in both directions."""

    name = "definitions_prefix"
    architecture = "bert_prefix"
    asks_for = "continuation"
    reads_answers = False  # it does so after the prefix only

    def asked(self, stream: RandomStream, windows: Whole, others: Whole) -> Batch:
        """Return the windows with targets from the last token of the prefix on."""
        batch = super().asked(stream, windows, others)
        is_asked = torch.arange(self.length) >= prefix_length(self.length) - 1
        return batch.only(is_asked.expand_as(batch.targets))
