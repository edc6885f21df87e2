"""Test distillation: the loss against plain loops, unscored targets, resumption."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from bakeoff.models import Architecture, ModelSpec, build_model
from bakeoff.models.interface import Outputs
from bakeoff.suite.tasks.task import UNSCORED, Batch
from bakeoff.suite.training.distillation import TeacherMisfit, with_teacher
from bakeoff.suite.training.engines.local import LocalEngine
from tests.suite.toy import FirstToken, Reader, training
from tests.suite.writers import GruPair, Reversal


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


TASK = FirstToken()
CLASSES = 5


def _softmax(row: list[float], temperature: float = 1.0) -> list[float]:
    powers = [math.exp(value / temperature) for value in row]
    return [power / sum(powers) for power in powers]


def _slow(own: Tensor, taught: Tensor, targets: Tensor, how: str, temperature: float) -> float:
    """Return the mean loss over scored targets, position by position."""
    found = []
    for place in [tuple(index) for index in (targets != UNSCORED).nonzero().tolist()]:
        z, t = own[place].tolist(), taught[place].tolist()
        if how == "hard":
            found.append(-math.log(_softmax(z)[t.index(max(t))]))
            continue
        q, p = _softmax(z, temperature), _softmax(t, temperature)
        divergence = sum(a * math.log(a / b) for a, b in zip(p, q, strict=True))
        found.append(temperature**2 * divergence)
    return sum(found) / len(found)


@pytest.mark.parametrize("how", ["soft", "hard"])
@pytest.mark.parametrize("shape", [(6,), (3, 4)], ids=["class", "symbols"])
@pytest.mark.parametrize("has_token", [False, True])
def test_the_loss_is_a_slow_loops_over_scored_targets(
    how: str, shape: tuple[int, ...], has_token: bool
) -> None:
    torch.manual_seed(0)
    logits, token, taught = torch.randn(3, *shape, CLASSES, dtype=torch.float64)
    targets = torch.randint(CLASSES, shape)
    targets[-1] = UNSCORED
    taught[-1] = math.nan  # the teacher's output at padding is never used
    batch = Batch(inputs={}, targets=targets)
    outputs = Outputs(logits, {"distillation": token} if has_token else {})
    asked = training(9, distillation=how, distillation_weight=0.3, distillation_temperature=2.5)
    found = with_teacher(torch.tensor(7.0).double(), outputs, Outputs(taught), batch, asked)
    wanted = _slow(token if has_token else logits, taught, targets, how, 2.5)
    assert found.item() == pytest.approx(0.7 * 7.0 + 0.3 * wanted, rel=1e-9)


def test_rows_of_probabilities_are_targets_too() -> None:
    logits, taught = torch.randn(2, 4, CLASSES)
    soft = torch.randn(4, CLASSES).softmax(-1)
    soft[0] = UNSCORED
    asked = training(9, distillation="hard", distillation_weight=1.0)
    found = with_teacher(
        torch.tensor(1.0), Outputs(logits), Outputs(taught), Batch(inputs={}, targets=soft), asked
    )
    hard = torch.tensor([UNSCORED, 1, 1, 1])
    assert found.item() == pytest.approx(_slow(logits, taught, hard, "hard", 1.0), rel=1e-5)


def test_a_teacher_of_another_shape_is_one_sentence() -> None:
    batch = Batch(inputs={}, targets=torch.zeros(2, dtype=torch.long))
    with pytest.raises(
        TeacherMisfit, match=r"have shape \[2, 5\], and what learns .* has \[2, 4\]"
    ):
        with_teacher(
            torch.tensor(1.0),
            Outputs(torch.zeros(2, 4)),
            Outputs(torch.zeros(2, 5)),
            batch,
            training(9, distillation="soft"),
        )


class Dropping(Reader):
    """A model that records its mode and gradient mode at each call."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__(seed)
        self.drop = nn.Dropout(0.5)
        self.called: list[tuple[bool, bool]] = []

    def forward(self, inputs: Tensor, mask: Tensor | None = None) -> Tensor:
        self.called.append((self.training, torch.is_grad_enabled()))
        dropped: Tensor = self.drop(super().forward(inputs))
        return dropped


def test_the_teacher_answers_in_evaluation_mode_without_gradient_and_stays_as_it_was() -> None:
    teacher, student = Dropping(seed=1), Dropping()
    before = teacher.map.weight.detach().clone()
    asked = training(9, distillation="soft")
    engine = LocalEngine(student, asked, "cpu", teacher=teacher)
    for step in range(3):
        engine.step(TASK.training_batch(step, 8, 0), TASK)
    engine.evaluate(TASK, "validation", 64)
    assert teacher.called == [(False, False)] * 3
    assert student.called[:3] == [(True, True)] * 3
    assert torch.equal(teacher.map.weight, before)
    assert teacher.map.weight.grad is None
    assert not any("teacher" in name for name in engine.weights())


def test_a_student_comes_close_to_what_its_teacher_answers() -> None:
    """Give the teacher a share of 1, so that the targets do not matter."""
    teacher, student = Reader(seed=3), Reader()
    asked = training(80, distillation="soft", distillation_weight=1.0)
    engine = LocalEngine(student, asked, "cpu", teacher=teacher)
    for step in range(80):
        engine.step(TASK.training_batch(step, 32, 0), TASK)
    tokens = TASK.training_batch(999, 64, 0).inputs["inputs"]
    with torch.no_grad():
        found, wanted = student(tokens).softmax(-1), teacher(tokens).softmax(-1)
    assert (found - wanted).abs().max() < 0.05


class Normed(nn.Module):
    """A teacher whose training mode differs and updates its batch norm statistics."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.norm, self.drop, self.map = nn.BatchNorm1d(64), nn.Dropout(0.5), nn.Linear(64, 4)
        self.norm.running_mean = torch.randn(64)

    def forward(self, inputs: Tensor) -> Tensor:
        logits: Tensor = self.map(self.drop(self.norm(inputs.flatten(1))))
        return logits


TWO_HEADS: dict[str, dict[str, Any]] = {
    "deit": {"mixer": "attention", "position": "learned", "dim": 8, "depth": 1},
    "levit": {"settings": {"dims": "8-8", "depths": "1-1", "heads": "1-1", "key_dim": 4}},
}


def _two_heads(name: str) -> Architecture:
    torch.manual_seed(0)
    return build_model(
        ModelSpec(
            architecture=name,
            length=64,
            input_kind="image",
            input_size=1,
            grid=(8, 8),
            output_size=4,
            **TWO_HEADS[name],
        )
    )


@pytest.mark.parametrize("name", TWO_HEADS)
@pytest.mark.parametrize(("how", "weight", "temperature"), [("hard", 0.5, 3.0), ("soft", 0.1, 3.0)])
def test_of_two_heads_one_learns_from_the_targets_and_one_from_the_teacher(
    name: str, how: str, weight: float, temperature: float
) -> None:
    """Check equations 2 and 3 of DeiT, with its tau and lambda, on the engine of a sweep."""
    teacher, model = Normed().train(), _two_heads(name)
    images = torch.randn(6, 8, 8, 1, generator=torch.Generator().manual_seed(1))
    targets = torch.tensor([0, 1, 2, 3, 3, 0])
    asked = training(
        9,
        distillation=how,
        distillation_weight=weight,
        distillation_temperature=temperature,
        clip_norm=None,
    )
    engine = LocalEngine(model, asked, "cpu", teacher=teacher)
    own, auxiliary = model(images)
    with torch.no_grad():
        taught = Normed().eval()(images)
    labels = _slow(own, torch.eye(4)[targets], targets, "hard", 1.0)
    lesson = _slow(auxiliary["distillation"], taught, targets, how, temperature)
    assert abs(labels - lesson) > 0.01
    heads = [model.get_submodule(part) for part in ("head", "distillation_head")]
    of_class = functional.cross_entropy(own, targets)
    wanted = torch.autograd.grad((1 - weight) * of_class, list(heads[0].parameters()))
    loss = engine.step(Batch(inputs={"inputs": images}, targets=targets), TASK)
    assert loss.item() == pytest.approx((1 - weight) * labels + weight * lesson, rel=1e-5)
    found = [parameter.grad for parameter in heads[0].parameters()]
    torch.testing.assert_close(found, list(wanted))
    assert all(p.grad is not None and p.grad.abs().max() > 0 for p in heads[1].parameters())
    assert torch.equal(teacher.norm.get_buffer("running_mean"), Normed().norm.running_mean)


class Smoothed(FirstToken):
    """A task with its own loss."""

    def loss(self, outputs: Outputs, batch: Batch, label_smoothing: float = 0.0) -> Tensor:
        return functional.cross_entropy(
            outputs.logits, batch.targets, label_smoothing=label_smoothing
        )


@pytest.mark.parametrize("name", TWO_HEADS)
def test_without_a_teacher_both_heads_learn_the_targets(name: str) -> None:
    model = _two_heads(name)
    images = torch.randn(6, 8, 8, 1, generator=torch.Generator().manual_seed(1))
    targets = torch.tensor([0, 1, 2, 3, 3, 0])
    own, auxiliary = model(images)
    losses = [
        functional.cross_entropy(logits, targets, label_smoothing=0.1)
        for logits in (own, auxiliary["distillation"])
    ]
    engine = LocalEngine(model, training(9, label_smoothing=0.1, clip_norm=None), "cpu")
    wanted = torch.autograd.grad(
        losses[1] / 2, list(model.get_submodule("distillation_head").parameters())
    )
    loss = engine.step(Batch(inputs={"inputs": images}, targets=targets), Smoothed())
    assert loss.item() == pytest.approx(sum(losses).item() / 2, rel=1e-5)  # type: ignore[union-attr]
    found = [p.grad for p in model.get_submodule("distillation_head").parameters()]
    torch.testing.assert_close(found, list(wanted))


REVERSAL = Reversal(5)
RECIPES: list[dict[str, Any]] = [
    {"distillation": "soft"},
    {"distillation": "hard", "precision": "bf16"},
    {"scheduled_sampling": 0.8},
    {"scheduled_sampling": 0.8, "ema": 0.9},
]


def _engine(**recipe: Any) -> LocalEngine:
    teacher = GruPair(8, seed=4) if "distillation" in recipe else None
    return LocalEngine(GruPair(8), training(8, **recipe), "cpu", seed=3, teacher=teacher)


def _steps(engine: LocalEngine, first: int, last: int) -> None:
    for step in range(first, last):
        engine.step(REVERSAL.training_batch(step, 8, 0), REVERSAL)


@pytest.mark.parametrize("recipe", RECIPES, ids=str)
def test_what_is_resumed_has_the_bits_of_what_was_not_stopped(
    recipe: dict[str, Any], tmp_path: Path
) -> None:
    whole, stopped, resumed, plain = (*(_engine(**recipe) for _ in range(3)), _engine())
    _steps(whole, 0, 8)
    _steps(plain, 0, 8)
    _steps(stopped, 0, 5)
    stopped.save(tmp_path)
    resumed.load(tmp_path)
    _steps(resumed, 5, 8)
    assert resumed.state_sha256() == whole.state_sha256()
    assert plain.weights().keys() == whole.weights().keys()
    assert any(not torch.equal(t, plain.weights()[n]) for n, t in whole.weights().items())


@pytest.mark.parametrize("recipe", RECIPES[::2], ids=str)
def test_parts_of_a_batch_learn_as_the_whole(recipe: dict[str, Any]) -> None:
    whole, parts = _engine(**recipe), _engine(**recipe, accumulation=4)
    for engine in (whole, parts):
        _steps(engine, 0, 8)
    for name, tensor in whole.weights().items():
        torch.testing.assert_close(parts.weights()[name], tensor, rtol=1e-3, atol=1e-4)
