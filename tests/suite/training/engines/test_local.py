"""Test a step on one device: learning rate, weight decay, clipping."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from bakeoff.models.interface import PENALTY, Outputs
from bakeoff.suite.tasks.mqar import MqarSmall
from bakeoff.suite.tasks.sequence_to_sequence.digits import Reversal
from bakeoff.suite.tasks.task import UNSCORED, Batch
from bakeoff.suite.training.engines.local import LocalEngine
from bakeoff.suite.training.recipes import learning_rate_factor
from tests.suite.toy import FirstToken, Reader, training
from tests.suite.writers import GruPair, Penalised

TASK = FirstToken()


def test_the_learning_rate_rises_in_a_line_and_falls_in_half_a_cosine() -> None:
    asked = training(105, warmup_steps=5)
    factors = [learning_rate_factor(step, asked) for step in range(106)]
    assert factors[:6] == [0.2, 0.4, 0.6, 0.8, 1.0, 1.0]
    assert factors[55] == pytest.approx(0.5)
    assert factors[30] == pytest.approx(0.5 * (1 + math.cos(math.pi / 4)))
    assert factors[105] == 0.0
    assert sorted(factors[5:], reverse=True) == factors[5:]
    assert learning_rate_factor(500, asked) == 0.0


@pytest.mark.parametrize("warmup", [0, 10, 50])
def test_a_warm_up_as_long_as_the_training_is_no_error(warmup: int) -> None:
    factors = [learning_rate_factor(step, training(10, warmup_steps=warmup)) for step in range(10)]
    assert all(0 < factor <= 1 for factor in factors)


def test_the_engine_steps_with_the_scheduled_rate() -> None:
    asked = training(20, learning_rate=0.3, warmup_steps=4)
    engine = LocalEngine(Reader(), asked, "cpu")
    rates = []
    for step in range(20):
        rates.append(engine.optimizer.param_groups[0]["lr"])
        engine.step(TASK.training_batch(step, 8, 0), TASK)
    assert rates == pytest.approx([0.3 * learning_rate_factor(step, asked) for step in range(20)])


def test_matrices_decay_and_vectors_do_not() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.Embedding(5, 3))
    model[2].weight.requires_grad_(False)
    engine = LocalEngine(model, training(10, weight_decay=0.25), "cpu")
    decay = {
        id(parameter): group["weight_decay"]
        for group in engine.optimizer.param_groups
        for parameter in group["params"]
    }
    wanted = {id(p): 0.25 if p.dim() > 1 else 0.0 for p in model.parameters() if p.requires_grad}
    assert decay == wanted
    assert len(decay) == 4


def test_a_long_gradient_is_clipped_and_a_short_one_is_not() -> None:
    class Loud(FirstToken):
        def loss(self, outputs: Outputs, batch: Batch, label_smoothing: float = 0.0) -> Tensor:
            return 1000 * super().loss(outputs, batch)

    model, batch = Reader(), TASK.training_batch(0, 4, 0)
    LocalEngine(model, training(10), "cpu").step(batch, Loud())
    assert _gradient(model).norm().item() == pytest.approx(1.0, rel=1e-3)
    short = Reader()
    TASK.loss(batch.through(short), batch).backward()
    unclipped = _gradient(short)
    assert unclipped.norm() < 1
    again = Reader()
    LocalEngine(again, training(10), "cpu").step(batch, TASK)
    assert torch.equal(_gradient(again), unclipped)


def _gradient(model: nn.Module) -> Tensor:
    return torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])


def test_a_step_returns_the_loss_before_the_update_and_no_graph() -> None:
    model, batch = Reader(), TASK.training_batch(0, 8, 0)
    before = TASK.loss(batch.through(model), batch).item()
    loss = LocalEngine(model, training(10), "cpu").step(batch, TASK)
    assert loss.item() == before
    assert not loss.requires_grad
    assert TASK.loss(batch.through(model), batch).item() < before


def test_old_gradients_do_not_add_up() -> None:
    """Check that the second of two gradients on one batch is that of the second point alone."""
    batch = TASK.training_batch(0, 8, 0)
    model = Reader()
    engine = LocalEngine(model, training(10, learning_rate=1e-12), "cpu")
    gradients = []
    for _ in range(2):
        engine.step(batch, TASK)
        assert model.map.weight.grad is not None
        gradients.append(model.map.weight.grad.clone())
    torch.testing.assert_close(*gradients)


class Asking(nn.Module):
    """A model with logits `[batch, time, 5]` and a penalty `[batch]` of the first token."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.table, self.costs = nn.Embedding(4, 5), nn.Embedding(4, 1)

    def forward(self, inputs: Tensor) -> Outputs:
        return Outputs(self.table(inputs), {PENALTY: self.costs(inputs[:, 0]).squeeze(1)})


@pytest.mark.parametrize("accumulation", [1, 2, 3])
def test_a_models_penalty_is_added_by_the_targets_of_each_example(accumulation: int) -> None:
    targets = torch.arange(24).reshape(4, 6) % 5
    targets[0, 2:] = targets[3] = UNSCORED
    inputs = torch.tensor([[row] * 6 for row in range(4)])
    model, task = Asking(), MqarSmall(64)
    batch = Batch(inputs={"inputs": inputs}, targets=targets)
    own = task.loss(Outputs(model(inputs).logits), batch)
    shares = torch.tensor([2.0, 6.0, 6.0, 0.0]) / 14
    wanted = own + (model.costs.weight[:, 0] * shares).sum()
    asked = training(1, accumulation=accumulation, clip_norm=None)
    engine = LocalEngine(model, asked, "cpu")
    assert engine.step(batch, task).item() == pytest.approx(wanted.item(), rel=1e-6)
    assert model.costs.weight.grad is not None
    assert torch.allclose(model.costs.weight.grad[:, 0], shares)


def test_a_loss_may_read_what_a_model_returns_beside_logits() -> None:
    """Use a model with a source that runs eagerly on a batch with four inputs."""
    task, model = Penalised(5), GruPair(dim=8)
    batch = task.training_batch(0, 4, 0)
    wanted = task.loss(batch.through(model), batch)
    plain = Reversal(5).loss(batch.through(model), batch)
    assert wanted > plain
    assert LocalEngine(model, training(10), "cpu").step(batch, task).item() == wanted.item()
