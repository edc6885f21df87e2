"""Step time: every variant in turn, each with a number of its own."""

from __future__ import annotations

import statistics
from collections.abc import Callable

import pytest
import torch

from suite.planning import plan
from suite.probes import step_time
from suite.probes.step_time import StepTime
from suite.schema import Measurement, ModelSpec, Trial
from suite.spec import Ablation, Model, Scale, vary
from suite.tasks.registry import task_class
from suite.tasks.task import Batch, Task


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture
def trial() -> Trial:
    ablation = Ablation(
        question="?", baseline=Model(mixer="attention"), axes=[vary("depth", [1, 2, 4])],
        tasks=["shakespeare_characters"], probes=["step_time"],
        scales={"quick": Scale(dim=8, depth=1, length=16, steps=5, batch=4, seeds=1)},
    )  # fmt: skip
    (only,) = plan(ablation).trials
    return only


def measured(trial: Trial) -> list[Measurement]:
    return [said for said in StepTime().measure(trial, "cpu") if isinstance(said, Measurement)]


class _Scripted:
    """A clock and steppers under control: subject i takes the i-th number of seconds a step."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, seconds: list[float]) -> None:
        self.now, self.seconds, self.made = 0.0, seconds, 0
        self.order: list[int] = []
        monkeypatch.setattr(step_time, "_stepper", self.stepper)
        monkeypatch.setattr("suite.probes.step_time.time.perf_counter", lambda: self.now)

    def stepper(
        self, spec: ModelSpec, trial: Trial, task: Task, device: str
    ) -> Callable[[Batch], object]:
        index, self.made = self.made, self.made + 1

        def step(batch: Batch) -> None:
            first = self.order.count(index) < 2
            self.now += 100.0 if first else self.seconds[index]  # warming up is slow
            self.order.append(index)

        return step


def test_variants_take_turns_and_warming_up_does_not_count(
    trial: Trial, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = _Scripted(monkeypatch, [0.5, 0.25, 2.0])
    found = measured(trial)
    rounds = len(script.order) // 3
    assert script.order == [0, 1, 2] * rounds
    assert rounds >= 7
    assert [m.subject for m in found] == [0, 1, 2]
    assert [m.value for m in found] == [0.5, 0.25, 2.0]
    assert [(m.spread_low, m.spread_high) for m in found] == [(v, v) for v in (0.5, 0.25, 2.0)]


def test_the_spread_is_that_of_the_samples(trial: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    growing = iter(range(1, 1000))
    monkeypatch.setattr(step_time, "_seconds", lambda step, batch, device: next(growing))
    samples = range(1, 12 * 3, 3)[2:11]  # of the first of three subjects, less two rounds
    low, median, high = statistics.quantiles(samples, n=4, method="inclusive")
    first = measured(trial)[0]
    assert (first.spread_low, first.value, first.spread_high) == (low, median, high)


def test_every_subject_is_timed_for_real_and_more_depth_takes_longer(trial: Trial) -> None:
    found = measured(trial)
    values = [m.value for m in found]
    assert len(values) == len(trial.subjects) == 3
    assert all(value is not None and 1e-5 < value < 5 for value in values)
    assert values[0] < values[2]  # type: ignore[operator]  # 1 block against 4
    for m in found:
        assert m.spread_low is not None
        assert m.spread_high is not None
        assert m.value is not None
        assert m.spread_low <= m.value <= m.spread_high


def test_what_is_measured_is_what_was_announced(trial: Trial) -> None:
    (spec,) = StepTime().metrics(task_class(trial.task), trial.length)
    for found in measured(trial):
        assert (spec.name, spec.unit, spec.better, spec.at) == (
            found.metric, found.unit, found.better, found.at,
        )  # fmt: skip


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
    measured(trial)
    assert len(engines) == 3
    for engine, before in engines:
        after = list(engine.model.parameters())
        assert not any(torch.equal(a, b) for a, b in zip(after, before, strict=True))
