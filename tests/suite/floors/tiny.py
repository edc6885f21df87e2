"""Tasks that are small enough to compute the scores of floors by hand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from bakeoff.models.interface import Input
from bakeoff.suite.tasks.bases.labelled_data import LabelledData, examples_of
from bakeoff.suite.tasks.bases.labelled_texts import TextClassification
from bakeoff.suite.tasks.bases.text_windows import Corpus, TextWindows
from bakeoff.suite.tasks.metrics import Bits
from bakeoff.suite.tasks.sequence_metrics import ExactMatch
from bakeoff.suite.tasks.task import UNSCORED, Batch, DataSource, Split, Task

SOURCE = DataSource(name="tiny", title="", licence="", origin="", sha256="0" * 64, file="")
FILLER, END = 0, 2
Row = tuple[list[float], list[int]]  # two pixels or one number, and symbols


class Given(Task):
    """A task whose epoch is the rows of `training`; those of `test` are held out."""

    source = SOURCE
    training: ClassVar[Sequence[Any]]
    test: ClassVar[Sequence[Any]]
    validation: ClassVar[Sequence[Any] | None] = None  # a floor that reads it fails

    @staticmethod
    def batch_of(rows: Sequence[Any]) -> Batch:
        raise NotImplementedError

    def num_training_examples(self) -> int | None:
        return len(self.training)

    def training_batch(self, step: int, batch: int, seed: int) -> Batch:
        places = [(step * batch + place) % len(self.training) for place in range(batch)]
        return self.batch_of([self.training[place] for place in places])

    def held_out(self, split: Split, batch: int) -> Iterator[Batch]:
        rows = self.test if split == "test" else self.validation
        assert rows is not None, "this floor has nothing to choose"
        for first in range(0, len(rows), batch):
            yield self.batch_of(rows[first : first + batch])


class TinyText(TextWindows):
    """A text of three symbols, two of them in training; three of each held-out piece are scored."""

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


class TinyClasses(Given):
    """An epoch has five examples of the classes 0 1 2 1 1; the test classes are 1 1 0 2."""

    name = "tiny_classes"
    architecture = "classifier"
    asks_for = "class"
    input_kind = "vectors"
    input_size = 1
    output_size = 4
    training: ClassVar = [0, 1, 2, 1, 1]
    test: ClassVar = [1, 1, 0, 2]

    @staticmethod
    def batch_of(rows: Sequence[int]) -> Batch:
        return Batch(
            inputs={"inputs": torch.zeros(len(rows), 1, 1)}, targets=torch.tensor(list(rows))
        )


class TinyPoints(Given):
    """Points on a line, each in one of three classes; training lacks the third."""

    name = "tiny_points"
    asks_for = "class"
    architecture = "classifier"
    input_kind = "vectors"
    input_size = 1
    output_size = 3
    training: ClassVar = [(0.0, 0), (1.0, 0), (5.0, 0), (4.0, 1), (6.0, 1), (8.0, 1)]

    @staticmethod
    def batch_of(rows: Sequence[tuple[float, int]]) -> Batch:
        points, labels = zip(*rows, strict=True)
        return Batch(
            inputs={"inputs": torch.tensor(points).reshape(-1, 1, 1)}, targets=torch.tensor(labels)
        )


class TinyReviews(TextClassification):
    """Reviews where 2 is positive, 3 negative and 4 neutral; the last label is wrong."""

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


class _Pictured(Given):
    """Grey pictures of one row and two columns as the context of symbols."""

    input_size = output_size = 10
    is_padded = True
    lengths = (4, 8)

    @classmethod
    def other_inputs(cls, length: int) -> dict[str, Input]:
        return {"context": Input(kind="image", size=1, length=2, grid=(1, 2))}


def pictures_of(rows: Sequence[Row]) -> Tensor:
    """Return the pictures, `[rows, 1, 2, 1]`."""
    return torch.tensor([pixels for pixels, _ in rows]).float().reshape(-1, 1, 2, 1)


def filled(rows: Sequence[Sequence[int]], length: int, filler: int) -> Tensor:
    """Return the rows with trailing fillers, `[rows, length]`."""
    return torch.tensor([[*row, *[filler] * (length - len(row))] for row in rows])


class TinyCaptions(_Pictured):
    """A task whose rows hold a picture and its caption; captions differ in length."""

    name = "tiny_captions"
    architecture = "translator"
    asks_for = "sequence"
    metric = ExactMatch(end=END)

    @staticmethod
    def batch_of(rows: Sequence[Row]) -> Batch:
        targets = filled([[*caption, END] for _, caption in rows], 4, UNSCORED)
        return Batch(inputs={"context": pictures_of(rows)}, targets=targets)


class TinyQuestions(_Pictured):
    """A task whose rows hold a picture and a question, with the answer as the last symbol."""

    name = "tiny_questions"
    architecture = "classifier"
    asks_for = "class"

    @staticmethod
    def batch_of(rows: Sequence[Row]) -> Batch:
        questions = filled([symbols[:-1] for _, symbols in rows], 3, FILLER)
        named = {"inputs": questions, "mask": questions != FILLER, "context": pictures_of(rows)}
        return Batch(inputs=named, targets=torch.tensor([symbols[-1] for _, symbols in rows]))


class TinyDrawings(_Pictured):
    """A task whose rows hold a picture to be drawn and its caption."""

    name = "tiny_drawings"
    architecture = "image_tokens"
    asks_for = "drawing"

    @staticmethod
    def batch_of(rows: Sequence[Row]) -> Batch:
        texts = filled([words for _, words in rows], 6, FILLER)
        given = {"inputs": texts, "mask": texts != FILLER, "context": pictures_of(rows)}
        return Batch(inputs=given, targets=pictures_of(rows))


class TinyTranslations(Given):
    """A task whose rows hold a source and its target, in one vocabulary."""

    name = "tiny_translations"
    architecture = "translator"
    asks_for = "sequence"
    metric = ExactMatch(end=END)
    input_size = output_size = 13
    is_padded = True

    @classmethod
    def other_inputs(cls, length: int) -> dict[str, Input]:
        return {"context": Input(kind="tokens", size=13, length=length)}

    @staticmethod
    def batch_of(rows: Sequence[tuple[list[int], list[int]]]) -> Batch:
        context = filled([source for source, _ in rows], 4, FILLER)
        return Batch(
            inputs={"context": context, "context_mask": context != FILLER},
            targets=filled([[*target, END] for _, target in rows], 5, UNSCORED),
        )
