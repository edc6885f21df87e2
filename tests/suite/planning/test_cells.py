"""Tests for the trials that fill a table's cells, for each grain of probe."""

import pytest

from bakeoff.suite.planning.plan import plan
from bakeoff.suite.schema import Plan
from bakeoff.suite.spec import Ablation, vary
from tests.suite.small_ablation import make_ablation


def _models(found: Plan, probe_name: str) -> dict[str, set[str]]:
    """Return the mixers that the cells of the probe point at, by variant."""
    trials = {trial.trial_id: trial for trial in found.trials}
    models: dict[str, set[str]] = {}
    for cell in found.cells:
        if cell.probe == probe_name and not cell.reason:
            subject = trials[cell.trial_id].subjects[cell.subject]
            models.setdefault(cell.variant, set()).add(subject.mixer)
    return models


@pytest.fixture
def mixers() -> Ablation:
    return make_ablation(
        axes=[vary("mixer", ["lstm", "attention", "conv", "fnet"])],
        probes=["quality", "parameters", "step_time"],
    )


def test_every_cell_points_at_its_variants_model(mixers: Ablation) -> None:
    found = plan(mixers)
    for name in ("quality", "parameters", "step_time"):
        assert _models(found, name) == {
            f"mixer={mixer}": {mixer} for mixer in ("lstm", "attention", "conv")
        }


def test_the_grain_of_the_probe_decides_the_number_of_trials(mixers: Ablation) -> None:
    found = plan(mixers, seeds=3)
    counts = {
        name: sum(trial.probe == name for trial in found.trials)
        for name in ("quality", "parameters", "step_time")
    }
    assert counts == {"quality": 9, "parameters": 3, "step_time": 3}


def test_an_impossible_variant_has_a_cell_a_seed_and_no_trial(mixers: Ablation) -> None:
    found = plan(mixers, seeds=3)
    skipped = [cell for cell in found.cells if cell.variant == "mixer=fnet"]
    assert [(cell.probe, cell.seed) for cell in skipped] == [
        ("quality", 0),
        ("quality", 1),
        ("quality", 2),
        ("parameters", 0),
        ("step_time", 0),
        ("step_time", 1),
        ("step_time", 2),
    ]
    assert {cell.reason for cell in skipped} == {
        "fnet cannot be causal, and a language_model must be"
    }
    assert {cell.trial_id for cell in skipped}.isdisjoint(t.trial_id for t in found.trials)
    assert len({cell.trial_id for cell in skipped}) == len(skipped)


def test_a_comparison_takes_each_model_once_in_one_order(mixers: Ablation) -> None:
    backwards = (vary("mixer", ["fnet", "conv", "attention", "lstm"]),)
    orders = {
        tuple(model.mixer for model in trial.subjects)
        for ablation in (mixers, mixers.model_copy(update={"axes": backwards}))
        for trial in plan(ablation).trials
        if trial.probe == "step_time"
    }
    (order,) = orders
    assert sorted(order) == ["attention", "conv", "lstm"]


def test_variants_that_train_differently_share_one_timing() -> None:
    ablation = make_ablation(axes=[vary("learning_rate", [1e-3, 1e-2])], probes=["step_time"])
    found = plan(ablation, seeds=1)
    assert [len(trial.subjects) for trial in found.trials] == [1]
    assert {(cell.variant, cell.subject) for cell in found.cells} == {
        ("learning_rate=0.001", 0),
        ("learning_rate=0.01", 0),
    }


@pytest.mark.parametrize(("axis", "values"), [("length", [8, 16]), ("batch", [2, 4])])
def test_only_variants_on_one_footing_are_compared(axis: str, values: list[int]) -> None:
    found = plan(make_ablation(axes=[vary(axis, values)], probes=["step_time"]), seeds=1)
    assert sorted(getattr(trial, axis) for trial in found.trials) == values


def test_a_metric_is_at_the_length_of_its_variant() -> None:
    found = plan(make_ablation(axes=[vary("length", [8, 16])], probes=["flops"]))
    assert {cell.variant: cell.metrics[0].at for cell in found.cells} == {
        "length=8": "length=8",
        "length=16": "length=16",
    }


def test_a_trial_holds_no_training_where_none_is_done() -> None:
    ablation = make_ablation(probes=["quality", "parameters", "flops", "step_time"])
    settings = {
        trial.probe: (trial.training is not None, trial.batch)
        for trial in plan(ablation, seeds=1).trials
    }
    assert settings == {
        "quality": (True, 2),
        "parameters": (False, 1),
        "flops": (False, 1),
        "step_time": (False, 2),
    }


def test_versions_name_every_definition_that_moves_the_number(mixers: Ablation) -> None:
    named = {trial.probe: set(trial.versions) for trial in plan(mixers, seeds=1).trials}
    common = {
        "task shakespeare_characters",
        "skeleton language_model",
        "position sinusoidal",
    }
    assert named["step_time"] == common | {
        "probe step_time",
        "mixer attention",
        "mixer conv",
        "mixer lstm",
    }
    assert "training" not in named["parameters"]
    quality = plan(mixers.model_copy(update={"axes": (vary("mixer", ["attention"]),)}), seeds=1)
    assert set(quality.trials[0].versions) == common | {
        "probe quality",
        "mixer attention",
        "training",
    }
