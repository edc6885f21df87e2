"""The score of a split, and of its parts."""

import pytest
import torch
from torch import Tensor, nn

from suite.tasks.fashion_mnist import FashionMnistPatches
from suite.tasks.mqar import MqarSmall
from suite.tasks.parity import Parity
from suite.tasks.task import UNSCORED
from suite.training.engines.engine import evaluate, evaluate_in_parts


class Echo(nn.Module):
    """Says of each place the symbol that stands there."""

    def __init__(self, num_symbols: int) -> None:
        super().__init__()
        self.num_symbols = num_symbols

    def forward(self, inputs: Tensor) -> Tensor:
        return nn.functional.one_hot(inputs, self.num_symbols).float()


def test_a_part_is_scored_over_its_own_targets() -> None:
    """The running parity of one bit is that bit; of more it is a toss-up."""
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
