"""Duplication: a word of random symbols occurs twice, so its second half is predictable.

Kitaev, Kaiser and Levskaya 2020, "Reformer" (arXiv:2001.04451), section 4 and Table 2. The only
solution is exact recall over half a sequence, so attention that is restricted to too few of the
earlier tokens (by hashing, by a window, by a state that is too small) fails visibly.

    symbols   128: 0 begins each half, 1 to 127 are letters
    input     0 w 0 w, with w of length / 2 - 1 uniform letters
    target    at each position of the second half but the last the next letter of w
    score     accuracy over these positions

In the paper w has 511 letters, so ``length=1024`` is its setting. A model with full attention
learns the task there in one layer of width 256. There is one departure: the second 0, whose
position is fixed, is not scored. Training examples are always new.
"""

from __future__ import annotations

from typing import ClassVar

import torch

from bakeoff.suite.tasks.bases.generated import GeneratedTask, definition_source
from bakeoff.suite.tasks.data_order import RandomStream
from bakeoff.suite.tasks.task import UNSCORED, Batch, Split, TaskError

VERSION = 1
NUM_SYMBOLS = 128
BEGIN = 0
SOURCE = definition_source(
    name="duplication",
    title="A word of 127 letters said twice",
    origin="Kitaev, Kaiser and Levskaya 2020, arXiv:2001.04451, section 4",
    definition={"symbols": NUM_SYMBOLS, "begin": BEGIN, "input": "0w0w, letters uniform"},
    version=VERSION,
)


class Duplication(GeneratedTask):
    """Repetition of a word of random symbols."""

    name = "duplication"
    version = VERSION
    architecture = "language_model"
    asks_for = "next_symbols"
    answers_are_shown = True
    floors = ("uniform", "majority", "shown_answers")
    source = SOURCE
    num_held_out: ClassVar[dict[Split, int]] = {"validation": 200, "test": 500}
    lengths = (16, 65_536)
    input_size = NUM_SYMBOLS
    output_size = NUM_SYMBOLS

    def __init__(self, length: int) -> None:
        least, most = self.lengths
        if length % 2 or not least <= length <= most:
            raise TaskError(
                f"{self.name}: length must be an even number of {least} to {most} tokens,"
                f" not {length}"
            )
        super().__init__(length)

    def draw(self, stream: RandomStream, count: int, kind: int) -> Batch:
        """Draw the letters of `count` words, row by row."""
        half = self.length // 2
        drawn = stream.integers(count, half - 1, low=BEGIN + 1, high=NUM_SYMBOLS)
        word = torch.from_numpy(drawn)
        begin = torch.full((count, 1), BEGIN)
        nothing = torch.full((count, half), UNSCORED)
        return Batch(
            inputs={"inputs": torch.cat([begin, word, begin, word], dim=1)},
            targets=torch.cat([nothing, word, nothing[:, :1]], dim=1),
        )
