"""Test the score of a split and of its parts."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import pytest
import torch
from torch import Tensor, nn

from bakeoff.models.decoding import Decoder
from bakeoff.suite.tasks.images.fashion_mnist import FashionMnistPatches
from bakeoff.suite.tasks.mqar import MqarSmall
from bakeoff.suite.tasks.parity import Parity
from bakeoff.suite.tasks.sequence_metrics import SequenceMetric
from bakeoff.suite.tasks.sequence_to_sequence.digits import END, Reversal
from bakeoff.suite.tasks.task import UNSCORED
from bakeoff.suite.training.engines.engine import evaluate, evaluate_in_parts, score_batch
from tests.suite.writers import Successor, counted


class Echo(nn.Module):
    """A model that predicts the input symbol at each position."""

    def __init__(self, num_symbols: int) -> None:
        super().__init__()
        self.num_symbols = num_symbols

    def forward(self, inputs: Tensor) -> Tensor:
        return nn.functional.one_hot(inputs, self.num_symbols).float()


def test_a_part_is_scored_over_its_own_targets() -> None:
    """Use running parity: it equals the bit for one bit and is a coin flip for more."""
    found = evaluate_in_parts(Echo(2), Parity(64), "validation", 100, "cpu")
    assert list(found) == ["", *Parity(64).parts()]
    assert found["length=1"] == 1.0
    for length in (8, 16, 32, 64):
        assert found[f"length={length}"] == pytest.approx(0.5, abs=0.03)


def test_the_whole_is_what_evaluate_says() -> None:
    task = Parity(32)
    found = evaluate_in_parts(Echo(2), task, "test", 64, "cpu")
    assert found[""] == evaluate(Echo(2), task, "test", 64, "cpu")


def test_parts_add_up_to_the_whole() -> None:
    task = MqarSmall(64)
    table = torch.randn(256, 256, generator=torch.Generator().manual_seed(0))
    model = nn.Embedding.from_pretrained(table)
    found = evaluate_in_parts(model, task, "validation", 90, "cpu")
    queries = {f"pairs={num}": 250 * num for num in (4, 8)}
    assert set(found) == {"", *queries}
    by_parts = sum(found[at] * number for at, number in queries.items())
    assert by_parts == pytest.approx(found[""] * sum(queries.values()))


def test_a_task_without_parts_has_its_score_alone() -> None:
    class Zero(nn.Module):
        def forward(self, inputs: Tensor) -> Tensor:
            return torch.zeros(len(inputs), 10)

    found = evaluate_in_parts(Zero(), FashionMnistPatches(49), "validation", 500, "cpu")
    assert found == {"": 0.101}


def test_a_part_without_targets_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    task = MqarSmall(64)
    whole = task.held_out

    def few(split, batch):
        for found in whole(split, batch):
            found.targets[(found.targets != UNSCORED).sum(dim=1) == 8] = UNSCORED
            yield found

    monkeypatch.setattr(task, "held_out", few)
    assert set(evaluate_in_parts(Echo(256), task, "test", 500, "cpu")) == {"", "pairs=4"}


@dataclass(frozen=True, kw_only=True)
class SymbolsRight(SequenceMetric):
    """The share of right symbols, position by position."""

    name: str = "symbols_right"
    unit: str = "1"
    better: Literal["higher", "lower", "none"] = "higher"

    def counts(self, written: Sequence[int], asked: Sequence[int]) -> Sequence[float]:
        return sum(a == b for a, b in zip(written, asked, strict=False)), len(asked)


# The target of 1 is 3 5 7 9; that of 0 is 2 3 4.
COUNTED = counted([1, 3, 5, 7, 9], [0, 2, 3, 4])


def test_a_metric_may_judge_what_a_model_writes_by_itself() -> None:
    """Compare a model that reads the right prefix with one that reads its own output."""
    given = SymbolsRight(end=END)
    free = replace(given, decoder=Decoder())
    assert score_batch(Successor(2), given, COUNTED)(COUNTED).tolist() == [5, 7]
    assert score_batch(Successor(2), free, COUNTED)(COUNTED).tolist() == [5, 7]
    assert score_batch(Successor(1), given, COUNTED)(COUNTED).tolist() == [2, 7]
    assert score_batch(Successor(1), free, COUNTED)(COUNTED).tolist() == [0, 7]


def test_nothing_is_written_beyond_the_room_for_targets() -> None:
    seen = []

    class Noted(SymbolsRight):
        def counts(self, written: Sequence[int], asked: Sequence[int]) -> Sequence[float]:
            seen.append(len(written))
            return super().counts(written, asked)

    score_batch(Successor(0), Noted(end=END, decoder=Decoder()), COUNTED)(COUNTED)
    score_batch(Successor(0), Noted(end=END, decoder=Decoder(max_length=2)), COUNTED)(COUNTED)
    assert seen == [4, 4, 2, 2]


def test_a_model_answers_once_for_all_parts() -> None:
    num_steps = []

    class Noted(Successor):
        def step(self, tokens: Tensor, state: object) -> tuple[Tensor, object]:
            num_steps.append(len(tokens))
            return super().step(tokens, state)

    task = Reversal(3)
    found = evaluate_in_parts(Noted(0), task, "test", 2_000, "cpu")
    assert list(found) == ["", "digits=1", "digits=2"]
    assert sum(num_steps) == 3 * len(next(task.held_out("test", 2_000)).targets)
