"""Test data-parallel memory against theory, and timings, with two CPU processes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from bakeoff.models import build_model
from bakeoff.suite.probes import data_parallel
from bakeoff.suite.probes.data_parallel import DataParallel
from bakeoff.suite.probes.tensor_bytes import NewTensors, peak_bytes
from bakeoff.suite.schema import Measurement, Status, Trial
from bakeoff.suite.tasks.registry import task_class
from bakeoff.suite.training.checkpoint import Checkpointer
from bakeoff.suite.training.engines.local import LocalEngine
from tests.suite.probes.conftest import TWO_WORKERS, language_model, trial_on_text
from tests.suite.toy import training
from tests.suite.training.engines.pair import on_two_workers

pytestmark = pytest.mark.whole

LENGTH, BATCH = 16, 4
SPEC = language_model(length=LENGTH, dim=128, depth=2, knobs={"heads": 4})
WITHIN = 0.05  # relative to theory; a bucket is 1/32 of the model, and vectors are not split
# Bytes per parameter on one of N workers; see the docstring of the probe.
HELD = {
    0: lambda n: 16.0,
    1: lambda n: 4 + 16 / n,
    2: lambda n: 4 + 16 / n,
    3: lambda n: 20 / n,
}


def trial_at(zero: int) -> Trial:
    return trial_on_text("data_parallel", SPEC, BATCH, parallel=replace(TWO_WORKERS, zero=zero))


def measured(zero: int) -> list[Measurement]:
    checkpointer = Checkpointer(Path("nowhere"), 1e9)
    said = DataParallel().measure_on_workers(trial_at(zero), "cpu", checkpointer)
    return [each for each in said if isinstance(each, Measurement)]


def at_every_stage() -> Mapping[int, list[Measurement]]:
    """Measure each ZeRO stage on a worker; last, one process that runs out of memory."""
    data_parallel._ROUNDS = 3
    found = {zero: measured(zero) for zero in HELD}

    def too_large(*arguments: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB")

    data_parallel.LocalEngine.step = too_large  # type: ignore[method-assign, assignment]
    return found | {-1: measured(0)}


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> Mapping[int, Mapping[str, Measurement]]:
    found = on_two_workers(at_every_stage, tmp_path_factory.mktemp("parallel"))
    return {zero: {m.metric: m for m in measurements} for zero, measurements in found.items()}


def value(measurement: Measurement) -> float:
    assert measurement.value is not None
    return measurement.value


@pytest.mark.cluster
@pytest.mark.parametrize("zero", HELD)
def test_a_worker_holds_what_theory_says(
    zero: int, said: Mapping[int, Mapping[str, Measurement]]
) -> None:
    held = value(said[zero]["model_state_bytes"]) / build_model(SPEC).num_parameters()
    assert held == pytest.approx(HELD[zero](2), rel=WITHIN)
    peak = value(said[zero]["peak_memory_bytes"])
    assert peak > value(said[zero]["model_state_bytes"])


@pytest.mark.cluster
@pytest.mark.parametrize("zero", HELD)
def test_times_are_positive_and_spread_around_their_median(
    zero: int, said: Mapping[int, Mapping[str, Measurement]]
) -> None:
    for name in ("tokens_per_second", "scaling_efficiency"):
        found = said[zero][name]
        assert found.spread_low is not None
        assert found.spread_high is not None
        assert 0 < found.spread_low <= value(found) <= found.spread_high
    assert 1 < value(said[zero]["tokens_per_second"]) < 1e7


@pytest.mark.cluster
def test_what_is_measured_is_what_was_announced(
    said: Mapping[int, Mapping[str, Measurement]],
) -> None:
    specs = DataParallel().metrics(task_class("shakespeare_characters"), LENGTH)
    for found in said.values():
        assert {(m.metric, m.unit, m.better, m.at) for m in found.values()} == {
            (spec.name, spec.unit, spec.better, spec.at) for spec in specs
        }


@pytest.mark.cluster
def test_no_memory_for_the_lone_worker_is_that_numbers_own_status(
    said: Mapping[int, Mapping[str, Measurement]],
) -> None:
    efficiency = said[-1].pop("scaling_efficiency")
    assert (efficiency.status, efficiency.value) == (Status.OUT_OF_MEMORY, None)
    assert "one worker alone" in efficiency.reason
    assert {found.status for found in said[-1].values()} == {Status.OK}
    assert all(value(found) > 0 for found in said[-1].values())


def test_it_is_for_trials_of_workers() -> None:
    assert DataParallel().why_not(SPEC, trial_at(0).parallel) == ""
    assert "set workers or zero" in DataParallel().why_not(SPEC, None)


def test_bytes_of_one_process_are_counted_exactly() -> None:
    """Adam in float32 takes 8 bytes per parameter for its states and 4 for the parameter."""
    tensors = NewTensors()
    model = torch.nn.Linear(300, 200, bias=False)
    engine = LocalEngine(model, training(10), "cpu")
    assert tensors.bytes() == 4 * 300 * 200
    model.weight.grad = torch.zeros_like(model.weight)
    engine.optimizer.step()
    step_counter = 4
    assert tensors.bytes() == 16 * 300 * 200 + step_counter
    before = tensors.bytes()

    def step() -> None:
        large = torch.ones(1_000_000)
        del large
        torch.ones(500_000)

    assert peak_bytes(step, "cpu", tensors) == before + 4_000_000
