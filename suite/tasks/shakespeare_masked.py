"""Masked language modelling of Shakespeare: predict the hidden characters.

Devlin et al. 2019, "BERT" (arXiv:1810.04805), section 3.1: 15 % of the tokens of a window, chosen
uniformly, are asked for, and the model sees what stands before and behind them. Text, splits and
scored places are those of `shakespeare_characters`; bits are per hidden character, and do not
compare with bits of the next character, which is predicted without what follows.

    hidden    round(0.15 length) characters of each window, at least one
    input     the window with symbol 81, which no character has, in their places
    score     over 9,600 to 9,900 hidden characters for validation, twice as many for test

Every hidden character is replaced. BERT leaves one in ten as it is and replaces one in ten by
another token, so that a model that is used without masks later is not surprised; here it is not
used so, and a character in plain sight would cost no bits. What is hidden is drawn from (seed,
step) in training; of the held-out windows it is fixed for each length. Where the filled tail of a
play's last window is not scored (see `text_windows`), nothing of it is asked for; some of it is
hidden all the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from models.model_spec import InputKind
from suite.tasks.data_order import HELD_OUT_SEED, RandomStream
from suite.tasks.metrics import bits
from suite.tasks.shakespeare_characters import SOURCE, VOCABULARY, ShakespeareCharacters
from suite.tasks.task import UNSCORED, Batch, Metric, Split, Task
from suite.tasks.text_windows import Corpus

HIDDEN_SHARE = 0.15
HIDDEN = len(VOCABULARY)  # the symbol that stands for a hidden one
HIDDEN_AS_TEXT = "_"  # which no play has
_HELD_OUT_STREAMS: dict[Split, int] = {"validation": 0, "test": 1}


class ShakespeareMasked(Task):
    """Name the hidden characters of a window; bits per hidden character."""

    name = "shakespeare_masked"
    version = 1
    skeleton = "masked_language_model"
    metric = Metric(name="bits_per_masked_character", unit="bit", better="lower")
    source = SOURCE
    input_kind: ClassVar[InputKind] = "tokens"
    input_size = len(VOCABULARY) + 1
    output_size = len(VOCABULARY)

    def __init__(self, length: int) -> None:
        self.windows = _Windows(length)
        super().__init__(length)

    def read(self) -> Corpus:
        """The plays, in which nothing is hidden."""
        return self.windows.read()

    def training_batch(self, step: int, batch: int, seed: int) -> Batch:
        """The windows of `shakespeare_characters`, with other places hidden at each step."""
        window = self.windows.training_batch(step, batch, seed)
        return self._hide(window, RandomStream(seed, step))

    def held_out(self, split: Split, batch: int) -> Iterator[Batch]:
        """Its windows too; the same places are hidden whatever the seed and the batch size."""
        stream = RandomStream(HELD_OUT_SEED, _HELD_OUT_STREAMS[split])
        for window in self.windows.held_out(split, batch):
            yield self._hide(window, stream)

    def score(self, outputs: Tensor, batch: Batch) -> tuple[float, int]:
        """Bits, and the number of hidden characters."""
        return bits(outputs, batch.targets)

    def text(self, tokens: Sequence[int]) -> str:
        """See `Task.text`."""
        return "".join((VOCABULARY + HIDDEN_AS_TEXT)[token] for token in tokens)

    def _hide(self, window: Batch, stream: RandomStream) -> Batch:
        count = max(1, round(HIDDEN_SHARE * self.length))
        shape = window.inputs.shape
        # Drawn row by row, so that a row hides the same whichever batch it comes in.
        drawn = stream.bits(shape.numel()).reshape(shape)
        places = torch.from_numpy(np.argsort(drawn, axis=1, kind="stable")[:, :count].copy())
        is_hidden = torch.zeros(shape, dtype=torch.bool).scatter_(1, places, value=True)
        is_asked = is_hidden & (window.targets != UNSCORED)
        return Batch(
            inputs=window.inputs.masked_fill(is_hidden, HIDDEN),
            targets=window.inputs.masked_fill(~is_asked, UNSCORED),
        )


class _Windows(ShakespeareCharacters):
    """Windows of the text, under the name that a refused length is reported by."""

    name = "shakespeare_masked"
