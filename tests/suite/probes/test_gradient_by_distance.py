"""Test gradients by distance against norms known by hand, and on the supported models."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from bakeoff.models import ModelSpec, build_model
from bakeoff.suite.probes import gradient_by_distance
from bakeoff.suite.probes.gradient_by_distance import (
    FLOOR,
    GradientByDistance,
    distances,
    log_ratios,
    norms_by_distance,
)
from bakeoff.suite.probes.probe import exercise
from bakeoff.suite.schema import Measurement, Status, Training, Trial
from bakeoff.suite.tasks.shakespeare_characters import ShakespeareCharacters
from bakeoff.suite.training.engines.engine import in_evaluation_mode
from bakeoff.suite.training.loop import train
from tests.suite.probes.conftest import language_model, said_after_training, trial_on_text

pytestmark = pytest.mark.whole

WIDTH = 6
LOWEST = math.log10(FLOOR)
TRAINING = Training(
    steps=3, learning_rate=1e-2, warmup_steps=1, weight_decay=0.01, num_evaluations=2
)


class Linear(nn.Module):
    """The recurrence h_t = U h_(t-1) + e_t; the output is h."""

    def __init__(self, recurrent: Tensor) -> None:
        super().__init__()
        self.embedding = nn.Embedding(4, len(recurrent))
        self.recurrent = nn.Parameter(recurrent)

    def forward(self, tokens: Tensor) -> Tensor:
        outputs: list[Tensor] = []
        for embedded in self.embedding(tokens).unbind(1):
            carried = outputs[-1] @ self.recurrent.T if outputs else 0.0
            outputs.append(embedded + carried)
        return torch.stack(outputs, dim=1)


def turn(factor: float) -> Tensor:
    """Return a rotation times a factor: each step scales every vector by the factor."""
    rotation: Tensor = torch.linalg.qr(torch.randn(WIDTH, WIDTH)).Q
    return factor * rotation


spec = partial(language_model, length=96)


def trial(model: ModelSpec) -> Trial:
    trained = trial_on_text("quality", model, 32, training=TRAINING, seed=1)
    return trial_on_text("gradient_by_distance", model, 32, seed=1, trained=trained)


def said(model: ModelSpec, folder: Path) -> dict[str, list[float]]:
    """Return {metric: values by increasing distance}."""
    values: dict[str, list[float]] = {}
    for each in said_after_training(trial(model), folder):
        assert isinstance(each, Measurement)  # only `quality` may yield points
        assert each.value is not None
        values.setdefault(each.metric, []).append(each.value)
    return values


@pytest.mark.parametrize("factor", [0.5, 1.0, 3.0])
def test_a_linear_recurrence_passes_a_power_of_its_factor(factor: float) -> None:
    found = log_ratios(norms_by_distance(Linear(turn(factor)), torch.randint(4, (3, 20))))
    by_hand = torch.arange(20) * math.log10(factor)
    torch.testing.assert_close(found, by_hand.double().expand(3, 20), rtol=0, atol=1e-4)


def test_norms_whose_squares_float32_cannot_hold_are_measured_all_the_same() -> None:
    found = log_ratios(norms_by_distance(Linear(turn(1e-3)), torch.randint(4, (1, 12))))[0]
    assert found[10] == pytest.approx(-30.0, abs=1e-3)


def test_nothing_is_a_finite_number_and_infinity_is_none() -> None:
    found = log_ratios(torch.tensor([[1.0, 0.0, 1e-60, math.inf], [0.0, 0.0, 1.0, math.nan]]))
    assert found[0, 1:3].tolist() == [pytest.approx(LOWEST)] * 2
    assert found[1, :3].isfinite().all()
    assert found[:, 3].isnan().all()


def test_an_exploding_gradient_is_a_divergence_at_its_distances(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def exploding(model: nn.Module, inputs: Tensor) -> Tensor:
        far = torch.arange(inputs.shape[1]) >= 8
        return torch.where(far, math.inf, 1.0).double().expand(inputs.shape)

    monkeypatch.setattr(gradient_by_distance, "norms_by_distance", exploding)
    first = said_after_training(trial(spec("rnn", length=16)), tmp_path)[:4]
    assert [each.value for each in first if isinstance(each, Measurement)] == [0.0] * 3 + [None]
    assert isinstance(first[3], Measurement)
    assert first[3].status is Status.DIVERGED
    assert "distance 8" in first[3].reason


def test_a_plain_rnn_passes_a_power_of_its_weight() -> None:
    """Check that U = 0.6 I scales by 0.6 per step where tanh is nearly linear."""
    model = build_model(spec("rnn", length=12))
    network = model.trunk.blocks[0].mixer.rnn  # type: ignore[union-attr, index]
    with torch.no_grad():
        for weight in network.parameters():
            weight.mul_(1e-3 if weight.ndim == 2 else 0.0)
        network.weight_hh_l0.copy_(0.6 * torch.eye(16))
    norms = norms_by_distance(model, torch.full((2, 12), 7))
    steps = norms[:, 2:] / norms[:, 1:-1]
    torch.testing.assert_close(steps, torch.full_like(steps, 0.6), rtol=1e-3, atol=0)


@pytest.mark.usefixtures("few_scored")
def test_nothing_comes_through_a_causal_convolution_from_beyond_its_reach(tmp_path: Path) -> None:
    """Check that a kernel of size 3 reaches two tokens back, and two such layers four."""
    found = said(spec("conv", depth=2), tmp_path)
    assert distances(96) == [1, 2, 4, 8, 16, 32, 64]
    for values in found.values():
        assert min(values[:3]) > -6.0
        assert values[3:] == [pytest.approx(LOWEST)] * 4


@pytest.mark.usefixtures("few_scored")
def test_attention_is_nearly_flat_where_a_plain_rnn_falls(tmp_path: Path) -> None:
    attention, rnn = (
        said(spec(mixer), tmp_path)["initial_gradient_log10"] for mixer in ("attention", "rnn")
    )
    assert max(attention) - min(attention) < 1.0
    assert rnn[0] - rnn[-1] > 10.0


def test_the_trained_model_is_the_one_that_quality_trains(tmp_path: Path) -> None:
    model_spec = spec("gru", length=16, settings={"dropout": 0.2})
    todo = trial(model_spec).trained
    assert todo is not None
    torch.manual_seed(todo.seed)
    model = build_model(model_spec)
    assert list(train(model, exercise(todo, model), "cpu"))
    (held_out,) = islice(ShakespeareCharacters(16).held_out("validation", 64), 1)
    windows = held_out.inputs["inputs"]
    with in_evaluation_mode(model):
        by_hand = torch.cat([log_ratios(norms_by_distance(model, w)) for w in windows.chunk(2)])
    expected = by_hand.mean(dim=0)[distances(16)].tolist()
    assert said(model_spec, tmp_path)["trained_gradient_log10"] == expected


def test_no_parameter_is_touched() -> None:
    model = Linear(turn(0.5))
    norms_by_distance(model, torch.randint(4, (2, 8)))
    assert all(parameter.grad is None for parameter in model.parameters())


def test_distances_are_powers_of_two_inside_a_window() -> None:
    assert [distances(n) for n in (1, 2, 3, 64, 65)] == [
        [],
        [1],
        [1, 2],
        [1, 2, 4, 8, 16, 32],
        [1, 2, 4, 8, 16, 32, 64],
    ]


def test_it_looks_back_in_language_models_only() -> None:
    probe = GradientByDistance()
    assert probe.why_not(spec("rnn"), None) == ""
    assert "classifier" in probe.why_not(replace(spec("rnn"), architecture="classifier"), None)
