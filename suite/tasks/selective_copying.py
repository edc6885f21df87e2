"""Selective copying: remember the data tokens among noise, then repeat them in their order.

Gu and Dao 2023, "Mamba" (arXiv:2312.00752), section 4.1.1, after the denoising task of Jing et al.
2019 (arXiv:1706.02761). The 16 data tokens are separated by noise of random lengths, so a mixer
must select by content; one that depends only on distances cannot solve the task.

    symbols   16: 0 is noise, 1 to 14 are data, 15 asks for the next data token
    input     length - 16 positions, of which 16, chosen uniformly, hold uniform data, the others
              noise; then 16 times symbol 15
    target    at each of the last 16 positions the next data token, in their order
    score     accuracy over these positions

In the paper 4,096 positions precede the 16 queries, so ``length=4112`` is its setting; the length
of a trial is the axis to vary. The paper counts 16 symbols including noise; that one of them is the
query follows its authors' earlier code for copying.
"""

from __future__ import annotations

import numpy as np
import torch

from bakeoff.suite.tasks.bases.generated import GeneratedTask, definition_source
from bakeoff.suite.tasks.data_order import RandomStream
from bakeoff.suite.tasks.task import UNSCORED, Batch

VERSION = 1
NUM_SYMBOLS = 16
NUM_DATA = 16
NOISE = 0
ASKING = NUM_SYMBOLS - 1
SOURCE = definition_source(
    name="selective_copying",
    title="Selective copying of 16 tokens among noise",
    origin="Gu and Dao 2023, arXiv:2312.00752, section 4.1.1",
    definition={
        "symbols": NUM_SYMBOLS,
        "data": NUM_DATA,
        "noise": NOISE,
        "asking": ASKING,
        "places": "uniform, distinct",
        "order": "as they came",
    },
    version=VERSION,
)


class SelectiveCopying(GeneratedTask):
    """Repetition of the data tokens in their order, without the noise between them."""

    name = "selective_copying"
    version = VERSION
    architecture = "language_model"
    asks_for = "next_symbols"
    answers_are_shown = True
    floors = ("uniform", "majority", "shown_answers")
    source = SOURCE
    lengths = (2 * NUM_DATA, 16_384)
    input_size = NUM_SYMBOLS
    output_size = NUM_SYMBOLS
    characters = ".abcdefghijklmn?"

    def draw(self, stream: RandomStream, count: int, kind: int) -> Batch:
        """Draw the positions first, then their content."""
        num_places = self.length - NUM_DATA
        places = np.sort(stream.distinct(count, NUM_DATA, num_places), axis=1)
        data = stream.integers(count, NUM_DATA, low=NOISE + 1, high=ASKING)
        inputs = np.full((count, self.length), NOISE, dtype=np.int64)
        np.put_along_axis(inputs, places, data, axis=1)
        inputs[:, num_places:] = ASKING
        targets = np.full_like(inputs, UNSCORED)
        targets[:, num_places:] = data
        return Batch(inputs={"inputs": torch.from_numpy(inputs)}, targets=torch.from_numpy(targets))
