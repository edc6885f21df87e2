"""Test costs per example and models that sample: they learn, resume and are never recorded."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch.nn import functional

from bakeoff.models import ModelSpec, build_model
from bakeoff.models.interface import Outputs
from bakeoff.models.score_function import BASELINE
from bakeoff.suite.tasks.kernel_regression import KernelRegression
from bakeoff.suite.tasks.mqar import MqarSmall
from bakeoff.suite.tasks.task import UNSCORED, Batch
from bakeoff.suite.training.engines.local import LocalEngine
from bakeoff.suite.training.score_function import costs_of, with_score
from tests.suite.toy import FirstToken, training
from tests.suite.training.resumed import STEPS, STOP, Clock, checkpointer_in, run, spec, stopped

ESTIMATORS = ["soft", "straight_through", "reinforce"]


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


def model(estimator: str) -> ModelSpec:
    return spec("hard_attention", heads=2, estimator=estimator)


def soft_targets() -> Batch:
    return Batch(inputs={}, targets=torch.randn(4, 6, 5).softmax(dim=-1))


def tags() -> Batch:
    targets = torch.randint(5, (4, 6))
    targets[0, 2:] = targets[3] = UNSCORED
    return Batch(inputs={}, targets=targets)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("batch", [tags(), soft_targets()], ids=["tags", "soft"])
def test_costs_times_shares_are_the_loss(batch: Batch, smoothing: float) -> None:
    logits, task = torch.randn(4, 6, 5), MqarSmall(64)
    costs, shares = costs_of(Outputs(logits), batch, task, smoothing)
    loss = task.loss(Outputs(logits), batch, smoothing)
    assert (costs * shares).sum().item() == pytest.approx(loss.item())
    assert shares.sum().item() == pytest.approx(1.0)
    alone = task.loss(Outputs(logits[:1]), batch.rows(slice(1)), smoothing)
    assert costs[0].item() == pytest.approx(alone.item())
    if not batch.is_soft(logits):
        assert shares.tolist() == pytest.approx([2 / 14, 6 / 14, 6 / 14, 0.0])
        assert costs[3] == 0


def test_a_tasks_own_loss_is_what_an_example_costs() -> None:
    task = KernelRegression(16)
    batch = task.training_batch(0, 4, 0)
    outputs = Outputs(torch.randn(4, 1))
    costs, shares = costs_of(outputs, batch, task, 0.0)
    torch.testing.assert_close(costs, (outputs.logits[:, 0] - batch.targets).square())
    assert shares.tolist() == [0.25] * 4


def test_the_loss_keeps_its_value_and_the_baseline_moves_after_it() -> None:
    torch.manual_seed(0)
    built, task = build_model(model("reinforce")), FirstToken()
    built.get_buffer(BASELINE).fill_(0.5)
    batch = task.training_batch(0, 8, 0)
    outputs = batch.through(built)
    loss = task.loss(outputs, batch)
    found = with_score(loss, outputs, batch, task, built, training(1))
    assert found.item() == pytest.approx(loss.item())
    assert built.get_buffer(BASELINE).item() == pytest.approx(0.9 * 0.5 + 0.1 * loss.item())
    costs = functional.cross_entropy(outputs.logits, batch.targets, reduction="none")
    (gradient,) = torch.autograd.grad(
        found, outputs.auxiliary["log_probability"], retain_graph=True
    )
    torch.testing.assert_close(gradient, 0.1 * (costs.detach() - 0.5) / 8)
    (gradient,) = torch.autograd.grad(found, outputs.auxiliary["entropy"])
    torch.testing.assert_close(gradient, torch.full((8,), -0.002 / 8))


def test_without_choices_the_loss_is_itself() -> None:
    loss = torch.tensor(1.0)
    built, task = build_model(model("soft")), FirstToken()
    batch = task.training_batch(0, 8, 0)
    outputs = batch.through(built)
    assert with_score(loss, outputs, batch, task, built, training(1)) is loss


@pytest.mark.parametrize("recipe", [{}, {"ema": 0.9}], ids=str)
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_it_continues_with_the_same_bits(
    estimator: str, recipe: dict[str, float], tmp_path: Path
) -> None:
    """Check that a checkpoint includes the average cost and the random state."""
    undisturbed = run(model(estimator), None, recipe=recipe)
    stopped(tmp_path, model(estimator), recipe=recipe)
    resumed = run(model(estimator), checkpointer_in(tmp_path, Clock()), recipe=recipe)
    assert resumed.numbers == undisturbed.numbers
    assert resumed.num_steps == STEPS - STOP


@pytest.mark.battery
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_it_learns_which_token_counts(estimator: str) -> None:
    torch.manual_seed(0)
    task, built = FirstToken(), build_model(model(estimator))
    engine = LocalEngine(built, training(150, learning_rate=0.02), "cpu")
    losses = [engine.step(task.training_batch(step, 32, 0), task) for step in range(150)]
    assert torch.stack(losses).isfinite().all()
    assert engine.evaluate(task, "test", 64) > 0.95
    if estimator == "reinforce":
        assert 0 < built.get_buffer(BASELINE).item() < 1
        assert BASELINE in engine.weights()


def test_bf16_gives_what_float32_gives_but_for_rounding() -> None:
    found = []
    for precision in ("float32", "bf16"):
        torch.manual_seed(0)
        built, asked = build_model(model("reinforce")), training(5, precision=precision)
        batch = FirstToken().training_batch(0, 32, 0)
        found.append(LocalEngine(built, asked, "cpu").step(batch, FirstToken()).item())
    assert found[0] == pytest.approx(found[1], rel=0.05)


def test_it_is_not_recorded() -> None:
    engine = LocalEngine(build_model(model("reinforce")), training(5), "cpu", is_recorded=True)
    assert engine.how_steps_run == "eagerly: HardAttention draws random numbers during training"
