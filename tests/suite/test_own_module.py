"""`run_task`: a module of one's own, trained and scored without an ablation."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

import suite
from suite.tasks.task import TaskError
from suite.training import Diverged


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


class Linear(nn.Module):
    """Images as a flat vector, one linear map: 10 x 785 parameters."""

    def __init__(self, factor: float = 1.0) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.map = nn.Linear(784, 10)
        self.factor = factor

    def forward(self, inputs: Tensor, mask: Tensor | None = None) -> Tensor:
        logits: Tensor = self.map(inputs.flatten(1))
        return logits * self.factor


def run(module: nn.Module, **changes: object) -> object:
    fields = {"task": "fashion_mnist_patches", "steps": 40, "batch": 100, "learning_rate": 1e-2}
    return suite.run_task(module, **(fields | changes))  # type: ignore[arg-type]


def test_a_linear_map_learns_the_clothes() -> None:
    found = suite.run_task(Linear(), task="fashion_mnist_patches", steps=60, batch=100,
                           learning_rate=1e-2)  # fmt: skip
    assert (found.metric, found.unit) == ("accuracy", "1")
    assert 0.7 < found.value < 0.9
    assert found.num_parameters == 10 * 785
    assert found.seconds > 0
    losses = [point.value for point in found.points if point.metric == "training_loss"]
    assert losses[-1] < losses[0] / 2
    assert {point.flops for point in found.points} == {None}
    assert [p.step for p in found.points if p.metric == "validation_accuracy"][-1] == 60


def test_the_module_is_trained_in_place_and_the_same_seed_gives_the_same() -> None:
    first, second = Linear(), Linear()
    before = first.map.weight.detach().clone()
    assert run(first).value == run(second).value  # type: ignore[attr-defined]
    assert torch.equal(first.map.weight, second.map.weight)
    assert not torch.equal(first.map.weight, before)
    other = Linear()
    run(other, seed=1)
    assert not torch.equal(other.map.weight, first.map.weight)


def test_a_language_model_takes_the_length_that_is_asked_for() -> None:
    lengths = set()

    class Bigram(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(81, 81)

        def forward(self, inputs: Tensor, mask: Tensor | None = None) -> Tensor:
            lengths.add(inputs.shape[1])
            logits: Tensor = self.table(inputs)
            return logits

    found = suite.run_task(Bigram(), task="shakespeare_characters", steps=30, length=256, batch=64,
                           learning_rate=0.3)  # fmt: skip
    assert lengths == {256}
    assert found.metric == "bits_per_character"
    assert found.value < 4.5  # a uniform guess is log2(81) = 6.3


def test_one_step_is_enough() -> None:
    assert len(run(Linear(), steps=1).points) == 2  # type: ignore[attr-defined]


def test_a_loss_that_is_no_number_is_said() -> None:
    with pytest.raises(Diverged, match="training loss is nan"):
        run(Linear(factor=math.nan))


def test_a_misspelt_task_is_answered_with_the_nearest() -> None:
    with pytest.raises(TaskError, match="fashion_mnist_patches"):
        run(Linear(), task="fashion_mnist_patch")
