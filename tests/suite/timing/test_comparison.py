"""A trial's subjects together: controls beside the first, checks before, CPUs fixed meanwhile."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch

from models import ModelSpec
from suite.schema import Measurement, Status
from suite.timing.comparison import Operations, TimingComparison
from suite.timing.parity import Disproved
from suite.timing.passes import Pass
from tests.suite.timing.scripted import ScriptedClock, idle_machine
from tests.suite.timing.subjects import Wrong, alone, own, trial_of

MAIN = "forward_backward_seconds"
A, B = alone("fnet"), alone("conv")


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


class Bench:
    """Subjects that take a time by their mixer's name; notes what held while they ran."""

    def __init__(self) -> None:
        self.clock = ScriptedClock()
        self.built: list[str] = []
        self.cpus: set[int] = set()
        self.collected = False

    def main(self, spec: ModelSpec) -> Pass:
        self.built.append(spec.mixer)

        def run() -> None:
            self.clock.time += {"fnet": 0.02, "conv": 0.04}[spec.mixer]
            self.collected |= gc.isenabled()
            self.cpus |= os.sched_getaffinity(0)

        return Pass(run)

    def comparison(self, *subjects: ModelSpec) -> TimingComparison:
        return TimingComparison(
            trial=trial_of(*subjects), device="cpu", clock=self.clock, compared=(MAIN,),
            operations=lambda spec: {MAIN: self.main(spec)}, main_operation=self.main,
            read_times=idle_machine(self.clock),
        )  # fmt: skip


@pytest.fixture
def bench() -> Bench:
    return Bench()


def table(comparison: TimingComparison) -> dict[tuple[str, int], Measurement]:
    return {(m.metric, m.subject): m for m in comparison.measured()}


def test_controls_stand_beside_the_first_subject_only(bench: Bench) -> None:
    found = table(bench.comparison(A, B))
    assert found[MAIN, 0].value == pytest.approx(0.02)
    assert found[MAIN, 1].value == pytest.approx(0.04)
    assert found["baseline_again_ratio", 0].value == pytest.approx(1.0)
    assert found["baseline_slowed_ratio", 0].value == pytest.approx(1.05)
    of_second = {metric for metric, subject in found if subject == 1}
    assert of_second == {
        MAIN, "num_samples", "mild_outliers", "severe_outliers", "first_call_seconds",
    }  # fmt: skip
    assert bench.built == ["fnet", "conv", "fnet"]  # the baseline a second time


def test_cpus_are_fixed_and_garbage_stays_and_both_come_back(bench: Bench) -> None:
    before = os.sched_getaffinity(0)
    table(bench.comparison(A))
    assert bench.cpus == {max(before)}
    assert not bench.collected
    assert os.sched_getaffinity(0) == before
    assert gc.isenabled()


def test_a_wrong_mixer_ends_the_trial_before_anything_is_timed(bench: Bench) -> None:
    with pytest.raises(Disproved, match="Wrong"):
        table(bench.comparison(A, alone(own(Wrong))))
    assert bench.built == []
    assert gc.isenabled()


def test_a_subject_too_large_to_build_is_missing(bench: Bench) -> None:
    def operations(spec: ModelSpec) -> Operations:
        if spec.mixer == "conv":
            raise RuntimeError("CUDA out of memory. Tried to allocate 9 GiB")
        return {MAIN: bench.main(spec)}

    found = table(replace(bench.comparison(A, B), operations=operations))
    assert found[MAIN, 1].status is Status.OUT_OF_MEMORY
    assert found[MAIN, 0].status is Status.OK


def test_a_baseline_too_large_leaves_no_controls(bench: Bench) -> None:
    def too_large(spec: ModelSpec) -> Pass:
        raise MemoryError("9 GiB")

    found = table(replace(bench.comparison(A), main_operation=too_large))
    assert found["baseline_again_ratio", 0].status is Status.OUT_OF_MEMORY
    assert found["baseline_slowed_ratio", 0].status is Status.OUT_OF_MEMORY
    assert found[MAIN, 0].status is Status.OK


def test_whatever_else_is_wrong_with_a_subject_ends_the_trial(bench: Bench) -> None:
    def broken(spec: ModelSpec) -> Operations:
        raise RuntimeError("shapes cannot be multiplied")

    with pytest.raises(RuntimeError, match="shapes"):
        table(replace(bench.comparison(A), operations=broken))
