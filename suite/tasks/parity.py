"""Parity of the number of ones so far, asked after every bit.

The task asks for the running parity rather than the parity of the whole string: one string poses
the question at every length, so accuracy by length is accuracy by position, and every position
provides a training signal, whereas the parity of a whole uniform string gives gradient descent
almost none. A causal model reads from left to right and answers as it goes (one bit of state
suffices; Hahn 2020, arXiv:1906.06755, shows why bounded attention must fail as strings grow). Liu
et al. 2022, "Transformers learn shortcuts to automata" (arXiv:2210.10749), pose the task in the
same way.

    input     independent bits, equally likely               01101
    target    at each position the parity of all so far      01001
    score     accuracy over positions; by length: over positions from just above half a power of
              two up to it, such as ``length=64`` for the positions 33 to 64

Up to about 16 bits there are so few strings that the held-out ones also occur in training; such
lengths show whether the task can be learned, not whether it generalises.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from bakeoff.suite.tasks.bases.generated import GeneratedTask, definition_source
from bakeoff.suite.tasks.data_order import RandomStream
from bakeoff.suite.tasks.task import Batch

VERSION = 1
SOURCE = definition_source(
    name="parity",
    title="Running parity of uniform bits",
    origin="Liu et al. 2022, arXiv:2210.10749; Hahn 2020, arXiv:1906.06755",
    definition={"bits": "uniform", "target": "parity of the bits up to each place"},
    version=VERSION,
)


class Parity(GeneratedTask):
    """Running parity: after every bit, whether the number of ones so far is odd."""

    name = "parity"
    version = VERSION
    architecture = "language_model"
    asks_for = "next_symbols"
    source = SOURCE
    lengths = (2, 16_384)
    token_name = "bits"
    input_size = 2
    output_size = 2
    characters = "01"

    def draw(self, stream: RandomStream, count: int, kind: int) -> Batch:
        """Draw uniform bits and compute their running parity."""
        bits = stream.integers(count, self.length, low=0, high=2)
        parity = np.cumsum(bits, axis=1) % 2
        return Batch(inputs={"inputs": torch.from_numpy(bits)}, targets=torch.from_numpy(parity))

    def parts(self) -> tuple[str, ...]:
        """Return one part for each power of two up to the length, and for the length itself."""
        return tuple(f"length={last}" for _, last in self._ranges())

    def in_parts(self, batch: Batch) -> dict[str, Tensor]:
        """Return the parts by the number of bits that an answer depends on."""
        num_bits = torch.arange(1, self.length + 1, device=batch.targets.device)
        return {
            f"length={last}": ((num_bits > before) & (num_bits <= last)).expand(batch.targets.shape)
            for before, last in self._ranges()
        }

    def _ranges(self) -> list[tuple[int, int]]:
        """Return (0, 1), (1, 2), (2, 4), ...: positions above the first number up to the second."""
        powers = [2**exponent for exponent in range(self.length.bit_length())]
        lasts = sorted({*powers, self.length})
        return list(zip([0, *lasts], lasts, strict=False))
