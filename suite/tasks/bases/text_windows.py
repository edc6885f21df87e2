"""Language modelling over a text: windows at random places to train on, whole pieces held out.

Convention: a window of `length` inputs predicts the `length` symbols that follow each of them.
There is no start symbol: the first symbol of a held-out piece is context only, and the scored ones
are the next. Windows of a held-out piece do not overlap, so every scored symbol is predicted once,
with 1 to `length` symbols before it. The same symbols are scored at every length; where it does
not divide them, the tail of the piece's last window is filled with more of the piece, which is not
scored.
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

from models.interface import Answer
from suite.tasks.data_order import RandomStream
from suite.tasks.metrics import Bits
from suite.tasks.task import Batch, Split, Task

# One character a byte; those beyond ASCII, parts of longer characters, as U+FFFD each.
BYTES_AS_TEXT = bytes(range(256)).decode("ascii", errors="replace")


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """A text as tokens.

    Attributes:
        training: `[symbols]`, all that is trained on, one piece after the other.
        held_out: For each split, `[symbols]` of each of its pieces, whole.
    """

    training: NDArray[np.uint8]
    held_out: Mapping[Split, tuple[NDArray[np.uint8], ...]]


class TextWindows(Task):
    """Predict the next symbol, a byte if a task has no others; bits per symbol held out."""

    architecture = "language_model"
    asks_for: ClassVar[Answer] = "next_symbols"
    reads_answers: ClassVar[bool] = True
    metric = Bits(name="bits_per_byte")
    floors: ClassVar[tuple[str, ...]] = ("uniform", "majority", "trigram", "five_gram")
    input_size = 256
    output_size = 256
    characters = BYTES_AS_TEXT
    num_scored: ClassVar[Mapping[Split, int]]  # symbols of each held-out piece

    @staticmethod
    @abstractmethod
    def read() -> Corpus:
        """The tokens of all splits, read once per process.

        Raises:
            TaskError: if the data file is missing, altered or malformed.
        """

    def training_batch(self, step: int, batch: int, seed: int) -> Batch:
        """Windows at independent random places; one may run from a piece into the next."""
        text = self.read().training
        num_starts = len(text) - self.length
        starts = RandomStream(seed, step).integers(batch, low=0, high=num_starts)
        windows = text[starts[:, None] + np.arange(self.length + 1)]
        return _predicted(windows)

    def held_out(self, split: Split, batch: int) -> Iterator[Batch]:
        """Consecutive windows of each piece of the split in turn."""
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
    """Each symbol from those before it; `[batch, time + 1]`."""
    inputs, targets = as_tokens(windows[:, :-1]), as_tokens(windows[:, 1:])
    return Batch(inputs={"inputs": inputs}, targets=targets)


def as_tokens(codes: NDArray[np.uint8]) -> Tensor:
    """Integers as torch takes them."""
    return torch.from_numpy(codes.astype(np.int64))
