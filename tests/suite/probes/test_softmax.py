"""Test softmax saturation by hand for two keys, and by autograd in whole models."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from bakeoff.models import Architecture, Mixer, ModelError, ModelSpec, build_model
from bakeoff.suite.planning.plan import plan
from bakeoff.suite.probes.quality import Quality
from bakeoff.suite.probes.samples.building import mixers_of
from bakeoff.suite.probes.softmax import Attended, Softmax, attended, softmaxes_written
from bakeoff.suite.schema import Measurement, Trial
from bakeoff.suite.tasks.images.fashion_mnist import FashionMnistPatches
from bakeoff.suite.tasks.registry import build_task
from bakeoff.suite.tasks.task import Batch, Split, Task
from bakeoff.suite.training.checkpoint import Checkpointer
from tests.suite.probes.conftest import TWO_WORKERS, language_model, said_after_training
from tests.suite.toy import FirstToken
from tests.workplace import Workplace

LENGTH = 16


class ByExponentials(Mixer):
    """A user's attention mixer that does not call torch's softmax."""

    mask_mode = "exact"
    supports_causal = True

    def forward(self, x: Tensor, *rest: Any, **named: Any) -> Tensor:
        return self.attention_weights(x)[:, 0] @ x

    def attention_weights(self, x: Tensor, *rest: Any, **named: Any) -> Tensor:
        terms = (x @ x.transpose(1, 2)).exp().tril()
        return (terms / terms.sum(dim=-1, keepdim=True)).unsqueeze(1)


OWN = f"{ByExponentials.__module__}:{ByExponentials.__name__}"


def spec_of(mixer: str = "attention", position: str = "sinusoidal", **knobs: Any) -> ModelSpec:
    return language_model(mixer, LENGTH, knobs=knobs, position=position, depth=2)


def model_of(mixer: str = "attention", seed: int = 0, **asked: Any) -> Architecture:
    torch.manual_seed(seed)
    return build_model(spec_of(mixer, **asked)).double().eval()


def text() -> tuple[Task, Batch]:
    task = build_task("shakespeare_characters", LENGTH)
    return task, next(iter(task.held_out("validation", 4)))


def looked_at(**asked: Any) -> list[Attended]:
    return attended(model_of(**asked), *text())


@pytest.mark.parametrize("difference", [0.0, 0.5, -2.0, 8.0])
def test_two_keys_by_hand(difference: float) -> None:
    """Compare the gradient for p and 1 - p with 4 p (1 - p) of that at equal scores."""
    p = 1 / (1 + math.exp(-difference))
    scores = torch.tensor([[difference, 0.0]], dtype=torch.float64, requires_grad=True)
    weights = scores.softmax(dim=-1)
    wanted = torch.tensor([[3.0, -1.0]], dtype=torch.float64)
    (by_autograd,) = torch.autograd.grad((weights * wanted).sum(), scores)
    found = Attended(
        weights=weights.detach(), gradient=wanted, visible=torch.ones(1, 2, dtype=torch.bool)
    )
    assert found.through().item() == pytest.approx(by_autograd.abs().sum().item())
    assert found.through().item() == pytest.approx(2 * p * (1 - p) * 4)
    assert found.score_gradient() == pytest.approx(4 * p * (1 - p))
    entropy = -(p * math.log2(p) + (1 - p) * math.log2(1 - p))
    assert found.entropy() == pytest.approx(entropy)


def test_one_key_that_takes_all_lets_nothing_through() -> None:
    found = Attended(
        weights=torch.tensor([[0.0, 1.0, 0.0]]),
        gradient=torch.tensor([[1.0, 2.0, 4.0]]),
        visible=torch.ones(1, 3, dtype=torch.bool),
    )
    assert (found.entropy(), found.score_gradient()) == (0.0, 0.0)


def test_hidden_keys_and_queries_without_a_choice_are_left_out() -> None:
    """Use a query with a single key, one without effect on the loss, and one that counts."""
    seen = Attended(
        weights=torch.tensor([[1.0, 0.0, 0.0], [0.4, 0.6, 0.0], [0.5, 0.5, 0.0]]),
        gradient=torch.tensor([[5.0, 6.0, 7.0], [0.0, 0.0, 9.0], [1.0, 2.0, 9.0]]),
        visible=torch.tensor([[True, False, False], [True, True, False], [True, True, False]]),
    )
    assert seen.counts().tolist() == [False, False, True]
    assert (seen.entropy(), seen.score_gradient()) == (1.0, 1.0)


FORMS: dict[str, dict[str, Any]] = {
    "fused": {"heads": 2, "kernel": "fused"},
    "materialised": {"heads": 2, "kernel": "materialised"},
    "unequal widths": {"heads": 1, "key_dim": 64, "value_dim": 16, "temperature": 2.0},
    "additive": {"heads": 2, "score": "additive"},
    "learned scale": {"heads": 2, "scale": "learned"},
    "t5": {"heads": 2, "position": "t5"},
    "shaw": {"heads": 2, "position": "shaw"},
    "local": {"mixer": "local_attention", "heads": 2, "window": 5},
    "plain": {"mixer": "plain_attention"},
    "grouped": {"mixer": "grouped_query", "heads": 2, "key_value_heads": 1},
    "latent": {"mixer": "latent_attention", "heads": 2},
    "sinks": {"mixer": "sink_attention", "heads": 2, "window": 3, "sinks": 2},
}


@pytest.mark.parametrize("form", FORMS)
def test_what_is_written_is_what_the_model_does(form: str) -> None:
    """Compare outputs, weights and score gradients with the mixer's and autograd's."""
    model, (task, batch) = model_of(**FORMS[form]), text()
    with softmaxes_written(mixers_of(model)) as written:
        outputs = batch.through(model)
    torch.testing.assert_close(outputs, batch.through(model))
    loss = task.loss(outputs, batch)
    by_autograd = torch.autograd.grad(loss, [each.scores for each in written])
    found = attended(model, task, batch)
    assert len(written) == len(found) == len(mixers_of(model))
    for each, gradient in zip(found, by_autograd, strict=True):
        counts = each.counts()
        assert counts.sum() == len(batch.targets) * (LENGTH - 1) * FORMS[form].get("heads", 1)
        torch.testing.assert_close(each.through()[counts], gradient.abs().sum(dim=-1)[counts])
        assert each.through()[counts].sum() > 0


def test_blocks_of_a_window_count_no_query_that_is_not_there() -> None:
    """Compare a window over the whole sequence, with padded blocks, with attention."""
    whole, local = model_of(heads=2), model_of("local_attention", heads=2, window=LENGTH)
    local.load_state_dict(whole.state_dict())
    pairs = zip(attended(whole, *text()), attended(local, *text()), strict=True)
    for a, b in pairs:
        assert a.entropy() == pytest.approx(b.entropy())
        assert a.score_gradient() == pytest.approx(b.score_gradient())


def test_padding_takes_no_part() -> None:
    """Compare a padded sequence with the shorter one."""
    torch.manual_seed(0)
    spec = replace(spec_of(heads=2), architecture="classifier", input_size=4, output_size=4)
    model, task = build_model(spec).double().eval(), FirstToken(LENGTH)
    short = task.training_batch(0, 3, 0)
    tokens = short.inputs["inputs"][:, :10]
    short = Batch(inputs={"inputs": tokens}, targets=short.targets)
    filled = torch.cat([tokens, torch.ones(3, 6, dtype=torch.long)], dim=1)
    mask = (torch.arange(16) < 10).expand(3, 16)
    padded = Batch(inputs={"inputs": filled, "mask": mask}, targets=short.targets)
    for a, b in zip(attended(model, task, short), attended(model, task, padded), strict=True):
        assert a.entropy() == pytest.approx(b.entropy())
        assert a.score_gradient() == pytest.approx(b.score_gradient())


def test_equal_scores_are_one_and_one() -> None:
    for each in looked_at(heads=2, temperature=1e9):
        assert each.entropy() == pytest.approx(1)
        assert each.score_gradient() == pytest.approx(1)


def test_unscaled_products_of_wide_keys_start_saturated_and_scaled_ones_do_not() -> None:
    """Compare widths with and without the scale of Vaswani et al. 2017, section 3.2.1."""
    for key_dim, scale, low, high in (
        (8, "1/sqrt(d)", 0.8, 1.0),
        (512, "1/sqrt(d)", 0.8, 1.0),
        (8, "none", 0.5, 0.9),
        (512, "none", 0.0, 0.3),
    ):
        for each in looked_at(heads=1, key_dim=key_dim, value_dim=16, scale=scale):
            assert low < each.score_gradient() < high, (key_dim, scale)
            assert (each.entropy() < 0.2) == (high == 0.3)


def test_a_stack_that_keeps_no_activations_is_looked_at_too() -> None:
    spec = replace(spec_of(), settings={"residual": "reversible"})
    found = attended(build_model(spec).double().eval(), *text())
    assert [each.counts().any().item() for each in found] == [True] * spec.depth


def test_softmaxes_outside_mixers_are_not_noted() -> None:
    model = model_of(heads=2)
    with softmaxes_written(mixers_of(model)) as written:
        torch.ones(2, 2).softmax(dim=-1)
    assert written == []
    assert not any(mixer._forward_pre_hooks for mixer in mixers_of(model))


def test_a_mixer_without_weights_is_an_impossible_cell() -> None:
    assert Softmax().why_not(spec_of("lstm"), None) == "lstm gives no attention weights"
    assert Softmax().why_not(spec_of(), None) == ""
    assert Softmax().why_not(spec_of(), TWO_WORKERS) == ""  # the model that the workers trained


def test_a_mixer_that_calls_no_softmax_is_refused_by_name() -> None:
    assert Softmax().why_not(spec_of(OWN), None) == ""
    with pytest.raises(ModelError, match="calls no softmax"):
        attended(model_of(OWN), *text())


@pytest.fixture
def trial(tmp_path: Path) -> Trial:
    made = Workplace(tmp_path).ablation(probes=["softmax"], mixer="attention", steps=4)
    return next(each for each in plan(made).trials if each.probe == "softmax")


def test_it_looks_before_and_after_training_and_never_at_the_test_split(
    trial: Trial, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    read: list[str] = []
    training_batch, held_out = FashionMnistPatches.training_batch, FashionMnistPatches.held_out

    def noted_batch(self: FashionMnistPatches, step: int, batch: int, seed: int) -> Batch:
        read.append("training")
        return training_batch(self, step, batch, seed)

    def noted_split(self: FashionMnistPatches, split: Split, batch: int) -> Iterator[Batch]:
        read.append(split)
        return held_out(self, split, batch)

    monkeypatch.setattr(FashionMnistPatches, "training_batch", noted_batch)
    monkeypatch.setattr(FashionMnistPatches, "held_out", noted_split)
    assert trial.trained is not None
    training = Checkpointer(tmp_path / trial.trained.trial_id, math.inf, keeps_weights=True)
    deque(Quality().measure_resuming(trial.trained, "cpu", training), maxlen=0)
    read.clear()
    looking = Checkpointer(tmp_path / trial.trial_id, math.inf)
    found = list(Softmax().measure_resuming(trial, "cpu", looking))
    assert read == ["validation"] * 2
    values = [each.value for each in found if isinstance(each, Measurement)]
    assert values[0] != values[2]


def test_it_looks_at_the_weights_that_quality_has_left(
    trial: Trial, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Compare the weights with those of the last step bit for bit."""
    models: list[Architecture] = []

    def kept(spec: ModelSpec) -> Architecture:
        models.append(build_model(spec))
        return models[-1]

    monkeypatch.setattr("bakeoff.suite.probes.probe.build_model", kept)
    said_after_training(trial, tmp_path)
    assert len(models) == 3  # trained, untrained, measured
    ends = [torch.cat([p.flatten() for p in model.parameters()]) for model in models]
    assert torch.equal(ends[0], ends[2])
    assert not torch.equal(ends[0], ends[1])
