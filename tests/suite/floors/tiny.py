"""Tasks small enough to work out by hand, which note what was read of them, and when."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import numpy as np
import torch

from suite.tasks.bases.labelled_data import LabelledData, examples_of
from suite.tasks.bases.labelled_texts import TextClassification
from suite.tasks.bases.text_windows import Corpus, TextWindows
from suite.tasks.metrics import Bits
from suite.tasks.task import Batch, DataSource, Split, Task

SOURCE = DataSource(name="tiny", title="", licence="", origin="", sha256="0" * 64, file="")


class TinyText(TextWindows):
    """Three symbols, in training only two; of each held-out piece the first three are scored."""

    name = "tiny_text"
    metric = Bits(name="bits_per_character")
    source = SOURCE
    num_scored: ClassVar = {"validation": 3, "test": 3}
    input_size = 3
    output_size = 3

    @staticmethod
    def read() -> Corpus:
        return Corpus(
            training=np.array([0, 1, 0, 1, 0], dtype=np.uint8),
            held_out={
                "validation": (np.array([0, 0, 0, 0, 0], dtype=np.uint8),),
                "test": (np.array([1, 0, 2, 0, 1, 1], dtype=np.uint8),),
            },
        )


class TinyClasses(Task):
    """An epoch of five examples, of classes 0 1 2 1 1; asked are 1 1 0 2."""

    name = "tiny_classes"
    architecture = "classifier"
    asks_for = "class"
    source = SOURCE
    input_kind = "vectors"
    input_size = 1
    output_size = 4
    training: ClassVar = [0, 1, 2, 1, 1]
    asked: ClassVar = [1, 1, 0, 2]

    def num_training_examples(self) -> int:
        return len(self.training)

    def training_batch(self, step: int, batch: int, seed: int) -> Batch:
        places = [(step * batch + place) % len(self.training) for place in range(batch)]
        return _without_inputs([self.training[place] for place in places])

    def held_out(self, split: Split, batch: int) -> Iterator[Batch]:
        assert split == "test", "nothing is to be chosen"
        for first in range(0, len(self.asked), batch):
            yield _without_inputs(self.asked[first : first + batch])


def _without_inputs(classes: list[int]) -> Batch:
    return Batch(inputs={"inputs": torch.zeros(len(classes), 1, 1)}, targets=torch.tensor(classes))


class TinyReviews(TextClassification):
    """2 is a kind word, 3 an unkind one, 4 stands in both; the last test text is mislabelled."""

    name = "tiny_reviews"
    source = SOURCE
    output_size = 2

    @staticmethod
    def data() -> LabelledData:
        words = (np.array(text) for text in ([2], [2, 4], [3, 4], [3], [4, 2]))
        kind, kind_film, unkind_film, unkind, film_kind = words
        return LabelledData(
            training=examples_of([kind, kind_film, unkind_film, unkind], [1, 1, 0, 0]),
            held_out={
                "validation": examples_of([kind_film, unkind], [1, 0]),
                "test": examples_of([kind, unkind_film, film_kind, unkind], [1, 0, 1, 1]),
            },
        )
