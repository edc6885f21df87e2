"""Predict the next words of texts: what GPT is trained on, and a mixture of GPT and BERT.

Windows are those of `suite.tasks.pretraining.windows`.

    definitions_next     each token is asked for the next one, and sees those before it
    definitions_prefix   the first half of a window is the prefix, whose tokens see each other; the
                         words behind it are asked for, each from the prefix and from those before
                         it (Liu et al. 2018, arXiv:1801.10198; Raffel et al. 2020,
                         arXiv:1910.10683, section 3.2.1)
"""

from __future__ import annotations

from typing import ClassVar

import torch

from models.interface import INPUTS, Answer, prefix_length
from suite.tasks.data_order import RandomStream, Whole
from suite.tasks.metrics import Bits
from suite.tasks.pretraining.windows import TextsWithoutLabels
from suite.tasks.task import Batch


class DefinitionsNext(TextsWithoutLabels):
    """From left to right."""

    name = "definitions_next"
    architecture = "bert_left_to_right"
    asks_for: ClassVar[Answer] = "next_symbols"
    reads_answers = True
    metric = Bits(name="bits_per_word")

    def asked(self, stream: RandomStream, windows: Whole, others: Whole) -> Batch:
        """See `TextsWithoutLabels.asked`."""
        inputs, targets = windows[:, :-1].copy(), windows[:, 1:].copy()
        return Batch(inputs={INPUTS: torch.from_numpy(inputs)}, targets=torch.from_numpy(targets))


class DefinitionsPrefix(DefinitionsNext):
    """Behind a prefix that is read both ways."""

    name = "definitions_prefix"
    architecture = "bert_prefix"
    asks_for = "continuation"
    reads_answers = False  # behind the prefix alone

    def asked(self, stream: RandomStream, windows: Whole, others: Whole) -> Batch:
        """See `TextsWithoutLabels.asked`; the last token of the prefix answers first."""
        batch = super().asked(stream, windows, others)
        is_asked = torch.arange(self.length) >= prefix_length(self.length) - 1
        return batch.only(is_asked.expand_as(batch.targets))
