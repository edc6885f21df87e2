"""Masked language modelling of Shakespeare: predict the hidden characters.

Devlin et al. 2019, "BERT" (arXiv:1810.04805), section 3.1: 15 % of the tokens of a window, chosen
uniformly, are to be predicted, and the model reads the characters before and after them. Text,
splits and scored positions are those of `shakespeare_characters`; bits are per hidden character,
and do not compare with bits of the next character, which is predicted without the characters that
follow.

    hidden    round(0.15 length) characters of each window, at least one
    input     the window with symbol 81, which is not a character, in their positions
    score     over 9,600 to 9,900 hidden characters for validation, twice as many for test

Every hidden character is replaced. BERT keeps one in ten and replaces one in ten by another token,
so that a model that is later used without masks has been trained on such inputs; this task has no
such later use, and a character that stays visible would cost no bits. Hidden positions are drawn
from (seed, step) in training; for the held-out windows they are fixed for each length. In the
filled part of a play's last window, which is not scored (see `text_windows`), characters are hidden
too, but not scored.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from bakeoff.suite.tasks.data_order import RandomStream, held_out_stream
from bakeoff.suite.tasks.metrics import Bits
from bakeoff.suite.tasks.shakespeare_characters import VOCABULARY, ShakespeareCharacters
from bakeoff.suite.tasks.task import UNSCORED, Batch, Split, Task

HIDDEN_SHARE = 0.15
HIDDEN = len(VOCABULARY)  # the symbol that replaces a hidden one


class ShakespeareMasked(ShakespeareCharacters):
    """Prediction of the hidden characters of a window, scored in bits per hidden character."""

    name = "shakespeare_masked"
    architecture = "masked_language_model"
    asks_for = "symbols"
    reads_answers = False
    metric = Bits(name="bits_per_masked_character")
    floors = Task.floors
    input_size = len(VOCABULARY) + 1
    characters = VOCABULARY + "_"  # a character that occurs in no play

    def training_batch(self, step: int, batch: int, seed: int) -> Batch:
        """Return windows of `shakespeare_characters`, with other positions hidden at each step."""
        window = super().training_batch(step, batch, seed)
        return self._hide(window, RandomStream(seed, step))

    def held_out(self, split: Split, batch: int) -> Iterator[Batch]:
        """Yield its windows; the same positions are hidden whatever the seed and the batch size."""
        stream = held_out_stream(split)
        for window in super().held_out(split, batch):
            yield self._hide(window, stream)

    def _hide(self, window: Batch, stream: RandomStream) -> Batch:
        count = max(1, round(HIDDEN_SHARE * self.length))
        inputs = window.inputs["inputs"]
        shape = inputs.shape
        # Draw row by row, so that the hidden positions of a row do not depend on its batch.
        drawn = stream.bits(shape.numel()).reshape(shape)
        largest = np.partition(drawn, count - 1, axis=1)[:, count - 1 : count]
        is_hidden = torch.from_numpy(drawn <= largest)
        is_asked = is_hidden & (window.targets != UNSCORED)
        hidden = {"inputs": inputs.masked_fill(is_hidden, HIDDEN)}
        return Batch(inputs=hidden, targets=inputs).only(is_asked)
