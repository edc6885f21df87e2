"""Step time: every variant in turn, each with numbers of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from suite.planning.plan import plan
from suite.probes import step_time
from suite.probes.step_time import StepTime
from suite.schema import CONTROLS, Measurement, Status, Trial
from suite.spec import Ablation, Model, Scale, vary
from suite.tasks.registry import task_class
from suite.timing.clock import CpuClock
from suite.timing.comparison import TimingComparison
from suite.timing.stopping import Limits

BRIEF = Limits(
    seconds=0.1, patience=10.0, stretch=0.02, warm_up_seconds=0.0, most_warm_up_seconds=0.05,
    half_width=100.0, most_half_width=100.0, least_rounds=6, least_seconds=0.0, least_sample=0.0,
)  # fmt: skip
TRAINING, FORWARD, BACKWARD = (
    "training_step_seconds", "forward_seconds", "forward_backward_seconds",
)  # fmt: skip


@pytest.fixture(autouse=True)
def _in_brief(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def brief(**fields: object) -> TimingComparison:
        return TimingComparison(**{**fields, "limits": BRIEF, "read_times": lambda: None})  # type: ignore[arg-type]

    monkeypatch.setattr(step_time, "TimingComparison", brief)
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def trial() -> Trial:
    ablation = Ablation(
        question="?", baseline=Model(mixer="attention"), axes=[vary("depth", [1, 2, 4])],
        tasks=["shakespeare_characters"], probes=["step_time"],
        scales={"quick": Scale(dim=8, depth=1, length=16, steps=5, batch=4, seeds=1)},
    )  # fmt: skip
    (only,) = plan(ablation).trials
    return only


def table(trial: Trial) -> dict[tuple[str, int], Measurement]:
    found = [m for m in StepTime().measure(trial, "cpu") if isinstance(m, Measurement)]
    assert len({(m.metric, m.subject) for m in found}) == len(found)
    return {(m.metric, m.subject): m for m in found}


class OperationsClock(CpuClock):
    """Says how many operations of torch a pass makes, which no busy machine changes."""

    def seconds(self, one_pass: Callable[[], object], num_passes: int) -> float:
        with Operations() as counted:
            one_pass()
        return counted.num_operations * 1e-6


class Operations(TorchDispatchMode):
    num_operations = 0

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        self.num_operations += 1
        return operation(*args, **(kwargs or {}))


def test_every_subject_is_timed_for_real(trial: Trial) -> None:
    found = table(trial)
    for metric in (TRAINING, FORWARD, BACKWARD):
        assert all(1e-5 < (found[metric, subject].value or 0.0) < 5 for subject in range(3))


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


def test_what_is_measured_is_what_was_announced(trial: Trial) -> None:
    announced = StepTime().metrics(task_class(trial.task), trial.length)
    found = table(trial)
    for spec in announced:
        for subject in range(3):
            said = found[spec.name, subject]
            assert (said.unit, said.better, said.at) == (spec.unit, spec.better, spec.at)
            assert said.at == "length=16"
            assert said.status is Status.OK
    others = {metric for metric, _ in found} - {spec.name for spec in announced}
    assert others <= CONTROLS


def test_controls_are_of_the_training_step_and_beside_the_first(trial: Trial) -> None:
    found = table(trial)
    ratios = {"baseline_again_ratio", "baseline_slowed_ratio"}
    assert {subject for metric, subject in found if metric in ratios} == {0}
    for metric in ratios:
        assert (found[metric, 0].value or 0.0) > 0.0  # six samples on a busy machine: no more
        assert found[metric, 0].unit == "1"
        assert found[metric, 0].at == "length=16"


def test_parameters_really_move_in_what_is_timed(
    trial: Trial, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step that only runs forward would be a third as long and nobody would see it."""
    engines = []
    original = step_time.LocalEngine

    def noted(*arguments: object) -> object:
        engine = original(*arguments)  # type: ignore[arg-type]
        before = [p.detach().clone() for p in engine.model.parameters()]
        engines.append((engine, before))
        return engine

    monkeypatch.setattr(step_time, "LocalEngine", noted)
    table(trial)
    assert len(engines) == 4  # three subjects, and the first one again
    for engine, before in engines:
        after = list(engine.model.parameters())
        assert not any(torch.equal(a, b) for a, b in zip(after, before, strict=True))


def test_steps_keep_training_however_many_there_are(
    trial: Trial, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rate that has fallen to nothing would leave another step to time."""
    engines = []
    original = step_time.LocalEngine
    monkeypatch.setattr(
        step_time, "LocalEngine", lambda *a: engines.append(original(*a)) or engines[-1]
    )
    table(trial)
    for engine in engines:
        assert engine.schedule.get_last_lr()[0] > 0.9e-3


def test_variants_meet_the_same_batches_in_the_same_order(
    trial: Trial, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[int, list[float]] = {}
    original = step_time.LocalEngine.step

    def noted(engine: step_time.LocalEngine, batch: object, task: object) -> object:
        seen.setdefault(id(engine), []).append(float(batch.inputs.sum()))  # type: ignore[attr-defined]
        return original(engine, batch, task)  # type: ignore[arg-type]

    monkeypatch.setattr(step_time.LocalEngine, "step", noted)
    monkeypatch.setattr(step_time, "_NUM_BATCHES", 3)  # a slow machine takes few steps in its time
    table(trial)
    shortest = min(map(len, seen.values()))
    assert len(seen) == 4
    assert shortest > 3
    assert len({tuple(sums[:shortest]) for sums in seen.values()}) == 1
    first = next(iter(seen.values()))
    assert len(set(first[:3])) > 1
    assert first[3] == first[0]


def test_workers_are_not_its_business() -> None:
    from suite.schema import Parallel

    parallel = Parallel(workers=2, zero=0, precision="float32", accumulation=1)
    assert "data_parallel" in StepTime().why_not(None, parallel)  # type: ignore[arg-type]
    assert StepTime().version == 2
