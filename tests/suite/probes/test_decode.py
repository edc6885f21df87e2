"""The next token of a language model: of which state, for which models, in which rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from models import ModelSpec
from models.architectures.language_model import DecodingState, LanguageModel
from models.mixer import State
from models.mixers.gru import GRU
from suite.planning.plan import plan
from suite.probes.decode import METRIC, Decode, next_token
from suite.schema import CONTROLS, Measurement, Parallel, Status, Trial
from suite.spec import Model, vary
from suite.tasks.registry import task_class
from suite.timing.comparison import TimingComparison
from suite.timing.passes import Missing, Pass
from suite.timing.stopping import Limits
from tests.suite.conftest import MakeAblation

TEXT, IMAGES = "shakespeare_characters", "fashion_mnist_patches"
LENGTH = 8


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture
def trial(make_ablation: MakeAblation) -> Trial:
    ablation = make_ablation(axes=[vary("mixer", ["attention", "gru"])], probes=["decode"])
    found = plan(ablation, seeds=1).trials
    assert len(found) == 1
    return found[0]


def measured(trial: Trial, monkeypatch: pytest.MonkeyPatch) -> list[Measurement]:
    """In a moment: what the instrument says of its numbers is not asked here."""
    short = Limits(
        least_sample=1e-6, least_rounds=3, least_seconds=0.0, seconds=0.05, patience=1.0,
        warm_up_rounds=1, warm_up_seconds=0.0, most_warm_up_seconds=0.05, most_cores=1e9,
    )  # fmt: skip
    monkeypatch.setattr(
        "suite.probes.decode.Comparison", lambda **parts: TimingComparison(**parts, limits=short)
    )
    return [said for said in Decode().measure(trial, "cpu") if isinstance(said, Measurement)]


def test_every_variant_has_a_time_and_the_first_has_controls(
    trial: Trial, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = measured(trial, monkeypatch)
    times = [each for each in found if each.metric == METRIC]
    assert [each.subject for each in times] == [0, 1]
    (announced,) = Decode().metrics(task_class(TEXT), LENGTH)
    for each in times:
        assert (each.unit, each.better, each.at) == (
            announced.unit, announced.better, announced.at,
        )  # fmt: skip
        assert each.value is not None
        assert 0 < each.value < 1
    controls = [each for each in found if each.metric != METRIC]
    assert {each.metric for each in controls} <= CONTROLS
    ratios = {each.metric: each.subject for each in controls if each.metric.endswith("_ratio")}
    assert ratios == {"baseline_again_ratio": 0, "baseline_slowed_ratio": 0}


def test_it_times_the_last_token_after_all_others(
    trial: Trial, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[DecodingState] = []
    step = LanguageModel.step

    def noted(
        model: LanguageModel, tokens: Tensor, state: DecodingState
    ) -> tuple[Tensor, DecodingState]:
        assert tokens.shape == (1,)
        assert not model.training
        assert not torch.is_grad_enabled()
        seen.append(state)
        return step(model, tokens, state)

    monkeypatch.setattr(LanguageModel, "step", noted)
    timed = next_token(trial.subjects[0], "cpu", seed=0)
    assert isinstance(timed, Pass)
    assert [state.num_tokens for state in seen][: LENGTH - 1] == list(range(LENGTH - 1))
    seen.clear()
    for _ in range(3):
        timed.run()
    assert [state.num_tokens for state in seen] == [LENGTH - 1] * 3


def test_a_state_that_changes_in_place_is_not_timed(
    trial: Trial, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = GRU.step

    def in_place(mixer: GRU, x_t: Tensor, state: State) -> tuple[Tensor, State]:
        output, new = step(mixer, x_t, state)
        state[0].copy_(new[0])
        return output, state

    monkeypatch.setattr(GRU, "step", in_place)
    timed = next_token(trial.subjects[1], "cpu", seed=0)
    assert isinstance(timed, Missing)
    assert timed.status is Status.SKIPPED
    assert "gru changes its state in place" in timed.reason


def specs() -> Iterator[tuple[ModelSpec, Parallel | None, str]]:
    model = ModelSpec(
        skeleton="language_model", mixer="attention", knobs={}, position="none", dim=16, depth=1,
        length=LENGTH, input_kind="tokens", input_size=11, output_size=11,
    )  # fmt: skip
    spread = Parallel(workers=2, zero=0, precision="float32", accumulation=1)
    yield model, None, ""
    yield model, spread, "decode times one process, without DeepSpeed"
    classifier = replace(model, skeleton="classifier")
    yield classifier, None, "a classifier does not write its own next token"
    masked = replace(model, skeleton="masked_language_model")
    yield masked, None, "a masked_language_model does not write its own next token"
    yield replace(model, mixer="fnet"), None, "fnet has no step form"
    compiled = replace(model, runtime="compiled")
    yield compiled, None, "decoding runs eagerly, not by runtime='compiled'"


@pytest.mark.parametrize(("model", "parallel", "reason"), list(specs()))
def test_what_cannot_decode_says_why(
    model: ModelSpec, parallel: Parallel | None, reason: str
) -> None:
    assert Decode().why_not(model, parallel) == reason


def test_a_task_without_next_tokens_is_a_skipped_row(make_ablation: MakeAblation) -> None:
    found = plan(
        make_ablation(
            baseline=Model(mixer="attention"), axes=[vary("mixer", ["attention", "conv"])],
            tasks=[TEXT, IMAGES], probes=["decode"],
        )
    )  # fmt: skip
    assert {trial.task for trial in found.trials} == {TEXT}
    reasons = {cell.reason for cell in found.cells if cell.task == IMAGES}
    assert reasons == {"a classifier does not write its own next token"}
    assert {trial.batch for trial in found.trials} == {1}
