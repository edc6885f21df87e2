"""Tests for equal budgets: as many FLOPs, tokens or parameters as the baseline, over all mixers."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from bakeoff.models import MIXERS, build_model, mixer_class
from bakeoff.suite.planning.budgets import TOLERANCE, spending_of
from bakeoff.suite.planning.plan import plan
from bakeoff.suite.probes.probe import forward_flops, lengths_of
from bakeoff.suite.schema import Plan, Trial
from bakeoff.suite.spec import Axis, Model, Recipe, Scale, SpecError, vary
from bakeoff.suite.training.engines.engine import num_trained
from tests.suite.small_ablation import make_ablation

pytestmark = pytest.mark.whole

TEXT, LISTS, PAIRS = "shakespeare_characters", "listops", "mqar_small"
CAUSAL = [name for name in MIXERS if mixer_class(name).supports_causal]
OTHERS = ["attention", *(name for name in MIXERS if name not in CAUSAL)]
ATTENTION = Model(mixer="attention", heads=4)
within = partial(pytest.approx, rel=TOLERANCE)


def _planned(axes: Sequence[Axis], scale: str = "quick", **fields: Any) -> Plan:
    sizes = {"dim": 64, "depth": 2, "length": 64, "steps": 1_000, "batch": 16, "seeds": 1}
    of_scale = {name: fields.pop(name) for name in Scale.model_fields.keys() & fields.keys()}
    small = Scale(**{**sizes, **of_scale})
    fields = {"baseline": ATTENTION, **fields, "scales": {"quick": small, "smoke": small}}
    return plan(make_ablation(axes=axes, **fields), scale=scale)


def _trainings(found: Plan) -> dict[str, Trial]:
    """Return the training of each variant that can run, by label."""
    trials = {trial.trial_id: trial for trial in found.trials}
    cells = (cell for cell in found.cells if cell.probe == "quality" and not cell.reason)
    return {cell.variant: trials[cell.trial_id] for cell in cells}


def _reasons(found: Plan) -> dict[str, str]:
    return {cell.variant: cell.reason for cell in found.cells if cell.reason}


def _steps(trial: Trial) -> int:
    assert trial.training is not None
    return trial.training.steps


def _flops(trial: Trial) -> float:
    """Return the forward FLOPs of a training, counted without the code under test."""
    one = forward_flops(trial.subjects[0], trial.batch, lengths_of(trial))
    return _steps(trial) * one


def _size(trial: Trial) -> int:
    return num_trained(build_model(trial.subjects[0]))


@pytest.mark.parametrize(("task", "mixers"), [(TEXT, CAUSAL), (LISTS, OTHERS)])
def test_all_mixers_get_the_flops_of_the_baseline(task: str, mixers: list[str]) -> None:
    found = _planned([vary("mixer", mixers)], tasks=[task], equal="flops")
    trainings = _trainings(found)
    assert list(trainings) == [f"mixer={name}" for name in mixers]
    budget = _flops(trainings["mixer=attention"])
    assert {label: _flops(trial) for label, trial in trainings.items()} == dict.fromkeys(
        trainings, within(budget)
    )
    assert len({*map(_steps, trainings.values())}) > 5
    assert {trial.subjects[0].dim for trial in trainings.values()} == {64}


@pytest.mark.parametrize(("task", "mixers"), [(TEXT, CAUSAL), (LISTS, OTHERS)])
def test_all_mixers_get_the_parameters_of_the_baseline(task: str, mixers: list[str]) -> None:
    found = _planned([vary("mixer", mixers)], tasks=[task], equal="parameters")
    trainings = _trainings(found)
    assert list(trainings) == [f"mixer={name}" for name in mixers]
    budget = _size(trainings["mixer=attention"])
    assert {label: _size(trial) for label, trial in trainings.items()} == dict.fromkeys(
        trainings, within(budget)
    )
    ratios = [trial.subjects[0].settings.get("feed_forward_ratio") for trial in trainings.values()]
    assert len({*ratios}) > 5
    assert {_steps(trial) for trial in trainings.values()} == {1_000}


def test_a_plan_of_equal_steps_does_not_depend_on_the_field() -> None:
    axes = [vary("mixer", ["attention", "lstm"])]
    assert _planned(axes).trials == _planned(axes, equal="steps").trials


def test_the_baseline_is_the_same_trial_at_each_budget() -> None:
    budgets = ["steps", "flops", "parameters", "tokens"]
    found = _planned(
        [vary("mixer", ["attention", "lstm"]), vary("equal", budgets)], combine="cross"
    )
    ids = {label: trial.trial_id for label, trial in _trainings(found).items()}
    assert len({ids[f"mixer=attention, equal={each}"] for each in budgets}) == 1
    of_lstm = {each: ids[f"mixer=lstm, equal={each}"] for each in budgets}
    assert of_lstm["tokens"] == of_lstm["steps"]
    assert len({*of_lstm.values()}) == 3


def test_a_variant_of_other_sequences_and_batches_trains_on_as_many_tokens() -> None:
    axes = [vary("length", [32, 64, 128]), vary("batch", [12, 16])]
    found = _planned(axes, combine="cross", equal="tokens", warmup_steps=100, seeds=1)
    trainings = _trainings(found)
    tokens = {n: t.length * t.batch * _steps(t) for n, t in trainings.items()}
    assert tokens == dict.fromkeys(trainings, within(64 * 16 * 1_000))
    assert _steps(trainings["length=32, batch=12"]) == 2_667
    longest = trainings["length=128, batch=16"].training
    assert longest is not None
    assert (longest.steps, longest.warmup_steps) == (500, 50)  # the warm-up keeps its share


def test_flops_count_the_passes_of_a_recipe() -> None:
    found = _planned([vary("scheduled_sampling", [0.0, 0.5])], tasks=["reversal"], equal="flops")
    steps = {label: _steps(trial) for label, trial in _trainings(found).items()}
    # A pass forward comes before forward and backward, which together cost three.
    assert steps == {"scheduled_sampling=0.0": 1_000, "scheduled_sampling=0.5": 750}


def test_an_axis_of_steps_sets_the_budget() -> None:
    axes = [vary("mixer", ["attention", "lstm"]), vary("steps", [500, 1_000])]
    trainings = _trainings(_planned(axes, combine="cross", equal="flops"))
    for steps in (500, 1_000):
        budget = _flops(trainings[f"mixer=attention, steps={steps}"])
        assert _flops(trainings[f"mixer=lstm, steps={steps}"]) == within(budget)
    assert _steps(trainings["mixer=attention, steps=500"]) == 500


def test_a_search_for_the_learning_rate_is_as_long_in_proportion() -> None:
    fields: dict[str, Any] = {"recipe": Recipe(learning_rate="tuned", search_steps=200)}
    found = _planned([vary("mixer", ["attention", "mamba2"])], equal="flops", **fields)
    for trial in _trainings(found).values():
        assert trial.search is not None
        assert _steps(trial.search) == pytest.approx(_steps(trial) / 5, abs=1)


def test_pre_training_has_the_model_of_the_variant_and_the_steps_of_all() -> None:
    axes = [vary("mixer", ["attention", "lstm"])]
    recipe = Recipe(start="shakespeare_tragedies", pretraining_steps=300)
    for equal in ("flops", "parameters"):
        trainings = _trainings(_planned(axes, equal=equal, recipe=recipe))
        for trial in trainings.values():
            assert trial.start is not None
            assert _steps(trial.start) == 300
            assert trial.start.subjects[0].settings == trial.subjects[0].settings


def test_a_model_without_a_feed_forward_gets_another_width_that_its_heads_divide() -> None:
    model = Model(mixer="attention", heads=1, feed_forward="none")
    mixers = ["attention", "gated_delta", "lstm"]
    found = _planned(
        [vary("mixer", mixers)], tasks=[PAIRS], baseline=model, equal="parameters", dim=256
    )
    trainings = _trainings(found)
    budget = _size(trainings["mixer=attention"])
    assert _size(trainings["mixer=lstm"]) == within(budget)
    assert trainings["mixer=lstm"].subjects[0].dim < 256


def test_a_size_that_cannot_be_reached_is_a_row_with_its_reason() -> None:
    model = Model(mixer="attention", heads=8, feed_forward="none")
    found = _planned([vary("mixer", ["attention", "mamba2"])], baseline=model, equal="parameters")
    (reason,) = {*_reasons(found).values()}
    assert reason.startswith("it has ")
    assert "the nearest to the baseline's 38,336 that its widths allow" in reason
    assert list(_trainings(found)) == ["mixer=attention"]


def test_widths_that_an_axis_sets_stay() -> None:
    axes = [vary("mixer", ["attention", "lstm"]), vary("dim", [32, 64])]
    found = _planned(axes, combine="cross", equal="parameters")
    for label, trial in _trainings(found).items():
        assert f"dim={trial.subjects[0].dim}" in label
    plain = Model(mixer="attention", heads=4, feed_forward="none")
    found = _planned([vary("dim", [32, 64])], baseline=plain, equal="parameters")
    assert _reasons(found)["dim=32"].endswith("; an axis sets dim")


def test_too_few_steps_are_refused_except_at_smoke() -> None:
    axes = [vary("mixer", ["attention", "mamba2"])]
    found = _planned(axes, equal="flops", steps=20)
    (reason,) = {*_reasons(found).values()}
    assert reason.startswith("13 steps are 2.5 % above the baseline's flops")
    assert reason.endswith("take more steps")
    shown = _planned(axes, "smoke", equal="flops", steps=20)
    assert [_steps(trial) for trial in _trainings(shown).values()] == [20, 13]


def test_a_budget_alone_is_not_an_axis() -> None:
    with pytest.raises(SpecError, match="the axis 'equal' has no effect"):
        _planned([vary("equal", ["steps", "flops"])])


def test_another_word_is_refused_with_those_that_are_allowed() -> None:
    with pytest.raises(
        SpecError, match="should be 'steps', 'flops', 'tokens', 'parameters' or 'seconds'"
    ):
        Scale(dim=8, depth=1, length=8, steps=8, batch=2, equal="flop")  # type: ignore[arg-type]
    with pytest.raises(SpecError, match="equal='flop'"):
        _planned([vary("mixer", ["attention", "lstm"]), vary("equal", ["steps", "flop"])])


def test_spending_is_that_of_forward_and_backward() -> None:
    (trial, *_) = _trainings(_planned([vary("mixer", ["attention", "lstm"])])).values()
    said = spending_of(trial)
    assert said.num_steps == 1_000
    assert said.num_parameters == _size(trial)
    assert said.training_flops == pytest.approx(3 * _flops(trial))


MINE = '''
import torch
from torch import nn
from bakeoff.models import Mixer

class Counted(Mixer):
    """A gate of each token."""

    supports_causal = True

    def make_parameters(self, config):
        self.gate = nn.Linear(self.dim, self.dim)

    def forward(self, x, mask=None, context=None, context_mask=None):
        return x * self.gate(x).sigmoid()

class Uncounted(Counted):
    """A gate, and an operation of unknown cost."""

    def forward(self, x, mask=None, context=None, context_mask=None):
        return torch.linalg.matrix_exp(torch.diag_embed(x)).diagonal(dim1=-2, dim2=-1)
'''


def test_flops_of_own_mixers_without_a_formula_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_gates.py").write_text(MINE)
    monkeypatch.syspath_prepend(tmp_path)
    mixers = ["attention", "own_gates:Counted", "own_gates:Uncounted"]
    found = _planned([vary("mixer", mixers)], equal="flops", dim=32)
    of_attention, of_mine = _trainings(found).values()
    # Of 12 d^2 parameters and the scores, attention alone has 4 d^2 and the scores, a gate has d^2.
    assert _steps(of_mine) > 1.2 * _steps(of_attention)
    assert _flops(of_mine) == within(_flops(of_attention))
    (reason,) = {*_reasons(found).values()}
    assert reason.startswith("its FLOPs cannot be counted: ")
    assert "matrix_exp" in reason
