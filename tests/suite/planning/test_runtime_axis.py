"""Tests for the runtime as an axis: what a training runs, and what a timing compiles."""

from __future__ import annotations

import pytest

from bakeoff.suite.planning.plan import plan
from bakeoff.suite.schema import Trial
from bakeoff.suite.spec import Model, Recipe, SpecError, vary
from tests.suite.small_ablation import make_ablation

EACH_WAY = [vary("runtime", ["auto", "compiled"])]


def runtimes(trials: tuple[Trial, ...], probe: str) -> set[tuple[str, ...]]:
    return {
        tuple(model.runtime for model in trial.subjects) for trial in trials if trial.probe == probe
    }


def test_a_timing_compares_models_both_ways_and_a_training_runs_one() -> None:
    probes = ["quality", "step_time", "peak_memory"]
    found = plan(make_ablation(axes=EACH_WAY, probes=probes))
    assert found.about.variants == ("runtime=auto", "runtime=compiled")
    assert runtimes(found.trials, "step_time") == {("eager", "compiled")}
    assert runtimes(found.trials, "peak_memory") == {("eager",), ("compiled",)}
    assert runtimes(found.trials, "quality") == {("eager",)}
    trained = [t.training.runtime for t in found.trials if t.training]
    assert sorted(trained) == ["auto"] * 3 + ["compiled"] * 3


@pytest.mark.whole
def test_only_a_compiled_timing_has_an_id_of_its_own() -> None:
    def ids(probe: str, runtime: str) -> set[str]:
        scale = {"gpus": 1.0, "lengths": [8, 16]}
        found = plan(make_ablation(recipe=Recipe(runtime=runtime), probes=[probe], scale=scale))
        return {trial.trial_id for trial in found.trials}

    for probe in ("step_time", "mixer_time", "peak_memory"):
        assert ids(probe, "auto") == ids(probe, "eager") == ids(probe, "graph")
        assert not ids(probe, "auto") & ids(probe, "compiled")
    for probe in ("decode", "mixer_memory", "path_length", "parameters"):
        assert ids(probe, "auto") == ids(probe, "compiled")


def test_a_tuned_rate_and_a_start_are_trained_as_a_model_that_nothing_times() -> None:
    recipe = Recipe(runtime="compiled", learning_rate="tuned", start="shakespeare_tragedies")
    found = plan(make_ablation(recipe=recipe, scale={"steps": 20, "search_steps": 10}))
    every = [*found.trials, *(p for trial in found.trials for p in trial.parents.values())]
    assert {trial.probe for trial in every} >= {"quality", "learning_rate"}
    assert {model.runtime for trial in every for model in trial.subjects} == {"eager"}


def test_what_cannot_be_run_so_is_an_impossible_cell() -> None:
    reversible = Model(mixer="attention", residual="reversible")
    found = plan(make_ablation(baseline=reversible, axes=EACH_WAY))
    skipped = {cell.reason for cell in found.cells if cell.variant == "runtime=compiled"}
    assert skipped == {"residual='reversible' runs eagerly, not by runtime='compiled'"}
    with pytest.raises(SpecError, match="the baseline is impossible"):
        plan(make_ablation(baseline=reversible, recipe=Recipe(runtime="compiled")))


@pytest.mark.parametrize("name", ["compild", "cuda_graph"])
def test_an_unknown_runtime_is_refused_with_what_is_allowed(name: str) -> None:
    message = f"runtime='{name}': should be 'auto', 'eager', 'graph' or 'compiled'"
    with pytest.raises(SpecError, match=message):
        plan(make_ablation(axes=[vary("runtime", ["auto", name])]))


def test_a_setting_of_the_recipe_that_a_model_is_given_is_named_as_such() -> None:
    model = Model(mixer="attention", runtime="compiled")
    message = "'runtime' is a field of Recipe and Scale, not of Model"
    with pytest.raises(SpecError, match=message):
        plan(make_ablation(baseline=model))
