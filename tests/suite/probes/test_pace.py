"""Test the timing that finds how many steps take as long as the training of the baseline."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import bakeoff
from bakeoff.models import MIXERS, mixer_class
from bakeoff.suite.planning.plan import plan
from bakeoff.suite.probes import pace
from bakeoff.suite.probes.pace import Pace
from bakeoff.suite.probes.probe import started
from bakeoff.suite.schema import TRAINING_STEPS, Plan, Trial
from bakeoff.suite.spec import Model, Recipe, Scale, SpecError, vary
from bakeoff.suite.training.engines.local import LocalEngine
from bakeoff.suite.training.loop import TrainingProgress, steps
from tests.suite.small_ablation import make_ablation

pytestmark = pytest.mark.whole

CAUSAL = [name for name in MIXERS if mixer_class(name).supports_causal]


def _planned(mixers: list[str], scale: Mapping[str, Any] = {}, **fields: Any) -> Plan:
    sizes = {"dim": 16, "depth": 1, "length": 16, "steps": 30, "batch": 4, "equal": "seconds"}
    small = Scale(**{**sizes, "num_evaluations": 2, "warmup_steps": 6, **scale})
    axes = [vary("mixer", ["attention", *mixers])]
    own = {"baseline": Model(mixer="attention", heads=4), "axes": axes, **fields}
    return plan(make_ablation(**own, scales={"quick": small}))


def _trials(planned: Plan, probe: str = "quality") -> dict[str, Trial]:
    """Return the trial of each variant, by label; with several seeds the last one."""
    by_id = {trial.trial_id: trial for trial in planned.trials}
    cells = (cell for cell in planned.cells if cell.probe == probe and not cell.reason)
    return {cell.variant: by_id[cell.trial_id] for cell in cells}


def _steps_found(trial: Trial) -> int:
    (value,) = (m.value for m in Pace().measure(trial, "cpu") if hasattr(m, "metric"))
    assert value is not None
    return round(value)


def test_a_variant_waits_for_its_timing_and_the_baseline_does_not() -> None:
    planned = _planned(["lstm", "mamba2"])
    timings = _trials(planned, "pace")
    trainings = _trials(planned)
    assert [*timings] == ["mixer=lstm", "mixer=mamba2"]
    assert trainings["mixer=attention"].pace is None
    for label, timing in timings.items():
        assert trainings[label].pace == timing
        assert timing.reference is not None
        assert timing.reference.trial_id == replace(trainings["mixer=attention"], seed=0).trial_id
    assert (
        trainings["mixer=attention"]
        == _trials(_planned(["lstm"], {"equal": "steps"}))["mixer=attention"]
    )


def test_the_id_holds_the_rule_and_not_the_number() -> None:
    training = _trials(_planned(["lstm"]))["mixer=lstm"]
    assert replace(training, found_steps=7).trial_id == training.trial_id
    assert replace(training, pace=None).trial_id != training.trial_id
    longer = _trials(_planned(["lstm"], {"steps": 60}))["mixer=lstm"]
    assert longer.pace is not None
    assert training.pace is not None
    assert longer.pace.trial_id != training.pace.trial_id


def test_the_training_has_the_steps_that_were_found_and_the_warm_up_its_share() -> None:
    training = replace(_trials(_planned(["lstm"]))["mixer=lstm"], found_steps=10).settled_training
    assert (training.steps, training.warmup_steps, training.num_evaluations) == (10, 2, 2)
    with pytest.raises(AssertionError):
        assert _trials(_planned(["lstm"]))["mixer=lstm"].settled_training


def test_a_step_that_takes_twice_as_long_gets_half_the_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 0.0

    def step(engine: LocalEngine, batch: object, task: object) -> torch.Tensor:
        nonlocal now
        now += 0.004 if engine.model.spec.mixer == "lstm" else 0.002
        return torch.zeros(())

    monkeypatch.setattr(LocalEngine, "step", step)
    monkeypatch.setattr(pace, "time", SimpleNamespace(perf_counter=lambda: now))
    timing = _trials(_planned(["lstm"], {"steps": 1_000}), "pace")["mixer=lstm"]
    assert _steps_found(timing) == 500


@pytest.mark.parametrize(
    ("noise", "steps", "least", "most"),
    [
        (0.0, 10_000, 16, 16),
        (0.06, 10_000, 100, 180),  # 1.96 x 0.06 / sqrt(138) = 0.01
        (0.3, 20_000, 256, 256),
        (0.3, 1_500, 30, 30),
        (0.3, 100, 16, 16),
    ],
)
def test_it_is_timed_until_the_ratio_is_known_or_the_baseline_trained(
    monkeypatch: pytest.MonkeyPatch, noise: float, steps: int, least: int, most: int
) -> None:
    num_timed = 0

    def seconds(training: object, num_steps: int, device: str) -> float:
        """Return 2 ms, and in turns of the variant a share between -noise and noise more."""
        nonlocal num_timed
        num_timed += 1
        is_own = num_timed > 4 and num_timed % 2
        evenly = 2 * (num_timed * (math.sqrt(5) - 1) / 4 % 1) - 1
        return 0.002 * math.exp(noise * evenly * is_own)

    monkeypatch.setattr(pace, "_seconds", seconds)
    timing = _trials(_planned(["lstm"], {"steps": steps}), "pace")["mixer=lstm"]
    assert _steps_found(timing) == pytest.approx(steps, rel=0.05)
    num_turns = (num_timed - 4) / 2  # without the warm-up, and the step that sets their length
    assert least <= num_turns <= most


def test_a_variant_of_another_batch_is_timed_as_it_trains() -> None:
    planned = _planned([], {"seeds": 1}, axes=[vary("batch", [4, 16])])
    (timing,) = _trials(planned, "pace").values()
    assert timing.reference is not None
    assert (timing.batch, timing.reference.batch) == (16, 4)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"recipe": Recipe(start="shakespeare_tragedies")}, "a pre-training"),
        ({"scale": {"zero": 1}}, "several workers"),
        (
            {
                "axes": [vary("adversarial_steps", [0, 2])],
                "baseline": Model("vit", mixer="attention", heads=4),
                "tasks": ["fashion_mnist_images"],
                "scale": {"length": 49},
            },
            "adversarial training, whose steps differ",
        ),
    ],
)
def test_settings_that_it_does_not_support_are_named(fields: dict[str, Any], reason: str) -> None:
    planned = _planned(["lstm"], **fields)
    (last,) = {cell.reason for cell in planned.cells if cell.reason}
    assert last == f"equal='seconds' is not supported with {reason}"


@pytest.mark.parametrize("equal", ["steps", "seconds"])
def test_an_ablation_that_names_the_probe_is_refused(equal: str) -> None:
    with pytest.raises(SpecError, match="'pace' runs by itself where equal='seconds'"):
        _planned(["lstm"], {"equal": equal}, probes=["pace"])


def test_a_sweep_trains_for_the_steps_that_were_found(tmp_path: Path) -> None:
    """The page and the results must show the number, which is not in the plan."""
    ablation = make_ablation(
        baseline=Model(mixer="attention", heads=4),
        axes=[vary("mixer", ["attention", "mamba2"])],
        tasks=["duplication"],  # few examples are scored
        probes=["quality", "flops"],
        scales={
            "quick": Scale(
                dim=16,
                depth=1,
                length=16,
                steps=40,
                batch=32,
                num_evaluations=1,
                seeds=2,
                equal="seconds",
            )
        },
    )
    outcome = bakeoff.run(ablation, out=tmp_path, executor="inline")
    rows = outcome.results
    (found,) = rows.loc[rows["metric"] == TRAINING_STEPS, "value"]
    assert 1 <= found < 40  # a step of Mamba-2 takes longer
    curves = bakeoff.curves(ablation, out=tmp_path)
    ends = curves.groupby(["variant", "seed"])["step"].max()
    assert {*ends["mixer=mamba2"]} == {found}
    assert {*ends["mixer=attention"]} == {40}
    page = (Path(outcome.report).parent / "report.md").read_text()
    assert "trains for as long as the baseline" in page
    assert f"{found:.0f}" in page
    assert "not yet measured" not in page  # attention needs no such number


@pytest.mark.timing
@pytest.mark.parametrize("mixer", [name for name in CAUSAL if name != "attention"])
def test_whole_trainings_take_the_time_of_the_baseline(mixer: str) -> None:
    planned = _planned([mixer], {"dim": 64, "depth": 2, "length": 64, "batch": 8, "steps": 1_000})
    trainings = _trials(planned)
    own = trainings[f"mixer={mixer}"]
    assert own.pace is not None
    own = replace(own, found_steps=_steps_found(own.pace))
    mine, theirs = _seconds_of((own, trainings["mixer=attention"]))
    print(f"{mixer}: {own.found_steps} steps, {mine / theirs:.3f} of the time")
    assert mine / theirs == pytest.approx(1, abs=0.05)


def _seconds_of(trials: Sequence[Trial]) -> list[float]:
    """Return the seconds of all steps of some trainings, without their starts and validation.

    They take turns of a fiftieth of their steps, so that other work on the machine slows all alike.
    """
    sizes = [trial.settled_training.steps for trial in trials]
    loops, spent = [_steps_of(trial) for trial in trials], [0.0] * len(trials)
    for turn in range(50):
        for place, (loop, num) in enumerate(zip(loops, sizes, strict=True)):
            begun = time.perf_counter()
            for _ in range(num * turn // 50, num * (turn + 1) // 50):
                while next(loop) is not None:
                    pass
            spent[place] += time.perf_counter() - begun
    return spent


def _steps_of(trial: Trial) -> Iterator[object]:
    begin = started(trial, "cpu", None)
    try:
        while True:
            next(begin)
    except StopIteration as ended:
        _, engine, todo = ended.value
    training = replace(todo.training, num_evaluations=1, steps=todo.training.steps + 1)
    return steps(engine, replace(todo, training=training), TrainingProgress())
