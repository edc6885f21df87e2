"""Test step time: variants are timed in turn, each with its own numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from bakeoff.models import build_model
from bakeoff.suite.planning.plan import plan
from bakeoff.suite.probes import step_time
from bakeoff.suite.probes.step_time import StepTime
from bakeoff.suite.schema import CONTROLS, Measurement, Status, Trial
from bakeoff.suite.spec import Ablation, Model, Scale, vary
from bakeoff.suite.tasks.batch import Batch
from bakeoff.suite.tasks.registry import task_class
from bakeoff.suite.timing.clock import CpuClock
from tests.suite.probes.conftest import TWO_WORKERS, by_subject

TRAINING, FORWARD, BACKWARD = (
    "training_step_seconds",
    "forward_seconds",
    "forward_backward_seconds",
)


pytestmark = [pytest.mark.usefixtures("brief"), pytest.mark.whole]


@pytest.fixture
def trial() -> Trial:
    ablation = Ablation(
        question="?",
        baseline=Model(mixer="attention"),
        axes=[vary("depth", [1, 2, 4])],
        tasks=["shakespeare_characters"],
        probes=["step_time"],
        scales={"quick": Scale(dim=8, depth=1, length=16, steps=5, batch=4, seeds=1)},
    )
    (only,) = plan(ablation).trials
    return only


def table(trial: Trial) -> dict[tuple[str, int], Measurement]:
    return by_subject(StepTime().measure(trial, "cpu"))


class OperationsClock(CpuClock):
    """A clock that counts torch operations, which does not depend on the machine's load."""

    def seconds(self, one_pass: Callable[[], object], num_passes: int) -> float:
        with Operations() as counted:
            one_pass()
        return counted.num_operations * 1e-6


class Operations(TorchDispatchMode):
    num_operations = 0

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        self.num_operations += 1
        return operation(*args, **(kwargs or {}))


@pytest.mark.slow
def test_more_is_more_work(trial: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_time, "clock_of", lambda device: OperationsClock())
    found = table(trial)
    for subject in range(3):
        forward, backward, step = (
            found[metric, subject].value or 0.0 for metric in (FORWARD, BACKWARD, TRAINING)
        )
        assert 1.3 * forward < backward < step
    for metric in (TRAINING, FORWARD, BACKWARD):
        values = [found[metric, subject].value or 0.0 for subject in range(3)]
        assert values[0] < values[1] < values[2]  # 1, 2 and 4 blocks


def test_tokens_a_second_follow_from_the_times(trial: Trial) -> None:
    found = table(trial)
    for time, rate in ((TRAINING, "training"), (FORWARD, "prefill")):
        for subject in range(3):
            timed, said = found[time, subject], found[f"{rate}_tokens_per_second", subject]
            assert said.value == pytest.approx(4 * 16 / (timed.value or 0.0))
            assert said.spread_low == pytest.approx(4 * 16 / (timed.spread_high or 0.0))
            assert (said.unit, said.better, said.status) == ("tokens/s", "higher", timed.status)


def test_on_a_gpu_each_step_has_its_share_of_the_matrix_peak(
    trial: Trial, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(step_time, "are_wanted", lambda device: True)
    through, sizes = Batch.through, set()

    def noted(batch: Batch, model: Any) -> Any:
        sizes.add(len(batch.targets))
        return through(batch, model)

    monkeypatch.setattr(Batch, "through", noted)
    said = [m for m in StepTime().measure(trial, "cpu") if isinstance(m, Measurement)]
    found = by_subject(m for m in said if m.at == "length=16")
    assert found["matrix_peak_flops_per_second", 0].value == 5e9
    share = "training_share_of_matrix_peak"
    for subject, spec in enumerate(trial.subjects):
        flops = 3 * build_model(spec).flops(length=16, batch=4)
        step, used = found[TRAINING, subject], found[share, subject]
        assert used.value == pytest.approx(100 * flops / 5e9 / (step.value or 0.0))
        assert (used.unit, used.at, used.status) == ("% of peak", "length=16", step.status)
    alone = by_subject(m for m in said if m.at == "length=16, batch=1")
    assert sizes == {4, 1}
    for subject in range(3):
        rate, time = (alone[name, subject] for name in ("prefill_tokens_per_second", FORWARD))
        assert rate.value == pytest.approx(16 / (time.value or 0.0))
    silent = {"mixer": "tests.suite.probes.no_formula:Silent", "knobs": {}}
    reading_both_ways = replace(trial.subjects[0], architecture="masked_language_model", **silent)
    other = replace(trial, subjects=(reading_both_ways,))
    counted = step_time._share(other, step_time.Peaks(5e9, 7e9), found[TRAINING, 0])
    assert (counted.value or 0) > 0


def test_every_subject_has_its_times_and_the_first_one_the_controls(trial: Trial) -> None:
    found = table(trial)
    announced = StepTime().metrics(task_class(trial.task), trial.length)
    for spec in announced:
        for subject in range(3):
            said = found[spec.name, subject]
            assert (said.unit, said.better, said.at) == (spec.unit, spec.better, "length=16")
            assert said.status is Status.OK
            assert (1e-5 if spec.unit == "s" else 1.0) < (said.value or 0.0)
    assert {metric for metric, _ in found} - {spec.name for spec in announced} <= CONTROLS
    ratios = {"baseline_again_ratio", "baseline_slowed_ratio"}
    assert {subject for metric, subject in found if metric in ratios} == {0}
    for metric in ratios:
        # no stronger claim: six samples on a busy machine
        assert (found[metric, 0].value or 0.0) > 0.0
        assert (found[metric, 0].unit, found[metric, 0].at) == ("1", "length=16")


def test_parameters_move_in_what_is_timed_however_many_steps_there_are(
    trial: Trial, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check the parameters, since a forward-only step would go unnoticed at a third of the time.

    A learning rate that has decayed to zero would time a different step.
    """
    engines = []
    original = step_time.LocalEngine

    def noted(*arguments: object) -> object:
        engine = original(*arguments)  # type: ignore[arg-type]
        before = [p.detach().clone() for p in engine.model.parameters()]
        engines.append((engine, before))
        return engine

    monkeypatch.setattr(step_time, "LocalEngine", noted)
    table(trial)
    assert len(engines) == 4  # three subjects, and the first one a second time
    for engine, before in engines:
        after = list(engine.model.parameters())
        assert not any(torch.equal(a, b) for a, b in zip(after, before, strict=True))
        assert engine.schedule.get_last_lr()[0] > 0.9e-3


def test_variants_meet_the_same_batches_in_the_same_order(
    trial: Trial, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[int, list[float]] = {}
    original = step_time.LocalEngine.step

    def noted(engine: step_time.LocalEngine, batch: Any, task: object) -> object:
        seen.setdefault(id(engine), []).append(float(batch.inputs["inputs"].sum()))
        return original(engine, batch, task)  # type: ignore[arg-type]

    monkeypatch.setattr(step_time.LocalEngine, "step", noted)
    monkeypatch.setattr(step_time, "_NUM_BATCHES", 3)  # a slow machine completes few steps
    table(trial)
    shortest = min(map(len, seen.values()))
    assert len(seen) == 4
    assert shortest > 3
    assert len({tuple(sums[:shortest]) for sums in seen.values()}) == 1
    first = next(iter(seen.values()))
    assert len(set(first[:3])) > 1
    assert first[3] == first[0]


def test_workers_are_not_its_business() -> None:
    assert "data_parallel" in StepTime().why_not(None, TWO_WORKERS)  # type: ignore[arg-type]
    assert StepTime().version == 2
