"""Compare optimisers, schedules, averages and precision with slow forms; all of them resume."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from bakeoff.models.interface import Outputs
from bakeoff.suite.errors import CheckpointError
from bakeoff.suite.tasks.metrics import Accuracy
from bakeoff.suite.tasks.task import UNSCORED, Batch
from bakeoff.suite.training.engines.engine import shares_of
from bakeoff.suite.training.engines.local import LocalEngine
from bakeoff.suite.training.recipes import (
    WeightAverage,
    decayed_apart,
    float32_products,
    learning_rate_factor,
    optimizer_of,
)
from tests.suite.toy import FirstToken, Reader, training
from tests.suite.training.resumed import (
    ATTENTION,
    STEPS,
    STOP,
    Clock,
    checkpointer_in,
    run,
    stopped,
)
from tests.suite.training.toy_images import FlatReader, Images

TASK = FirstToken()
RECIPES: list[dict[str, Any]] = [
    {"optimizer": "sgd"},
    {"optimizer": "sgd", "momentum": 0.0},
    {"optimizer": "adafactor"},
    {"schedule": "constant_with_cooldown"},
    {"schedule": "inverse_square_root"},
    {"schedule": "linear"},
    {"clip_norm": None},
    {"clip_norm": 1e-3},
    {"precision": "bf16"},
    {"accumulation": 2},
    {"ema": 0.99},
    {"optimizer": "adafactor", "ema": 0.9},
]
# By default one for each kind of state that a checkpoint holds; the others in the battery.
BY_DEFAULT = ({"optimizer": "sgd"}, {"accumulation": 2}, RECIPES[-1])


def _trained(**recipe: Any) -> Reader:
    model = Reader()
    engine = LocalEngine(model, training(20, **recipe), "cpu")
    for step in range(8):
        engine.step(TASK.training_batch(step, 8, 0), TASK)
    engine.finish()
    return model


@pytest.mark.parametrize(
    "recipe",
    [
        pytest.param(recipe, marks=[pytest.mark.battery] * (recipe not in BY_DEFAULT))
        for recipe in RECIPES
    ],
    ids=str,
)
def test_every_recipe_moves_the_number_and_continues_with_the_same_bits(
    recipe: dict[str, Any], tmp_path: Path
) -> None:
    undisturbed = run(ATTENTION, None, recipe=recipe)
    assert undisturbed.states != run(ATTENTION, None).states
    stopped(tmp_path, recipe=recipe)
    resumed = run(ATTENTION, checkpointer_in(tmp_path, Clock()), recipe=recipe)
    assert resumed.numbers == undisturbed.numbers
    assert resumed.num_steps == STEPS - STOP


def test_a_checkpoint_of_another_optimiser_is_refused(tmp_path: Path) -> None:
    first = LocalEngine(Reader(), training(9, optimizer="sgd"), "cpu")
    first.step(TASK.training_batch(0, 8, 0), TASK)
    first.save(tmp_path)
    with pytest.raises(CheckpointError, match="exp_avg"):
        LocalEngine(Reader(), training(9), "cpu").load(tmp_path)


def _factors(steps: int, **changes: object) -> list[float]:
    asked = training(steps, **changes)
    return [learning_rate_factor(step, asked) for step in range(steps + 1)]


def test_the_cool_down_takes_the_last_fifth() -> None:
    factors = _factors(100, warmup_steps=4, schedule="constant_with_cooldown")
    assert factors[:5] == [0.25, 0.5, 0.75, 1.0, 1.0]
    assert set(factors[4:81]) == {1.0}
    assert factors[80:] == pytest.approx([1 - done / 20 for done in range(21)])
    short = _factors(10, warmup_steps=10, schedule="constant_with_cooldown")
    assert max(short) == pytest.approx(0.9)  # the warm-up ends where the cool-down begins
    assert short[10] == 0.0


def test_linear_falls_in_a_line_to_zero() -> None:
    factors = _factors(24, warmup_steps=4, schedule="linear")
    assert factors[3:] == pytest.approx([1.0, *(1 - done / 20 for done in range(21))])


def test_the_inverse_square_root_is_that_of_the_transformer() -> None:
    """Compare with Vaswani et al. 2017, equation 3 (steps from 1), divided by its peak."""
    warmup = 40
    wanted = [min(t**-0.5, t * warmup**-1.5) * warmup**0.5 for t in range(1, 201)]
    found = _factors(200, warmup_steps=warmup, schedule="inverse_square_root")
    assert found[:200] == pytest.approx(wanted)


def test_sgd_is_momentum_by_hand() -> None:
    weights, velocity = Reader().map.weight.detach().clone(), torch.zeros(4, 12)
    asked = training(20, optimizer="sgd", momentum=0.8, clip_norm=None, weight_decay=0.1)
    model = Reader()
    engine = LocalEngine(model, asked, "cpu")
    for step in range(5):
        engine.step(TASK.training_batch(step, 8, 0), TASK)
        assert model.map.weight.grad is not None
        velocity = 0.8 * velocity + model.map.weight.grad + 0.1 * weights
        weights = weights - 0.05 * learning_rate_factor(step, asked) * velocity
        torch.testing.assert_close(model.map.weight.detach(), weights)


def test_adafactor_is_the_papers() -> None:
    """Compare with Shazeer and Stern 2018, algorithms 4 and 5, in loops over a matrix."""
    model = nn.Linear(3, 2, bias=False).double()
    optimizer = optimizer_of(model, training(9, optimizer="adafactor", weight_decay=0.0))
    rows, columns = [0.0] * 2, [0.0] * 3
    for t in range(1, 5):
        gradient = torch.randn(2, 3, generator=torch.Generator().manual_seed(t)).double()
        before, beta = model.weight.detach().clone(), 1 - t**-0.8
        for i in range(2):
            rows[i] = beta * rows[i] + (1 - beta) * float((gradient[i] ** 2).sum())
        for j in range(3):
            columns[j] = beta * columns[j] + (1 - beta) * float((gradient[:, j] ** 2).sum())
        update = torch.tensor(
            [
                [
                    float(gradient[i, j]) / math.sqrt(rows[i] * columns[j] / sum(rows))
                    for j in range(3)
                ]
                for i in range(2)
            ]
        ).double()
        root = math.sqrt(float((update**2).mean()))
        rate = 0.05 * max(1e-3, math.sqrt(float((before**2).mean())))
        model.weight.grad = gradient
        optimizer.step()
        wanted = before - rate * update / max(1.0, root)
        torch.testing.assert_close(model.weight.detach(), wanted, rtol=1e-6, atol=1e-9)


class Declaring(nn.Module):
    """A model that excludes its own matrix and its child's from weight decay."""

    no_weight_decay = ("table", "inner.weight")

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.ones(2, 2))
        self.inner, self.other = nn.Linear(2, 2), nn.Linear(2, 2)


def test_what_a_module_declares_does_not_decay() -> None:
    model = nn.Sequential(Declaring())
    decayed, spared = decayed_apart(model, 0.1)
    assert [id(p) for p in decayed["params"]] == [id(model[0].other.weight)]  # type: ignore[attr-defined]
    assert len(spared["params"]) == 4  # type: ignore[arg-type]


def test_what_bears_the_mark_of_mambas_code_does_not_decay() -> None:
    model = nn.Linear(2, 2)
    model.weight._no_weight_decay = True  # type: ignore[assignment]
    decayed, spared = decayed_apart(nn.Sequential(model, nn.Linear(2, 3)), 0.1)
    assert [tuple(p.shape) for p in decayed["params"]] == [(3, 2)]  # type: ignore[attr-defined]
    assert spared["params"][0] is model.weight  # type: ignore[index]


def test_accumulated_parts_have_the_gradient_of_the_whole_batch() -> None:
    whole, parts = _trained(), _trained(accumulation=4)
    torch.testing.assert_close(parts.map.weight, whole.map.weight, rtol=1e-5, atol=1e-6)


def test_parts_are_weighted_by_what_is_scored_in_them() -> None:
    targets = torch.full((4, 3), UNSCORED)
    targets[0], targets[3, 0] = 1, 1
    batch = Batch(inputs={"inputs": torch.zeros(4, 3)}, targets=targets)
    assert [share for _, share in shares_of(batch, 4)] == [0.75, 0.25]
    assert [share for _, share in shares_of(batch, 1)] == [1.0]


def test_bf16_computes_in_bf16_and_keeps_float32() -> None:
    seen: list[torch.dtype] = []

    class Watched(Reader):
        def forward(self, inputs: Tensor, mask: Tensor | None = None) -> Tensor:
            seen.append((outputs := super().forward(inputs, mask)).dtype)
            return outputs

    class Checked(FirstToken):
        def loss(self, outputs: Outputs, batch: Batch, label_smoothing: float = 0.0) -> Tensor:
            assert outputs.logits.dtype is torch.float32
            return super().loss(outputs, batch)

    engine = LocalEngine(Watched(), training(9, precision="bf16"), "cpu")
    engine.step(TASK.training_batch(0, 8, 0), Checked())
    engine.evaluate(TASK, "validation", 64)
    assert seen == [torch.bfloat16, torch.float32]
    assert {p.dtype for p in engine.model.parameters()} == {torch.float32}
    coarse, fine = _trained(precision="bf16").map.weight, _trained().map.weight
    torch.testing.assert_close(coarse, fine, rtol=0.05, atol=0.05)


def test_the_average_is_a_slow_loops_and_is_what_is_scored() -> None:
    model = Reader()
    engine = LocalEngine(model, training(20, ema=0.3), "cpu")
    average = model.map.weight.detach().clone()
    for step in range(1, 7):
        engine.step(TASK.training_batch(step, 8, 0), TASK)
        decay = min(0.3, (1 + step) / (10 + step))
        average = decay * average + (1 - decay) * model.map.weight.detach()
    last = model.map.weight.detach().clone()
    scored: list[Tensor] = []

    class Noted(Accuracy):
        def sums(self, outputs: Outputs, batch: Batch) -> Tensor:
            scored.append(model.map.weight.detach().clone())
            return super().sums(outputs, batch)

    class Watched(FirstToken):
        metric = Noted()

    engine.evaluate(Watched(), "validation", 64)
    torch.testing.assert_close(scored[0], average)
    assert torch.equal(model.map.weight, last), "training goes on from the weights themselves"
    engine.finish()
    torch.testing.assert_close(model.map.weight.detach(), average)


def test_what_a_batch_norm_remembers_is_averaged_as_the_weights_are() -> None:
    """Compare with the scores of a model whose statistics were averaged in a slow loop."""
    model, task = FlatReader(), Images(lambda step: None)
    engine = LocalEngine(model, training(20, ema=0.4), "cpu")
    names = ("running_mean", "running_var")
    averages = {name: model.norm.get_buffer(name).clone() for name in names}
    for step in range(1, 7):
        engine.step(task.training_batch(step, 8, 0), task)
        decay = min(0.4, (1 + step) / (10 + step))
        for name in names:
            averages[name] = decay * averages[name] + (1 - decay) * model.norm.get_buffer(name)
    last = {name: model.norm.get_buffer(name).clone() for name in names}
    counted = int(model.norm.get_buffer("num_batches_tracked"))
    engine.evaluate(task, "validation", 8)
    assert all(torch.equal(model.norm.get_buffer(name), last[name]) for name in names)
    engine.finish()
    for name in names:
        assert not torch.allclose(averages[name], last[name], rtol=1e-3)
        torch.testing.assert_close(model.norm.get_buffer(name), averages[name])
    assert int(model.norm.get_buffer("num_batches_tracked")) == counted == 6


class Projecting(nn.Module):
    """A model with a buffer that is not a statistic."""

    def __init__(self) -> None:
        super().__init__()
        self.map = nn.Linear(2, 2)
        self.register_buffer("directions", torch.ones(2))


def test_a_model_without_batch_norm_averages_its_parameters_alone() -> None:
    """Check the keys, so that checkpoints and hashes of earlier trainings stay valid."""
    assert WeightAverage(Projecting(), 0.9).averages.keys() == {"map.weight", "map.bias"}


def test_averages_of_other_parameters_are_refused() -> None:
    average = WeightAverage(Reader(), 0.9)
    with pytest.raises(CheckpointError, match="other parameters"):
        average.load({"map.weight": torch.zeros(1)})


@pytest.mark.parametrize(
    ("precision", "may"), [("float32", False), ("tf32", True), ("bf16", False)]
)
def test_tf32_is_used_where_it_is_declared_and_nowhere_else(precision: str, may: bool) -> None:
    backends = (torch.backends.cuda.matmul, torch.backends.cudnn)
    before = [backend.allow_tf32 for backend in backends]
    with float32_products(precision):
        assert [backend.allow_tf32 for backend in backends] == [may, may]
    assert [backend.allow_tf32 for backend in backends] == before


def test_only_what_is_not_the_default_is_hashed() -> None:
    plain = training(9).hashed
    assert plain.keys() == {
        "steps",
        "learning_rate",
        "warmup_steps",
        "weight_decay",
        "num_evaluations",
    }
    assert training(9, ema=0.9).hashed == {**plain, "ema": 0.9}
