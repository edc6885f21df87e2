"""Test the training loop: points of the curve, no use of the test split, and learning."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import ClassVar

import pytest
import torch
from torch import Tensor, nn

from bakeoff.models.interface import Outputs
from bakeoff.suite.errors import Diverged
from bakeoff.suite.schema import Point
from bakeoff.suite.tasks.metrics import Accuracy, as_sums
from bakeoff.suite.tasks.task import Batch
from bakeoff.suite.training.loop import Exercise, evaluate, train
from tests.suite.toy import FirstToken, Reader, training


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


def exercise(steps: int = 40, **changes: float) -> Exercise:
    return Exercise(
        task=FirstToken(), training=training(steps, **changes), batch=16, seed=0, flops_per_step=7.0
    )


def points(metric: str, trained: list[Point]) -> list[Point]:
    return [point for point in trained if point.metric == metric]


def test_it_learns_what_can_be_learnt() -> None:
    model, todo = Reader(), exercise(150)
    before = evaluate(model, todo.task, "test", 16, "cpu")
    losses = points("training_loss", list(train(model, todo, "cpu")))
    assert losses[0].value > 1.0
    assert losses[-1].value < 0.1
    assert evaluate(model, todo.task, "test", 16, "cpu") == 1.0 > before


def test_the_order_of_the_labels_matters_to_what_is_learnt() -> None:
    """If inputs were paired with targets of other examples, nothing could be learnt."""

    class Shuffled(FirstToken):
        def training_batch(self, step: int, batch: int, seed: int) -> Batch:
            right = super().training_batch(step, batch, seed)
            return replace(right, targets=right.targets.roll(1))

    todo = replace(exercise(150), task=Shuffled())
    losses = points("training_loss", list(train(Reader(), todo, "cpu")))
    assert losses[-1].value > 1.0


def test_the_same_seed_gives_the_same_bits_and_another_seed_does_not() -> None:
    first, second = (list(train(Reader(), exercise(), "cpu")) for _ in range(2))
    assert first == second
    assert list(train(Reader(), replace(exercise(), seed=1), "cpu")) != first
    assert list(train(Reader(seed=1), exercise(), "cpu")) != first


def test_points_stand_at_the_right_steps_with_the_flops_so_far() -> None:
    trained = list(train(Reader(), exercise(80), "cpu"))
    losses, scores = points("training_loss", trained), points("validation_accuracy", trained)
    assert [point.step for point in losses] == list(range(2, 81, 2))
    assert [point.step for point in scores] == [20, 40, 60, 80]
    assert [point.flops for point in trained] == [7.0 * point.step for point in trained]
    assert {(point.unit, point.better) for point in losses} == {("nat", "lower")}
    assert {(point.unit, point.better) for point in scores} == {("1", "higher")}


@pytest.mark.parametrize(("steps", "times"), [(1, 1), (3, 8), (10, 3), (41, 5)])
def test_the_last_point_is_at_the_last_step_however_they_divide(steps: int, times: int) -> None:
    trained = list(train(Reader(), exercise(steps, num_evaluations=times), "cpu"))
    scores = points("validation_accuracy", trained)
    assert len(scores) == min(steps, times)
    assert scores[-1].step == steps == points("training_loss", trained)[-1].step
    assert len({point.step for point in scores}) == len(scores)


def test_a_loss_point_is_the_mean_since_the_last_one() -> None:
    every, pairs = exercise(40), exercise(80)
    single = points("training_loss", list(train(Reader(), every, "cpu")))
    assert [point.step for point in single] == list(range(1, 41))

    class Noted(FirstToken):
        losses: ClassVar[list[float]] = []

        def loss(self, outputs: Outputs, batch: Batch, label_smoothing: float = 0.0) -> Tensor:
            loss = super().loss(outputs, batch)
            self.losses.append(loss.item())
            return loss

    averaged = points("training_loss", list(train(Reader(), replace(pairs, task=Noted()), "cpu")))
    wanted = [sum(Noted.losses[i : i + 2]) / 2 for i in range(0, 80, 2)]
    assert [point.value for point in averaged] == pytest.approx(wanted, rel=1e-6)


def test_training_reads_the_validation_split_and_never_the_test_split() -> None:
    task = FirstToken()
    list(train(Reader(), replace(exercise(20), task=task), "cpu"))
    assert set(task.read) == {"training", "validation"}
    assert task.read.count("training") == 20
    assert task.read.count("validation") == 4


class _Breaks(Reader):
    """A model whose output becomes NaN at a given forward pass."""

    def __init__(self, at: int) -> None:
        super().__init__()
        self.left = at

    def forward(self, inputs: Tensor, mask: Tensor | None = None) -> Tensor:
        self.left -= 1
        return super().forward(inputs) * (math.nan if self.left < 0 else 1.0)


def test_a_loss_that_is_no_number_ends_the_trial_at_its_step() -> None:
    trained = train(_Breaks(at=10), exercise(80, num_evaluations=1), "cpu")
    assert [next(trained).step for _ in range(5)] == [2, 4, 6, 8, 10]
    with pytest.raises(Diverged, match="training loss is nan at step 12"):
        next(trained)


def test_a_score_that_is_no_number_ends_the_trial_too() -> None:
    class NoNumber(Accuracy):
        def sums(self, outputs: Outputs, batch: Batch) -> Tensor:
            return as_sums(math.nan, len(batch.targets))

    class Unscored(FirstToken):
        metric = NoNumber()

    todo = replace(exercise(4), task=Unscored())
    with pytest.raises(Diverged, match="validation accuracy is nan at step 1"):
        list(train(Reader(), todo, "cpu"))


class _Mode(nn.Module):
    """A model that is right only in evaluation mode and without gradients."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))

    def forward(self, inputs: Tensor, mask: Tensor | None = None) -> Tensor:
        is_right = not self.training and not torch.is_grad_enabled()
        return nn.functional.one_hot(inputs[:, 0] if is_right else 0 * inputs[:, 0], 4).float()


@pytest.mark.parametrize("is_training", [True, False])
def test_evaluation_is_in_its_own_mode_and_leaves_the_model_as_it_was(is_training: bool) -> None:
    model = _Mode().train(is_training)
    assert evaluate(model, FirstToken(), "validation", 7, "cpu") == 1.0
    assert model.training is is_training


def test_a_score_is_the_mean_over_examples_not_over_batches() -> None:
    """Use batches of 48 and 16; a mean of means would give the second triple weight."""
    model = Reader()
    whole = evaluate(model, FirstToken(), "test", 64, "cpu")
    assert evaluate(model, FirstToken(), "test", 48, "cpu") == whole
