"""Tasks with pictures of one row and two columns: a caption to write, or a question to answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

import torch
from torch import Tensor

from models.interface import Input
from suite.tasks.sequence_metrics import ExactMatch
from suite.tasks.task import UNSCORED, Batch, Split, Task
from tests.suite.floors.tiny import SOURCE

FILLER, END = 0, 2
Row = tuple[list[float], list[int]]  # the picture's two pixels, and symbols


class _Pictured(Task):
    """Grey pictures as the context of symbols; an epoch is all of `training`."""

    source = SOURCE
    input_size = output_size = 10
    is_padded = True
    lengths = (4, 8)
    training: ClassVar[Sequence[Row]]
    test: ClassVar[Sequence[Row]]

    @classmethod
    def other_inputs(cls, length: int) -> dict[str, Input]:
        return {"context": Input(kind="image", size=1, length=2, grid=(1, 2))}

    @staticmethod
    def batch_of(rows: Sequence[Row]) -> Batch:
        raise NotImplementedError

    def num_training_examples(self) -> int:
        return len(self.training)

    def training_batch(self, step: int, batch: int, seed: int) -> Batch:
        places = [(step * batch + place) % len(self.training) for place in range(batch)]
        return self.batch_of([self.training[place] for place in places])

    def held_out(self, split: Split, batch: int) -> Iterator[Batch]:
        assert split == "test", "nothing is to be chosen"
        for first in range(0, len(self.test), batch):
            yield self.batch_of(self.test[first : first + batch])


def pictures_of(rows: Sequence[Row]) -> Tensor:
    """`[rows, 1, 2, 1]`."""
    return torch.tensor([pixels for pixels, _ in rows]).float().reshape(-1, 1, 2, 1)


def filled(rows: Sequence[Sequence[int]], length: int, filler: int) -> Tensor:
    """`[rows, length]`."""
    return torch.tensor([[*row, *[filler] * (length - len(row))] for row in rows])


class TinyCaptions(_Pictured):
    """The symbols of each row are the caption, which differ in length."""

    name = "tiny_captions"
    architecture = "translator"
    asks_for = "sequence"
    metric = ExactMatch(end=END)

    @staticmethod
    def batch_of(rows: Sequence[Row]) -> Batch:
        targets = filled([[*caption, END] for _, caption in rows], 4, UNSCORED)
        return Batch(inputs={"context": pictures_of(rows)}, targets=targets)


class TinyQuestions(_Pictured):
    """The last symbol of each row is the answer, those before it the question."""

    name = "tiny_questions"
    architecture = "classifier"
    asks_for = "class"

    @staticmethod
    def batch_of(rows: Sequence[Row]) -> Batch:
        questions = filled([symbols[:-1] for _, symbols in rows], 3, FILLER)
        named = {"inputs": questions, "mask": questions != FILLER, "context": pictures_of(rows)}
        return Batch(inputs=named, targets=torch.tensor([symbols[-1] for _, symbols in rows]))
