"""Test the timing of mixers: what is timed, which controls accompany it, the rows it writes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
import torch
from torch import nn

from bakeoff.models import ModelSpec
from bakeoff.suite.events import Condition
from bakeoff.suite.probes import mixer_time
from bakeoff.suite.probes.mixer_time import DECODE, FORWARD, MAIN, MixerTime
from bakeoff.suite.schema import CONTROLS, Measurement, Status, Trial, is_launched
from bakeoff.suite.timing.comparison import Disproved
from bakeoff.suite.timing.kernels import QUADRATIC
from bakeoff.suite.timing.passes import Pass
from tests.suite.probes.conftest import by_subject
from tests.suite.timing.subjects import Hungry, Unproven, Wrong, alone, own, trial_of

pytestmark = pytest.mark.whole

Table = Callable[..., dict[tuple[str, int], Measurement]]


@pytest.fixture
def table(brief: None) -> Table:
    def of(*subjects: ModelSpec) -> dict[tuple[str, int], Measurement]:
        found = by_subject(MixerTime().measure(trial_of(*subjects), "cpu"))
        assert all(m.at == "" for m in found.values())  # the coordinate belongs to the cell
        return found

    return of


def test_every_subject_has_its_times_and_the_first_one_the_controls(table: Table) -> None:
    found = table(alone("attention", 64), alone("lstm", 64))
    announced = {spec.name for spec in MixerTime().metrics(None, 64)}
    assert announced == {MAIN, FORWARD, DECODE}
    for metric in announced:
        for subject in (0, 1):
            said = found[metric, subject]
            assert said.status is Status.OK, said
            assert said.value is not None
            assert said.spread_low is not None
            assert said.spread_high is not None
            assert 1e-6 < said.spread_low <= said.value <= said.spread_high < 1
            assert (said.unit, said.better) == ("s", "lower")
    of_each = {"num_samples", "mild_outliers", "severe_outliers", "first_call_seconds"}
    controls = {(metric, subject) for metric, subject in found if metric not in announced}
    assert {metric for metric, subject in controls if subject == 1} == of_each
    of_cpu = {metric for metric in CONTROLS if not is_launched(metric)}
    assert {metric for metric, subject in controls if subject == 0} == of_cpu
    assert found["matrix_peak_flops_per_second", 0].value == 5e9
    assert found["copy_peak_bytes_per_second", 0].value == 7e9
    assert found["copy_peak_bytes_per_second", 0].unit == "B/s"


class Once:
    """A stand-in for a timing run that runs each subject's forward pass once."""

    def __init__(self, *, trial: Trial, operations: Callable[..., object], **_: object) -> None:
        self.trial, self.operations = trial, operations

    def or_missing(self, build: Callable[[ModelSpec], object], spec: ModelSpec) -> object:
        return build(spec)

    def measured(self) -> Iterator[Measurement]:
        for spec in self.trial.subjects:
            self.operations(spec)[FORWARD].run()  # type: ignore[index]
        return iter(())

    def kernels_used(self) -> Iterator[Condition]:
        return iter(())

    def state_changes(self) -> Iterator[Condition]:
        return iter(())


def test_a_batch_is_that_many_sequences_and_threads_that_many_threads(
    brief: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[int, ...]] = []
    original = mixer_time.over_vectors

    def noted(model: nn.Module, *more: object) -> tuple[Pass, Pass]:
        model.register_forward_pre_hook(
            lambda _, inputs: seen.append((*inputs[0].shape[:2], torch.get_num_threads()))
        )
        return original(model, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(mixer_time, "over_vectors", noted)
    monkeypatch.setattr(mixer_time, "TimingComparison", Once)
    monkeypatch.setattr(mixer_time, "num_cpus", lambda: 2)
    loaded = replace(trial_of(alone("fnet", 8)), batch=3, threads=2)
    peaks = list(MixerTime().measure(loaded, "cpu"))
    assert (len(peaks), seen, torch.get_num_threads()) == (2, [(3, 8, 2)], 1)
    monkeypatch.setattr(mixer_time, "num_cpus", lambda: 1)
    skipped = {(m.status, m.reason) for m in MixerTime().measure(loaded, "cpu")}
    assert skipped == {(Status.SKIPPED, "threads=2 need as many CPUs, and this process may use 1")}


def test_backward_takes_longer_than_forward_and_both_longer_than_a_step(table: Table) -> None:
    found = table(alone("attention", 256, 32))
    times = [found[metric, 0].value or 0.0 for metric in (MAIN, FORWARD, DECODE)]
    assert times[0] > 1.3 * times[1]
    assert times[1] > 1.3 * times[2]


def test_a_mixer_that_cannot_decode_has_a_row_that_says_why(table: Table) -> None:
    found = table(alone("fnet", 64), alone(own(Unproven), 64))
    for subject, reason in ((0, "fnet has no causal form"), (1, "it does not declare")):
        assert found[DECODE, subject].status is Status.SKIPPED
        assert reason in found[DECODE, subject].reason
        assert found[MAIN, subject].status is Status.OK  # verified or not


def test_a_mixer_that_is_not_what_it_says_is_named_and_not_timed(table: Table) -> None:
    with pytest.raises(Disproved, match="Wrong"):
        table(alone("fnet", 64), alone(own(Wrong), 64))


def test_what_has_no_memory_is_a_row_and_the_others_are_timed(table: Table) -> None:
    found = table(alone("fnet", 64), alone(own(Hungry), 64))
    assert found[MAIN, 1].status is Status.OUT_OF_MEMORY
    assert found["num_samples", 1].status is Status.OUT_OF_MEMORY
    assert found[MAIN, 0].status is Status.OK
    found = table(alone(own(Hungry), 64), alone("fnet", 64))
    assert found["baseline_again_ratio", 0].status is Status.OUT_OF_MEMORY
    assert found[MAIN, 1].status is Status.OK
    assert found[QUADRATIC, 0].status is Status.OK


def test_it_is_planned_for_mixers_alone_and_alone() -> None:
    probe = MixerTime()
    assert (probe.name, probe.grain) == ("mixer_time", "comparison")
    assert probe.is_swept
    assert probe.is_timing
    assert all(spec.at == "" for spec in probe.metrics(None, 64))
