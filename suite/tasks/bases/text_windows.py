"""Language modelling over a text: random windows for training, whole held-out pieces.

Convention: a window of `length` inputs predicts the `length` symbols that follow each of them.
There is no start symbol: the first symbol of a held-out piece is context only, and scoring begins
with the second. Windows of a held-out piece do not overlap, so every scored symbol is predicted
once, with 1 to `length` symbols of context. The same symbols are scored at every length; if the
length does not divide their number, the rest of a piece's last window is filled with more of the
piece, which is not scored.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bakeoff.models.interface import Answer
from bakeoff.suite.tasks.data_order import RandomStream
from bakeoff.suite.tasks.metrics import Bits
from bakeoff.suite.tasks.task import Batch, Split, Task

# One character per byte; bytes beyond ASCII are parts of longer characters, each shown as U+FFFD.
BYTES_AS_TEXT = bytes(range(256)).decode("ascii", errors="replace")


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """A text as tokens.

    Attributes:
        training: `[symbols]`, all pieces for training, concatenated.
        held_out: For each split, `[symbols]` of each of its pieces, whole.
    """

    training: NDArray[np.uint8]
    held_out: Mapping[Split, tuple[NDArray[np.uint8], ...]]


class TextWindows(Task):
    """Prediction of the next symbol, by default a byte, scored in bits per held-out symbol."""

    architecture = "language_model"
    asks_for: ClassVar[Answer] = "next_symbols"
    reads_answers: ClassVar[bool] = True
    metric = Bits(name="bits_per_byte")
    floors: ClassVar[tuple[str, ...]] = ("uniform", "majority", "trigram", "five_gram")
    input_size = 256
    output_size = 256
    characters = BYTES_AS_TEXT
    num_scored: ClassVar[Mapping[Split, int]]  # number of symbols of each held-out piece

    @staticmethod
    @abstractmethod
    def read() -> Corpus:
        """Return the tokens of all splits, read once per process.

        Raises:
            TaskError: if the data file is missing, altered or malformed.
        """

    def training_batch(self, step: int, batch: int, seed: int) -> Batch:
        """Return windows at independent random positions; one may extend into the next piece."""
        text = self.read().training
        num_starts = len(text) - self.length
        starts = RandomStream(seed, step).integers(batch, low=0, high=num_starts)
        windows = text[starts[:, None] + np.arange(self.length + 1)]
        return _predicted(windows)

    def held_out(self, split: Split, batch: int) -> Iterator[Batch]:
        """Yield consecutive windows of each piece of the split in turn."""
        num_scored = self.num_scored[split]
        pieces = self.read().held_out[split]
        windows = [
            (piece, start) for piece in pieces for start in range(0, num_scored, self.length)
        ]
        for first in range(0, len(windows), batch):
            chosen = windows[first : first + batch]
            starts = np.array([start for _, start in chosen])[:, None]
            places = starts + np.arange(self.length + 1)
            rows = zip(chosen, places, strict=True)
            text = np.stack([piece.take(row, mode="wrap") for (piece, _), row in rows])
            yield _predicted(text).only(torch.from_numpy(places[:, 1:] <= num_scored))


def _predicted(windows: NDArray[np.uint8]) -> Batch:
    """Return a batch that predicts each symbol of `[batch, time + 1]` from those before it."""
    inputs, targets = as_tokens(windows[:, :-1]), as_tokens(windows[:, 1:])
    return Batch(inputs={"inputs": inputs}, targets=targets)


def as_tokens(codes: NDArray[np.uint8]) -> Tensor:
    """Return the codes as the integers that torch expects."""
    return torch.from_numpy(codes.astype(np.int64))
