"""Masked language modelling of Shakespeare: predict the hidden characters.

Devlin et al. 2019, "BERT" (arXiv:1810.04805), section 3.1: 15 % of the tokens of a window, chosen
uniformly, are asked for, and the model sees the characters before and behind them. Text, splits and
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

from collections.abc import Iterator

import numpy as np
import torch

from suite.tasks.data_order import RandomStream, held_out_stream
from suite.tasks.metrics import Bits
from suite.tasks.shakespeare_characters import VOCABULARY, ShakespeareCharacters
from suite.tasks.task import UNSCORED, Batch, Split, Task

HIDDEN_SHARE = 0.15
HIDDEN = len(VOCABULARY)  # the symbol in place of a hidden one


class ShakespeareMasked(ShakespeareCharacters):
    """Name the hidden characters of a window; bits per hidden character."""

    name = "shakespeare_masked"
    architecture = "masked_language_model"
    asks_for = "symbols"
    reads_answers = False
    metric = Bits(name="bits_per_masked_character")
    floors = Task.floors
    input_size = len(VOCABULARY) + 1
    characters = VOCABULARY + "_"  # which no play has

    def training_batch(self, step: int, batch: int, seed: int) -> Batch:
        """The windows of `shakespeare_characters`, with other places hidden at each step."""
        window = super().training_batch(step, batch, seed)
        return self._hide(window, RandomStream(seed, step))

    def held_out(self, split: Split, batch: int) -> Iterator[Batch]:
        """Its windows too; the same places are hidden whatever the seed and the batch size."""
        stream = held_out_stream(split)
        for window in super().held_out(split, batch):
            yield self._hide(window, stream)

    def _hide(self, window: Batch, stream: RandomStream) -> Batch:
        count = max(1, round(HIDDEN_SHARE * self.length))
        inputs = window.inputs["inputs"]
        shape = inputs.shape
        # Drawn row by row, so that a row hides the same whichever batch it comes in.
        drawn = stream.bits(shape.numel()).reshape(shape)
        largest = np.partition(drawn, count - 1, axis=1)[:, count - 1 : count]
        is_hidden = torch.from_numpy(drawn <= largest)
        is_asked = is_hidden & (window.targets != UNSCORED)
        hidden = {"inputs": inputs.masked_fill(is_hidden, HIDDEN)}
        return Batch(inputs=hidden, targets=inputs).only(is_asked)
