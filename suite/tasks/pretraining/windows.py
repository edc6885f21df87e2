"""Windows of texts without labels: the base class of all tasks on them.

A window begins with 3 and a sentence, and continues across the ends of texts until it is full:
"full sentences" of Liu et al. 2019, "RoBERTa" (arXiv:1907.11692), section 4.2, except that its end
may cut a sentence. In training each sentence of the corpora is equally likely to begin a window.
The held-out splits are 400 windows for validation and 800 for test, evenly spaced.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import ClassVar

import numpy as np

from bakeoff.suite.tasks.batch import joined
from bakeoff.suite.tasks.data_order import RandomStream, Whole, held_out_stream
from bakeoff.suite.tasks.metrics import Metric
from bakeoff.suite.tasks.pretraining.corpora import (
    BEGIN,
    NUM_SYMBOLS,
    SOURCE,
    Part,
    Passages,
    passages,
)
from bakeoff.suite.tasks.task import Batch, Split, Task

ALL = ("wikipedia", "plays", "definitions", "sentences")
NUM_HELD_OUT: Mapping[Split, int] = {"validation": 400, "test": 800}


class TextsWithoutLabels(Task):
    """A task that learns from unlabelled texts."""

    source = SOURCE
    architecture = "bert"
    metric: ClassVar[Metric]
    floors: ClassVar[tuple[str, ...]] = ("uniform", "majority")
    input_size = NUM_SYMBOLS
    output_size = NUM_SYMBOLS
    lengths = (8, 512)
    token_name = "words"
    corpora: ClassVar[tuple[str, ...]] = ("definitions",)

    @abstractmethod
    def asked(self, stream: RandomStream, windows: Whole, others: Whole) -> Batch:
        """Return the inputs and the targets for some windows.

        Args:
            stream: The stream to draw from, window after window.
            windows: `[windows, length + 1]`, each from the first symbol of a text on.
            others: The same shape: windows of other positions, for tasks that need them.
        """

    def training_batch(self, step: int, batch: int, seed: int) -> Batch:
        """Return windows that begin at independent random sentences."""
        stream, texts = RandomStream(seed, step), self._passages("training")
        chosen = stream.integers(2, batch, low=0, high=len(texts.starts))
        return self.asked(stream, *self._windows(texts, chosen))

    def held_out(self, split: Split, batch: int) -> Iterator[Batch]:
        """Yield the same windows and hidden symbols, whatever the seed and the batch size."""
        whole = _whole_split(type(self), self.length, split)
        for first in range(0, len(whole.targets), batch):
            yield whole.rows(slice(first, first + batch))

    def draw_split(self, split: Split) -> Batch:
        """Draw all windows of a held-out split."""
        texts, count = self._passages(split), NUM_HELD_OUT[split]
        starts = np.arange(count) * len(texts.starts) // count
        chosen = np.stack([starts, np.roll(starts, count // 2)])
        return self.asked(held_out_stream(split), *self._windows(texts, chosen))

    def _passages(self, part: Part) -> Passages:
        return passages(self.corpora, part)

    def _windows(self, texts: Passages, chosen: Whole) -> tuple[Whole, Whole]:
        own, others = (texts.windows(texts.starts[each], self.length) for each in chosen)
        return _begun(own), _begun(others)


def _begun(windows: Whole) -> Whole:
    """Return the windows after the symbol that begins a text, `[windows, time + 1]`."""
    return np.concatenate([np.full((len(windows), 1), BEGIN), windows], axis=1)


@lru_cache(maxsize=8)
def _whole_split(kind: type[TextsWithoutLabels], length: int, split: Split) -> Batch:
    return joined([kind(length).draw_split(split)])
