"""Learning from a teacher: the loss against loops, what is left alone, and how it is resumed."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from models.interface import Outputs
from suite.tasks.task import UNSCORED, Batch
from suite.training.distillation import TeacherMisfit, with_teacher
from suite.training.engines.local import LocalEngine
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
    """The mean over scored targets, place by place."""
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
    taught[-1] = math.nan  # what a teacher says of padding is never read
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
        with_teacher(torch.tensor(1.0), Outputs(torch.zeros(2, 4)), Outputs(torch.zeros(2, 5)),
                     batch, training(9, distillation="soft"))  # fmt: skip


class Dropping(Reader):
    """Notes how it is called."""

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
    """Whatever the targets are: the teacher has a share of 1."""
    teacher, student = Reader(seed=3), Reader()
    asked = training(80, distillation="soft", distillation_weight=1.0)
    engine = LocalEngine(student, asked, "cpu", teacher=teacher)
    for step in range(80):
        engine.step(TASK.training_batch(step, 32, 0), TASK)
    tokens = TASK.training_batch(999, 64, 0).inputs["inputs"]
    with torch.no_grad():
        found, wanted = student(tokens).softmax(-1), teacher(tokens).softmax(-1)
    assert (found - wanted).abs().max() < 0.05


REVERSAL = Reversal(5)
RECIPES: list[dict[str, Any]] = [
    {"distillation": "soft"}, {"distillation": "hard", "precision": "bf16"},
    {"scheduled_sampling": 0.8}, {"scheduled_sampling": 0.8, "ema": 0.9},
]  # fmt: skip


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
