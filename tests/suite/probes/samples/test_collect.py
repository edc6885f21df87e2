"""Test that every mixer yields its samples and that sampling changes no measurement."""

from __future__ import annotations

import base64
import json
from dataclasses import asdict
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import TypeAdapter

from bakeoff.models import (
    MIXERS,
    POSITIONS,
    Architecture,
    Mixer,
    ModelSpec,
    build_model,
    mixer_class,
)
from bakeoff.models.architectures.language_model import DecodingState, LanguageModel
from bakeoff.models.registry import relative_position
from bakeoff.suite.events import Finished
from bakeoff.suite.execution.trial import run_trial
from bakeoff.suite.planning.plan import plan
from bakeoff.suite.probes.samples import collect
from bakeoff.suite.probes.samples.building import evenly_chosen, matrix_sample, mixers_of
from bakeoff.suite.probes.samples.collect import NUM_TOKENS, looks_for, samples_of, written_on
from bakeoff.suite.schema import Resources, Result, Sample, Status, Trial
from bakeoff.suite.tasks.registry import build_task
from bakeoff.suite.tasks.shakespeare_characters import VOCABULARY
from bakeoff.suite.tasks.task import Task
from tests.suite.small_ablation import make_ablation

# By default mixers with and without weights, and one whose reach its contents decide; the others
# in the battery.
BY_DEFAULT = ("attention", "gru", "lsh_attention", "linear_transformer", "prefix_attention")
WITH_WEIGHTS = {
    "attention",
    "plain_attention",
    "local_attention",
    "grouped_query",
    "latent_attention",
    "differential_attention",
    "sink_attention",
    "synthesizer",
    "hard_attention",
    "prefix_attention",
}


def language_model(mixer: str = "attention", **changes: Any) -> tuple[Architecture, Task]:
    """Return a small untrained language model and its task."""
    task = build_task("shakespeare_characters", changes.pop("length", 16))
    return _built("language_model", mixer, task, changes), task


def classifier(mixer: str = "attention", **changes: Any) -> tuple[Architecture, Task]:
    task = build_task("fashion_mnist_patches", 49)
    return _built("classifier", mixer, task, changes), task


def _built(architecture: str, mixer: str, task: Task, changes: dict[str, Any]) -> Architecture:
    torch.manual_seed(0)
    fields: dict[str, Any] = {
        "architecture": architecture,
        "mixer": mixer,
        "knobs": {},
        "position": "sinusoidal",
        "dim": 16,
        "depth": 2,
        "length": task.length,
        "input_kind": task.input_kind,
        "input_size": task.input_size,
        "output_size": task.output_size,
    }
    return build_model(ModelSpec(**(fields | changes)))


def looked(model: Architecture, task: Task) -> list[Sample]:
    """Return the samples of all looks; unlike `samples_of`, let their exceptions through."""
    model.eval()
    with torch.no_grad():
        return [sample for look in looks_for(task) for sample in look(model, task)]


def values(sample: Sample) -> np.ndarray:
    levels = np.frombuffer(base64.b64decode(sample.levels), dtype=np.uint8)
    shares = levels.reshape(sample.num_rows, sample.num_columns) / 255
    return sample.low + (sample.high - sample.low) * shares


def of_kind(found: list[Sample], kind: str) -> list[Sample]:
    return [sample for sample in found if sample.kind == kind]


@pytest.fixture
def _writes_little(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collect, "NUM_TOKENS", 20)


@pytest.mark.usefixtures("_writes_little")
@pytest.mark.parametrize(
    "mixer", [pytest.param(m, marks=[pytest.mark.battery] * (m not in BY_DEFAULT)) for m in MIXERS]
)
def test_every_shipped_mixer_gives_what_it_has(mixer: str) -> None:
    makers = [classifier, *([language_model] if mixer_class(mixer).supports_causal else [])]
    for make in makers:
        model, task = make(mixer)
        found = looked(model, task)
        assert bool(of_kind(found, "attention")) == (mixer in WITH_WEIGHTS)
        assert len(of_kind(found, "positions")) == 1
        assert bool(of_kind(found, "text")) == (make is language_model)


@pytest.mark.usefixtures("_writes_little")
@pytest.mark.parametrize("position", POSITIONS)
def test_every_shipped_position_gives_what_it_has(position: str) -> None:
    found = of_kind(looked(*language_model(position=position)), "positions")
    titles = [sample.title for sample in found]
    heads = [f"head {head}" for head in range(1, 5)]
    if not relative_position(position) and position != "none":
        assert titles == ["cosine similarity"]
        return
    assert titles == {
        "alibi": [f"layer 1, {head}" for head in heads],  # the second layer's are the same
        "t5": [f"layer {layer}, {head}" for layer in (1, 2) for head in heads],
    }.get(position, [])


@pytest.mark.usefixtures("_writes_little")
def test_cosines_and_biases_are_those_of_the_formulas() -> None:
    cosines, *_ = of_kind(looked(*language_model()), "positions")
    matrix = values(cosines)
    assert matrix.shape == (16, 16)
    np.testing.assert_allclose(matrix, matrix.T)
    np.testing.assert_allclose(np.diag(matrix), 1.0, atol=0.01)
    assert 0 < matrix[0, 8] < matrix[0, 1] < 1
    *_, last = of_kind(looked(*language_model(position="alibi")), "positions")
    distance = np.arange(16)[None, :] - np.arange(16)[:, None]
    np.testing.assert_allclose(values(last), -(2.0**-8) * np.abs(distance), atol=0.001)


def test_a_map_holds_the_weights_that_the_model_uses() -> None:
    model, task = language_model(length=40, depth=1)
    first, second, *_ = of_kind(looked(model, task), "attention")
    assert (first.title, second.title) == ("layer 1, head 1", "layer 1, head 2")
    inputs = next(iter(task.held_out("validation", 1))).inputs["inputs"]
    block: Any = model.trunk.blocks[0]  # type: ignore[union-attr, index]
    read: Any = model.trunk.position(model.embedding(inputs))  # type: ignore[union-attr, operator]
    with torch.no_grad():
        whole = block.mixer.attention_weights(block.mixer_norm(read))[0]
    for head, sample in enumerate((first, second)):
        assert (sample.num_rows, sample.num_columns) == (32, 32)  # the first 32 of 40 tokens
        np.testing.assert_allclose(values(sample), whole[head, :32, :32], atol=0.003)
        np.testing.assert_allclose(values(sample).sum(axis=1), 1.0, atol=0.05)
    assert first.text == "Much Ado About Nothing\n\nACT I\n\nSC"[:32]


def test_a_map_of_both_directions_is_cut_out_of_the_whole() -> None:
    model, task = classifier()
    first, *_ = of_kind(looked(model, task), "attention")
    assert first.num_columns == 32
    assert first.text == ""
    assert (values(first).sum(axis=1) < 0.95).all()  # 17 of 49 patches are not displayed


def test_a_class_token_does_no_harm() -> None:
    model, task = classifier(settings={"pooling": "class_token"})
    assert len(of_kind(looked(model, task), "attention")) == 8


@pytest.mark.usefixtures("_writes_little")
def test_few_layers_and_heads_stand_for_many() -> None:
    model, task = language_model(depth=7, dim=32, knobs={"heads": 16})
    titles = [sample.title for sample in of_kind(looked(model, task), "attention")]
    assert titles == [
        f"layer {layer}, head {head}" for layer in (1, 3, 5, 7) for head in (1, 6, 11, 16)
    ]


@pytest.mark.whole
def test_a_model_writes_two_hundred_tokens_whatever_this_process_drew_before() -> None:
    model, task = language_model()
    prompt, written = of_kind(looked(model, task), "text")
    assert (prompt.title, written.title) == ("prompt", "continuation")
    assert prompt.text == "Much Ado"  # half as long as the model's sequences
    assert len(written.text) == NUM_TOKENS
    assert set(written.text) <= set(VOCABULARY)
    torch.rand(10)
    assert of_kind(looked(model, task), "text") == [prompt, written]


@pytest.mark.parametrize("has_steps", [True, False])
def test_what_is_written_follows_the_models_probabilities(
    has_steps: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compare with the parallel form, which is valid up to the training length."""
    model, _ = language_model(length=8)
    monkeypatch.setattr(mixer_class("attention"), "supports_step", has_steps)
    monkeypatch.setattr("bakeoff.suite.probes.samples.collect.TEMPERATURE", 1e-6)
    model.eval()
    with torch.no_grad():
        model.trunk.norm.weight.mul_(20)  # type: ignore[union-attr, operator]
        seen = [5, 6, 7]
        for token in written_on(model, seen, 5):  # type: ignore[arg-type]
            assert token == int(model(torch.tensor([seen]))[0, -1].argmax())
            seen.append(token)


def test_steps_begin_anew_where_positions_end(monkeypatch: pytest.MonkeyPatch) -> None:
    model, _ = language_model(length=8)
    read = []
    step = type(model).step

    def noted(self: LanguageModel, tokens: torch.Tensor, state: DecodingState) -> object:
        read.append((state.num_tokens, int(tokens)))
        return step(self, tokens, state)  # type: ignore[arg-type]

    monkeypatch.setattr(type(model), "step", noted)
    with torch.no_grad():
        seen = [5, 6, 7, *written_on(model, [5, 6, 7], 10)]  # type: ignore[arg-type]
    places = [*range(8), *range(8)][: len(read)]
    assert [place for place, _ in read] == places
    assert [token for _, token in read] == [*seen[:8], seen[7], *seen[8:]][: len(read)]


@pytest.mark.usefixtures("_writes_little")
def test_only_the_first_seed_leaves_some() -> None:
    model, task = language_model()
    assert samples_of(model, task, 0)
    assert samples_of(model, task, 1) == ()


@pytest.fixture
def quality(few_scored: None, _writes_little: None) -> Trial:
    return plan(make_ablation(scale={"length": 32, "batch": 512}), seeds=1).trials[0]


def result_of(trial: Trial) -> Result:
    *_, last = run_trial(trial, Resources(), "here")
    assert isinstance(last, Finished)
    assert last.result.status is Status.OK
    return last.result


def test_no_number_and_no_random_state_is_moved_by_them(
    quality: Trial, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_them = result_of(quality)
    state = torch.get_rng_state()
    monkeypatch.setattr(collect, "looks_for", lambda task: ())
    without = result_of(quality)
    assert {sample.kind for sample in with_them.samples} == {
        "attention",
        "positions",
        "text",
    }
    assert without.samples == ()
    assert (with_them.measurements, with_them.points) == (without.measurements, without.points)
    assert torch.equal(torch.get_rng_state(), state)


def test_results_of_older_versions_are_read_and_keep_their_hashes(quality: Trial) -> None:
    """Older results name the samples `specimens`, and their hashes cover that name."""
    result = result_of(quality)
    body = TypeAdapter(Result).dump_json(result)
    older = body.replace(b'"samples":', b'"specimens":')
    assert older != body
    assert TypeAdapter(Result).validate_json(older) == result
    assert "specimens" in result._content
    assert "samples" not in result._content


@pytest.mark.usefixtures("_writes_little")
def test_a_mixer_that_draws_numbers_draws_none_for_them() -> None:
    class Noisy(mixer_class("attention")):  # type: ignore[misc]
        def forward(self, x: torch.Tensor, *rest: Any, **named: Any) -> torch.Tensor:
            drawn: torch.Tensor = super().forward(x + torch.rand_like(x), *rest, **named)
            return drawn

    model, task = language_model()
    for mixer in mixers_of(model):
        mixer.__class__ = Noisy
    model.train()
    before = torch.get_rng_state()
    assert samples_of(model, task, 0)
    assert torch.equal(torch.get_rng_state(), before)
    assert model.training
    assert not any(mixer._forward_pre_hooks for mixer in mixers_of(model))


@pytest.mark.usefixtures("_writes_little")
@pytest.mark.parametrize("error", [RuntimeError("a fault"), SystemExit("gone")])
def test_what_fails_is_left_out_and_the_rest_stays(
    error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(self: Mixer, *_: object, **__: object) -> torch.Tensor:
        raise error

    model, task = language_model()
    monkeypatch.setattr(mixer_class("attention"), "attention_weights", fails)
    assert [sample.kind for sample in samples_of(model, task, 0)] == [
        "positions",
        "text",
        "text",
    ]
    assert not any(mixer._forward_pre_hooks for mixer in mixers_of(model))


@pytest.mark.slow
def test_a_result_stays_small_at_its_largest() -> None:
    model, task = language_model(length=64, depth=4, knobs={"heads": 8}, position="t5")
    found = samples_of(model, task, 0)
    assert list(found) == looked(model, task)
    assert len(found) == 16 + 16 + 2
    assert len(json.dumps([asdict(sample) for sample in found])) < 80_000


def test_a_matrix_keeps_its_values_to_half_a_level() -> None:
    matrix = torch.tensor([[0.0, 0.5], [-1.0, 3.0]])
    sample = matrix_sample("positions", "any", matrix)
    np.testing.assert_allclose(values(sample), matrix, atol=4 / 255 / 2)
    assert (sample.low, sample.high) == (-1.0, 3.0)
    constant = matrix_sample("positions", "any", torch.full((2, 2), 0.25))
    np.testing.assert_array_equal(values(constant), 0.25)


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), -1.0])
def test_a_matrix_of_what_is_no_number_is_refused(wrong: float) -> None:
    with pytest.raises(ValueError, match="layer 1"):
        matrix_sample("attention", "layer 1", torch.tensor([[0.5, wrong]]), low=0.0)


def test_the_first_and_the_last_are_always_chosen() -> None:
    assert evenly_chosen(range(3), 4) == [0, 1, 2]
    for number in range(5, 40):
        chosen = evenly_chosen(range(number), 4)
        assert len(set(chosen)) == 4
        assert (chosen[0], chosen[-1]) == (0, number - 1)
