"""Tests for the runtime axis, which is part of the ids only where it is not eager."""

from __future__ import annotations

import pytest

from bakeoff.suite.planning.plan import plan
from bakeoff.suite.schema import Trial
from bakeoff.suite.spec import Model, SpecError, vary
from tests.suite.small_ablation import make_ablation

TEXT = "shakespeare_characters"
GPU = {"gpus": 1.0}


def runtimes(trials: tuple[Trial, ...]) -> set[str]:
    return {subject.runtime for trial in trials for subject in trial.subjects}


def test_an_axis_runs_the_model_each_way() -> None:
    axes = [vary("runtime", ["eager", "compiled"])]
    found = plan(make_ablation(axes=axes, probes=["quality", "step_time"]))
    assert found.about.variants == ("runtime=eager", "runtime=compiled")
    assert found.about.baseline == "runtime=eager"
    assert "runtime" not in found.about.model
    together = [trial for trial in found.trials if trial.probe == "step_time"]
    assert {tuple(m.runtime for m in trial.subjects) for trial in together} == {
        ("eager", "compiled")
    }
    alone = [trial.subjects[0].runtime for trial in found.trials if trial.probe == "quality"]
    assert sorted(alone) == ["compiled"] * 3 + ["eager"] * 3


def test_a_baseline_says_how_it_is_run_where_it_is_not_eager() -> None:
    found = plan(make_ablation(baseline=Model(mixer="attention", heads=4, runtime="compiled")))
    assert found.about.model["runtime"] == "compiled"
    assert runtimes(found.trials) == {"compiled"}


def test_a_mixer_alone_is_run_as_declared() -> None:
    found = plan(
        make_ablation(
            axes=[vary("runtime", ["eager", "compiled"])],
            probes=["path_length"],
            scale={"lengths": [8, 16]},
        )
    )
    assert [trial.subjects[0].runtime for trial in found.trials] == ["eager", "compiled"] * 2


@pytest.mark.parametrize("where", ["baseline", "axes"])
def test_an_unknown_runtime_is_refused_with_the_nearest(where: str) -> None:
    message = "no runtime 'compild'; did you mean 'compiled'. Allowed: compiled, eager"
    fields = {
        "baseline": Model(mixer="attention", heads=4, runtime="compild"),
        "axes": [vary("runtime", ["eager", "compild"])],
    }
    with pytest.raises(SpecError, match=message):
        plan(make_ablation(**{where: fields[where]}))


@pytest.mark.parametrize(
    ("mixer", "runtime", "scale", "reason"),
    [
        ("attention", "compiled", {"workers": 2, "zero": 1}, "DeepSpeed runs eagerly"),
    ],
)
def test_what_cannot_be_run_so_is_an_impossible_cell(
    mixer: str, runtime: str, scale: dict[str, float], reason: str
) -> None:
    ablation = make_ablation(
        baseline=Model(mixer=mixer), axes=[vary("runtime", ["eager", runtime])], scale=scale
    )
    found = plan(ablation)
    assert runtimes(found.trials) == {"eager"}
    skipped = [cell for cell in found.cells if cell.variant == f"runtime={runtime}"]
    assert skipped
    assert all(reason in cell.reason for cell in skipped)
    with pytest.raises(SpecError, match="the baseline is impossible"):
        plan(make_ablation(baseline=Model(mixer=mixer, runtime=runtime), scale=scale))


@pytest.mark.parametrize("where", ["baseline", "axes"])
def test_a_graph_is_not_a_runtime_any_more_and_the_message_says_what_is(where: str) -> None:
    message = r"timings are of CUDA graphs .*; set runtime='eager', or runtime='compiled'"
    fields = {
        "baseline": Model(mixer="attention", heads=4, runtime="cuda_graph"),
        "axes": [vary("runtime", ["eager", "cuda_graph"])],
    }
    with pytest.raises(SpecError, match=message):
        plan(make_ablation(**{where: fields[where]}, scale=GPU))


def test_memory_is_not_measured_where_it_would_be_missed() -> None:
    axes = [vary("runtime", ["eager", "compiled"])]
    probes, scale = ["peak_memory", "mixer_memory"], {**GPU, "lengths": [8]}
    found = plan(make_ablation(axes=axes, probes=probes, scale=scale))
    reasons = {(cell.probe, cell.variant): cell.reason for cell in found.cells if cell.reason}
    assert reasons == {
        ("mixer_memory", "runtime=compiled"): (
            "memory of a mixer alone is measured eagerly, not by runtime='compiled'"
        )
    }
