"""Test the standard scale: for one GPU, one training at a time, within a short break."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from bakeoff import ablations
from bakeoff.models import build_model
from bakeoff.suite.commands.list import OVERVIEW
from bakeoff.suite.planning.cost_model import PlannedWork
from bakeoff.suite.planning.gpu_specs import GPU_SPECS
from bakeoff.suite.planning.plan import plan
from bakeoff.suite.probes.tensor_bytes import NewTensors, peak_bytes
from bakeoff.suite.schema import Trial
from bakeoff.suite.tasks.registry import build_task
from bakeoff.suite.training.engines.local import LocalEngine

KNOWN = json.loads((Path(ablations.__path__[0]) / OVERVIEW).read_text())
TIMED_ONLY = {"complexity", "data_parallel"}
_MINUTES = 25
_ROOM = 2.0  # a recorded step keeps extra memory in addition to that of eager steps


@pytest.mark.parametrize("name", KNOWN)
def test_it_is_planned_to_end_within_25_minutes_on_one_h100(name: str) -> None:
    work = PlannedWork(**KNOWN[name]["scales"]["standard"])
    assert work.seconds(num_cpus=16) < _MINUTES * 60


def test_each_training_has_a_gpu_to_itself() -> None:
    """Check what was measured to be as fast as sharing; see docs/design.md."""
    assert {each["scales"]["standard"]["num_gpus"] for each in KNOWN.values()} == {1.0}


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(KNOWN) - TIMED_ONLY))
def test_the_largest_training_fits_into_a_gpu_by_measured_memory(name: str) -> None:
    planned = plan(name, scale="standard")
    trainings = [trial for trial in planned.trials if trial.training is not None]
    by_size = {_size(trial): trial for trial in trainings}
    taken = _bytes_of_a_step(by_size[max(by_size)])
    assert _ROOM * taken < GPU_SPECS["h100"].memory_bytes


def _size(trial: Trial) -> int:
    """Return the approximate number of activations between layers."""
    (model,) = trial.subjects
    return trial.batch * trial.length * model.dim * model.depth


def _bytes_of_a_step(trial: Trial) -> int:
    """Return the bytes of a step, extrapolated from batches of one and two sequences."""
    one, two = (_peak(trial, batch) for batch in (1, 2))
    return one + (trial.batch - 1) * (two - one)


def _peak(trial: Trial, batch: int) -> int:
    assert trial.training is not None
    task = build_task(trial.task, trial.length)
    batches = [task.training_batch(step, batch, 0) for step in range(2)]
    torch.manual_seed(0)
    new = NewTensors()
    engine = LocalEngine(build_model(trial.subjects[0]), trial.training, "cpu")
    engine.step(batches[0], task)
    engine.optimizer.zero_grad(set_to_none=True)
    return peak_bytes(lambda: engine.step(batches[1], task), "cpu", new)
