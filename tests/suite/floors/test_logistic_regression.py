"""Each number votes by itself: what two of them say together is not found."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import ClassVar

import pytest
import torch

from models.interface import InputKind
from suite.floors.logistic_regression import LogisticRegressionFloor
from suite.tasks.task import Batch, Split, Task
from tests.suite.floors.tiny import SOURCE


class _Corners(Task):
    """The four corners of a square, as two tokens of one number each, many times."""

    name = "corners"
    asks_for = "class"
    architecture = "classifier"
    source = SOURCE
    input_kind: ClassVar[InputKind] = "vectors"
    input_size = 1
    output_size = 2
    labels: ClassVar[list[int]]

    def training_batch(self, step: int, batch: int, seed: int) -> Batch:
        corners = torch.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
        rows = torch.arange(batch) % 4
        return Batch(
            inputs={"inputs": corners[rows].unsqueeze(2)}, targets=torch.tensor(self.labels)[rows]
        )

    def held_out(self, split: Split, batch: int) -> Iterator[Batch]:
        yield self.training_batch(0, 8, 0)


class _FirstToken(_Corners):
    labels: ClassVar[list[int]] = [0, 0, 1, 1]


class _WhetherTheyDiffer(_Corners):
    labels: ClassVar[list[int]] = [0, 1, 1, 0]


def test_it_knows_what_one_token_says() -> None:
    assert LogisticRegressionFloor().score(_FirstToken(2)) == 1.0


def test_it_does_not_know_what_two_say_together() -> None:
    """A line tells at most three of four corners apart."""
    assert 0.25 <= LogisticRegressionFloor().score(_WhetherTheyDiffer(2)) <= 0.75


def test_it_reads_pictures_and_vectors_with_a_class_each() -> None:
    assert LogisticRegressionFloor().suits(_Corners)


def test_without_scikit_learn_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn", None)
    assert LogisticRegressionFloor().why_not() == "scikit-learn is not installed"
