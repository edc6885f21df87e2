"""Test decoding time: the state it starts from, the supported models, the rows it writes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from bakeoff.models import MIXERS, ModelSpec, build_model, mixer_class
from bakeoff.models.architectures.language_model import DecodingState, LanguageModel
from bakeoff.models.mixer import State
from bakeoff.models.mixers.attention import Attention
from bakeoff.models.mixers.gru import GRU
from bakeoff.suite.planning.plan import plan
from bakeoff.suite.probes import decode
from bakeoff.suite.probes.decode import METRIC, Decode, Decoding, TokenStep, decode_step, next_token
from bakeoff.suite.probes.samples.building import mixers_of
from bakeoff.suite.schema import CONTROLS, Measurement, Parallel, Status, Trial
from bakeoff.suite.spec import Model, vary
from bakeoff.suite.tasks.registry import task_class
from bakeoff.suite.timing.passes import Missing, Pass
from tests.suite.probes.conftest import TWO_WORKERS, by_subject, language_model
from tests.suite.small_ablation import make_ablation
from tests.suite.timing.subjects import InPlace, Stepless, Unproven, alone, own

TEXT, IMAGES = "shakespeare_characters", "fashion_mnist_patches"
LENGTH = 8


SOURCES = "reversal"
DECODED = Decoding(task_class(TEXT).interface(LENGTH).inputs)


@pytest.fixture
def trial() -> Trial:
    ablation = make_ablation(axes=[vary("mixer", ["attention", "gru"])], probes=["decode"])
    found = plan(ablation, seeds=1).trials
    assert len(found) == 1
    return found[0]


@pytest.mark.usefixtures("brief")
def test_every_variant_has_a_time_and_the_first_has_controls(trial: Trial) -> None:
    found = list(by_subject(Decode().measure(trial, "cpu")).values())
    announced = {spec.name: spec for spec in Decode().metrics(task_class(TEXT), LENGTH)}
    for name, spec in announced.items():
        measured = [each for each in found if each.metric == name]
        assert [each.subject for each in measured] == [0, 1]
        for each in measured:
            assert (each.unit, each.better, each.at) == (spec.unit, spec.better, spec.at)
            assert each.value is not None
            assert each.value > 0
    seconds, rates = ([m for m in found if m.metric == name] for name in list(announced)[:2])
    for time, rate in zip(seconds, rates, strict=True):
        assert rate.value == pytest.approx(1 / (time.value or 0))
        if time.spread_low is not None:
            assert rate.spread_high == pytest.approx(1 / time.spread_low)
    controls = [each for each in found if each.metric not in announced]
    assert {each.metric for each in controls} <= CONTROLS
    ratios = {each.metric: each.subject for each in controls if each.metric.endswith("_ratio")}
    assert ratios == {"baseline_again_ratio": 0, "baseline_slowed_ratio": 0}


@pytest.mark.usefixtures("brief")
def test_on_a_gpu_each_step_has_its_share_of_the_copy_peak(
    trial: Trial, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decode, "are_wanted", lambda device: True)
    found = by_subject(Decode().measure(trial, "cpu"))
    assert found["copy_peak_bytes_per_second", 0].value == 7e9
    for subject, spec in enumerate(trial.subjects):
        seconds, state, said = (
            found[name, subject]
            for name in (METRIC, "decode_state_bytes", "decode_share_of_copy_peak")
        )
        read = sum(p.nbytes for p in build_model(spec).parameters()) + (state.value or 0.0)
        assert said.value == pytest.approx(100 * read / 7e9 / (seconds.value or 0.0))
        assert (said.unit, said.at, said.status) == ("% of peak", "length=8", seconds.status)


@pytest.mark.whole
@pytest.mark.usefixtures("brief")
def test_a_batch_without_memory_costs_one_variant_that_batch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    step = GRU.step

    def hungry(mixer: GRU, x_t: Tensor, state: State) -> tuple[Tensor, State]:
        if len(x_t) == 4:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return step(mixer, x_t, state)

    monkeypatch.setattr(GRU, "step", hungry)
    ablation = make_ablation(
        axes=[vary("mixer", ["attention", "gru"])],
        probes=["decode"],
        scale={"decode_batches": [2, 4, 8]},
    )
    (trial,) = plan(ablation, seeds=1).trials
    rows = [m for m in Decode().measure(trial, "cpu") if isinstance(m, Measurement)]
    names = {spec.name for spec in Decode().specs}
    lost = {
        (m.metric, m.at, trial.subjects[m.subject].mixer, m.status)
        for m in rows
        if m.metric in names and m.value is None
    }
    assert lost == {(n, "length=8, batch=4", "gru", Status.OUT_OF_MEMORY) for n in names}


@pytest.mark.whole
@pytest.mark.usefixtures("brief")
def test_a_translator_decodes_at_each_batch_and_beam() -> None:
    ablation = make_ablation(
        baseline=Model(mixer="attention"),
        axes=[vary("mixer", ["attention", "conv"])],
        tasks=[SOURCES],
        probes=["decode"],
        scale={"length": LENGTH, "decode_batches": [1, 3], "beams": [2]},
    )
    found = plan(ablation, seeds=1)
    (trial,) = found.trials
    places = ["length=8", "length=8, beam=2", "length=8, batch=3", "length=8, batch=3, beam=2"]
    assert trial.decoding == ((1, 2), (3, 1), (3, 2))
    rows = list(Decode().measure(trial, "cpu"))
    measured = {(m.metric, m.at, m.subject): m.value for m in rows if isinstance(m, Measurement)}
    for cell in found.cells:
        assert [spec.at for spec in cell.metrics if spec.name == METRIC] == places
        for spec in cell.metrics:
            assert measured[spec.name, spec.at, cell.subject]
    for at, batch in zip(places, (1, 1, 3, 3), strict=True):
        rate, time = (measured[name, at, 0] for name in ("decode_tokens_per_second", METRIC))
        assert (rate or 0) * (time or 0) == pytest.approx(batch)


def by_formula(spec: ModelSpec, length: int, source: int | None) -> int:
    """Return the state bytes of one sequence: its own tokens plus its source."""
    mixers = [m for m in mixers_of(build_model(spec)) if m.is_causal]
    others = [m for m in mixers_of(build_model(spec)) if not m.is_causal][-len(mixers) :]
    sources = 0 if source is None else sum(m.context_bytes(source) for m in others)
    return sum(m.state_bytes(length) for m in mixers) + sources


@pytest.mark.parametrize("mixer", ["attention", "gru", "linear_transformer"])
@pytest.mark.parametrize("task", [TEXT, SOURCES])
def test_bytes_of_the_state_are_those_of_the_formulas(task: str, mixer: str) -> None:
    ablation = make_ablation(
        baseline=Model(mixer=mixer),
        axes=[vary("heads", [4])] * (mixer != "gru") or [vary("depth", [1])],
        tasks=[task],
        probes=["decode"],
    )
    spec = plan(ablation).trials[0].subjects[0]
    inputs = task_class(task).interface(LENGTH).inputs
    source = inputs["context"].length if "context" in inputs else None
    of_one = by_formula(spec, LENGTH, source)
    for batch, beam in ((1, 1), (3, 1), (2, 4)):
        found = next_token(spec, "cpu", Decoding(inputs, batch, beam))
        assert isinstance(found, TokenStep)
        assert found.state_bytes == of_one * batch * beam


@pytest.mark.parametrize("beam", [1, 2])
def test_it_times_the_last_token_after_all_others(
    beam: int, trial: Trial, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[DecodingState] = []
    step = LanguageModel.step

    def noted(
        model: LanguageModel, tokens: Tensor, state: DecodingState
    ) -> tuple[Tensor, DecodingState]:
        assert tokens.shape == (3 * beam if len(seen) >= LENGTH + 1 else 3,)
        assert not model.training
        assert not torch.is_grad_enabled()
        seen.append(state)
        return step(model, tokens, state)

    monkeypatch.setattr(LanguageModel, "step", noted)
    timed = next_token(trial.subjects[0], "cpu", DECODED._replace(batch=3, beam=beam))
    assert isinstance(timed, Pass)
    assert [state.num_tokens for state in seen][: LENGTH - 1] == list(range(LENGTH - 1))
    for _ in range(3):
        timed.run()
    assert [state.num_tokens for state in seen][LENGTH:] == [LENGTH - 1] * 5


def test_a_state_that_changes_in_place_is_not_timed(
    trial: Trial, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = GRU.step

    def in_place(mixer: GRU, x_t: Tensor, state: State) -> tuple[Tensor, State]:
        output, new = step(mixer, x_t, state)
        state[0].copy_(new[0])
        return output, state

    monkeypatch.setattr(GRU, "step", in_place)
    timed = next_token(trial.subjects[1], "cpu", DECODED)
    assert isinstance(timed, Missing)
    assert timed.status is Status.SKIPPED
    assert "gru changes its state in place" in timed.reason


def specs() -> Iterator[tuple[ModelSpec, Parallel | None, str]]:
    model = language_model(length=LENGTH)
    yield model, None, ""
    yield model, TWO_WORKERS, "decode times one process, without DeepSpeed"
    classifier = replace(model, architecture="classifier")
    yield classifier, None, "a classifier does not write its own next token"
    masked = replace(model, architecture="masked_language_model")
    yield masked, None, "a masked_language_model does not write its own next token"
    yield replace(model, mixer="fnet"), None, "fnet has no step form"
    translator = replace(model, architecture="translator", mixer="fnet")
    yield translator, None, "fnet has no step form"
    yield replace(translator, settings={"decoder_mixer": "gru"}), None, ""


@pytest.mark.parametrize(("model", "parallel", "reason"), list(specs()))
def test_what_cannot_decode_says_why(
    model: ModelSpec, parallel: Parallel | None, reason: str
) -> None:
    assert Decode().why_not(model, parallel) == reason


def test_a_task_without_next_tokens_is_a_skipped_row() -> None:
    found = plan(
        make_ablation(
            baseline=Model(mixer="attention"),
            axes=[vary("mixer", ["attention", "conv"])],
            tasks=[TEXT, IMAGES],
            probes=["decode"],
        )
    )
    assert {trial.task for trial in found.trials} == {TEXT}
    reasons = {cell.reason for cell in found.cells if cell.task == IMAGES}
    assert reasons == {"a classifier does not write its own next token"}
    assert {trial.batch for trial in found.trials} == {1}


STEPPING = [name for name in MIXERS if mixer_class(name).supports_step]


@pytest.mark.parametrize("mixer", STEPPING)
def test_whoever_has_a_step_form_decodes(mixer: str) -> None:
    found = decode_step(alone(mixer), "cpu", 0)
    assert isinstance(found, Pass)
    found.run()


def test_a_step_is_taken_after_so_many_tokens_from_the_same_state_each_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lengths: list[int] = []
    original = Attention.step

    def noted(self: Attention, x_t: torch.Tensor, state: tuple[torch.Tensor, ...]) -> object:
        lengths.append(max(part.shape[-2] for part in state))
        assert not torch.is_grad_enabled()
        return original(self, x_t, state)

    monkeypatch.setattr(Attention, "step", noted)
    found = decode_step(alone("attention", 16), "cpu", 0)
    assert lengths[:16] == list(range(16))
    lengths.clear()
    assert isinstance(found, Pass)
    for _ in range(3):
        found.run()
    assert lengths == [16, 16, 16]


@pytest.mark.parametrize(
    ("mixer", "reason"),
    [
        ("fnet", "fnet has no causal form: each output"),
        (own(Unproven), "Unproven has no causal form: it does not declare supports_causal"),
        (own(Stepless), "Stepless has no step form"),
        (own(InPlace), "InPlace changes its state in place, so no step can be taken again"),
    ],
)
def test_who_cannot_is_skipped_with_the_reason(mixer: str, reason: str) -> None:
    found = decode_step(alone(mixer), "cpu", 0)
    assert isinstance(found, Missing)
    assert found.status is Status.SKIPPED
    assert reason in found.reason


def test_nothing_is_built_for_who_cannot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bakeoff.suite.probes.decode.built", lambda *_: pytest.fail("was built"))
    assert isinstance(decode_step(alone("fnet"), "cpu", 0), Missing)


def test_a_knob_that_forbids_the_causal_form_is_a_reason() -> None:
    found = decode_step(alone("lstm", is_unidirectional=True), "cpu", 0)
    assert isinstance(found, Missing)
    assert "is_unidirectional=True is for mixers that are not causal" in found.reason
