"""Test the comparison of a trial's subjects: controls, checks before timing, CPU affinity."""

from __future__ import annotations

import gc
import os
from dataclasses import replace

import pytest

from bakeoff.models import MIXERS, ModelSpec
from bakeoff.models.mixers.grid_conv import GridConvolution
from bakeoff.suite.schema import Measurement, Status
from bakeoff.suite.timing.comparison import (
    Disproved,
    Operations,
    TimingComparison,
    refuse_wrong_mixers,
)
from bakeoff.suite.timing.passes import Pass, built, over_vectors
from tests.suite.timing.scripted import ScriptedClock, idle_machine
from tests.suite.timing.subjects import Drawing, NotANumber, Unproven, Wrong, alone, own, trial_of

MAIN = "forward_backward_seconds"
A, B = alone("fnet"), alone("conv")


class Bench:
    """Subjects whose time depends on their mixer; records the conditions while they run."""

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
            trial=trial_of(*subjects),
            device="cpu",
            clock=self.clock,
            compared=(MAIN,),
            operations=lambda spec: {MAIN: self.main(spec)},
            main_operation=self.main,
            read_times=idle_machine(self.clock),
        )


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
        MAIN,
        "num_samples",
        "mild_outliers",
        "severe_outliers",
        "first_call_seconds",
    }
    assert bench.built == ["fnet", "conv", "fnet"]  # the baseline runs twice


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


@pytest.mark.parametrize("mixer", list(MIXERS))
def test_every_shipped_mixer_is_what_it_says(mixer: str) -> None:
    for length in (4, 64):
        knobs = {"projected_length": 4} if mixer == "linformer" else {}
        refuse_wrong_mixers(alone(mixer, length, **knobs), "cpu", 0)


def test_a_mixer_of_a_grid_is_compared_on_a_corner_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    image = ModelSpec(
        architecture="vit",
        mixer="grid_conv",
        position="none",
        dim=8,
        depth=1,
        length=400,
        input_kind="image",
        input_size=1,
        grid=(20, 20),
        output_size=2,
        settings={"patch": 2, "pooling": "mean"},
    )
    refuse_wrong_mixers(image, "cpu", 0)
    monkeypatch.setattr(GridConvolution, "forward", lambda self, x: 2 * self.reference(x))
    with pytest.raises(Disproved, match="on 16 tokens"):
        refuse_wrong_mixers(image, "cpu", 0)


def test_a_wrong_one_is_named() -> None:
    with pytest.raises(Disproved, match=r"mixer '.*subjects:Wrong' differs from its reference by"):
        refuse_wrong_mixers(alone(own(Wrong)), "cpu", 0)


def test_what_is_no_number_agrees_with_nothing() -> None:
    with pytest.raises(Disproved, match=r"by up to nan on 16 tokens, so it is not timed"):
        refuse_wrong_mixers(alone(own(NotANumber)), "cpu", 0)


def test_one_without_a_reference_passes() -> None:
    refuse_wrong_mixers(alone(own(Unproven)), "cpu", 0)


def test_what_is_drawn_inside_is_drawn_alike() -> None:
    refuse_wrong_mixers(alone(own(Drawing)), "cpu", 0)


def test_mixers_inside_a_model_are_checked_too() -> None:
    spec = ModelSpec(
        architecture="tagger",
        mixer=own(Wrong),
        knobs={},
        position="none",
        dim=8,
        depth=2,
        length=8,
        input_kind="tokens",
        input_size=5,
        output_size=5,
    )
    with pytest.raises(Disproved, match="Wrong"):
        refuse_wrong_mixers(spec, "cpu", 0)


@pytest.mark.parametrize(("device", "said"), [("cuda", ["flash, math"]), ("cpu", [])])
def test_a_gpus_kernels_of_attention_are_known_after_the_timing(
    bench: Bench, device: str, said: list[str]
) -> None:
    """Check that only subjects that run eagerly and do not fail have known kernels."""

    def main(spec: ModelSpec) -> Pass:
        if spec.mixer == "conv":
            raise MemoryError
        forward, _ = over_vectors(built(spec, "cpu", 0), spec, "cpu", 0)
        return forward

    subjects = [B, alone("attention"), alone("attention", kernel="math")]
    subjects += [replace(alone("attention", value_dim=3), runtime="compiled"), A]
    timed = replace(bench.comparison(*subjects), device=device, main_operation=main)
    assert [condition.text for condition in timed.kernels_used()] == said
