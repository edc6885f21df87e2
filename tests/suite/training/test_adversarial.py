"""Test adversarial steps: hand-computed gradient, size of the perturbation, schedule, errors."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from bakeoff.models import build_model
from bakeoff.models.interface import INPUTS
from bakeoff.suite.planning.plan import plan
from bakeoff.suite.spec import SpecError
from bakeoff.suite.training.adversarial import passes_at, passes_per_step
from bakeoff.suite.training.engines.local import LocalEngine
from bakeoff.suite.training.engines.recording import why_eager
from tests.suite.small_ablation import make_ablation
from tests.suite.toy import training
from tests.suite.training.resumed import spec
from tests.suite.training.toy_images import CHANNELS, CLASSES, COLUMNS, ROWS, Images


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


TASK = Images(lambda step: None)
PIXEL = 1 / torch.tensor(Images.pixel_standard_deviation) / 255  # in units of the model's input


class Linear(nn.Module):
    """A linear map of all pixels that stores its inputs."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.map = nn.Linear(ROWS * COLUMNS * CHANNELS, CLASSES)
        self.read: list[Tensor] = []

    def forward(self, inputs: Tensor) -> Tensor:
        self.read.append(inputs.detach().clone())
        logits: Tensor = self.map(inputs.flatten(1))
        return logits


def _engine(model: nn.Module, steps: int = 9, **recipe: object) -> LocalEngine:
    asked = training(steps, **{"adversarial_steps": 3, "clip_norm": None, **recipe})
    return LocalEngine(model, asked, "cpu")


def _by_hand(images: Tensor, classes: Tensor, smoothing: float) -> Tensor:
    """Return the gradient of the weights over three passes, computed explicitly."""
    weights, bias = (p.detach().clone() for p in Linear().map.parameters())
    total, moved = torch.zeros_like(weights), torch.zeros_like(images)
    clean = functional.linear(images.flatten(1), weights, bias).softmax(-1)
    for number in range(3):
        weights.requires_grad_()
        moved.requires_grad_()
        answers = functional.linear((images + moved).flatten(1), weights, bias).softmax(-1)
        wanted = functional.one_hot(classes, CLASSES) * (1 - smoothing) + smoothing / CLASSES
        loss = -(wanted * answers.log()).sum(-1).mean()
        if number:
            there = (clean * (clean / answers).log()).sum(-1).mean()
            back = (answers * (answers / clean).log()).sum(-1).mean()
            loss = (3 * loss + 0.01 * (there + back) / 2) / 2
        of_weights, of_images = torch.autograd.grad(loss, (weights, moved))
        total, weights = total + of_weights, weights.detach()
        moved = (moved.detach() + PIXEL * of_images.sign()).clamp(-2 * PIXEL, 2 * PIXEL)
    return total


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_gradient_is_that_of_three_passes_by_hand(smoothing: float) -> None:
    model, batch = Linear(), TASK.training_batch(0, 6, 0)
    plain = _engine(Linear(), adversarial_steps=0, label_smoothing=smoothing).step(batch, TASK)
    loss = _engine(model, label_smoothing=smoothing).step(batch, TASK)
    assert loss.item() == plain.item(), "the loss that is told is that of the images themselves"
    assert model.map.weight.grad is not None
    wanted = _by_hand(batch.inputs[INPUTS], batch.targets, smoothing)
    torch.testing.assert_close(model.map.weight.grad, wanted, rtol=1e-4, atol=1e-6)


def test_images_move_by_a_step_of_a_pixel_and_no_farther_than_two_to_larger_losses() -> None:
    model, batch = Linear(), TASK.training_batch(0, 6, 0)
    engine = _engine(model, adversarial_steps=5)
    with torch.no_grad():
        before = Linear().map(batch.inputs[INPUTS].flatten(1))
    engine.step(batch, TASK)
    assert torch.equal(model.read[0], batch.inputs[INPUTS])
    moves = [((each - model.read[0]) / PIXEL).round(decimals=2).unique() for each in model.read[1:]]
    assert [move.abs().max().item() for move in moves] == [1.0, 2.0, 2.0, 2.0]
    assert all(set(move.tolist()) <= {-2.0, -1.0, 0.0, 1.0, 2.0} for move in moves)
    with torch.no_grad():
        after = Linear().map(model.read[2].flatten(1))
    losses = [functional.cross_entropy(each, batch.targets) for each in (before, after)]
    assert losses[1] > losses[0] + 0.01


def test_the_last_third_is_plain() -> None:
    model, counts = Linear(), []
    engine = _engine(model, steps=9)
    for step in range(9):
        engine.step(TASK.training_batch(step, 4, 0), TASK)
        counts.append(len(model.read))
        model.read.clear()
    assert counts == [3] * 6 + [1] * 3
    asked = training(300, adversarial_steps=3)
    passes = [passes_at(step, asked) for step in range(300)]
    assert sum(passes) / 300 == pytest.approx(passes_per_step(asked)) == pytest.approx(7 / 3)
    assert passes_per_step(training(300)) == passes_per_step(None) == 1.0


def test_parts_of_a_batch_learn_as_the_whole() -> None:
    whole, parts = Linear(), Linear()
    for model, accumulation in ((whole, 1), (parts, 3)):
        engine = _engine(model, optimizer="sgd", accumulation=accumulation)
        for step in range(9):
            engine.step(TASK.training_batch(step, 6, 0), TASK)
    torch.testing.assert_close(parts.map.weight, whole.map.weight, rtol=1e-4, atol=1e-5)


def test_deepspeed_and_cuda_graphs_refuse_it() -> None:
    with pytest.raises(SpecError, match="adversarial_steps=3 is for trials of one process"):
        plan(make_ablation(scale={"workers": 2, "adversarial_steps": 3}))
    model = build_model(spec("attention", heads=2))
    assert not why_eager(model, training(9))
    assert "end after two thirds" in why_eager(model, training(9, adversarial_steps=3))
