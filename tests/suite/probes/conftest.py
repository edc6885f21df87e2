"""Fixtures for tests of probes: one thread, short timings, model specs and measured rows."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from bakeoff.models import ModelSpec
from bakeoff.suite.probes import decode, mixer_time, step_time
from bakeoff.suite.probes.probe import Probe, Said, probe
from bakeoff.suite.schema import Measurement, Parallel, Trial
from bakeoff.suite.tasks.shakespeare_characters import ShakespeareCharacters
from bakeoff.suite.timing.comparison import TimingComparison
from bakeoff.suite.timing.peaks import Peaks
from bakeoff.suite.timing.stopping import Limits
from bakeoff.suite.training.checkpoint import Checkpointer

TWO_WORKERS = Parallel(workers=2, zero=0, precision="float32", accumulation=1)
BRIEF = Limits(
    seconds=0.1,
    patience=10.0,
    block=0.02,
    warm_up_seconds=0.0,
    most_warm_up_seconds=0.05,
    half_width=100.0,
    most_half_width=100.0,
    least_rounds=6,
    least_seconds=0.0,
    least_sample=0.0,
)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten all timing probes, whatever else the machine computes."""

    def comparison(**fields: Any) -> TimingComparison:
        return TimingComparison(**{**fields, "limits": BRIEF, "read_times": lambda: None})

    for module in (decode, mixer_time, step_time):
        monkeypatch.setattr(module, "TimingComparison", comparison)
        monkeypatch.setattr(module, "peaks", lambda clock, device, precision: Peaks(5e9, 7e9))


@pytest.fixture
def few_scored(monkeypatch: pytest.MonkeyPatch) -> None:
    """Score each of the two plays of a split on few characters."""
    few = {"validation": 512, "test": 1_024}
    monkeypatch.setattr(ShakespeareCharacters, "num_scored", few)


def language_model(mixer: str = "attention", length: int = 16, **changes: Any) -> ModelSpec:
    """Return the spec of a small language model on Shakespeare's characters."""
    fields: dict[str, Any] = {
        "architecture": "language_model",
        "mixer": mixer,
        "knobs": {},
        "position": "none",
        "dim": 16,
        "depth": 1,
        "length": length,
        "input_kind": "tokens",
        "input_size": 81,
        "output_size": 81,
    }
    return ModelSpec(**(fields | changes))


def trial_on_text(name: str, spec: ModelSpec, batch: int, **changes: Any) -> Trial:
    fields: dict[str, Any] = {
        "training": None,
        "seed": 0,
        "versions": {},
        "task_digest": "",
        "task": "shakespeare_characters",
    }
    return Trial(
        probe=name, length=spec.length, batch=batch, subjects=(spec,), **(fields | changes)
    )


def said_after_training(trial: Trial, folder: Path) -> list[Said]:
    """Return the output of the trial's probe, after `quality` has trained its model."""
    if trial.trained is not None:
        training = Checkpointer(folder / trial.trained.trial_id, math.inf, keeps_weights=True)
        deque(probe("quality").measure_resuming(trial.trained, "cpu", training), maxlen=0)
    looking = Checkpointer(folder / trial.trial_id, math.inf)
    return list(probe(trial.probe).measure_resuming(trial, "cpu", looking))


def by_subject(said: Iterable[Said]) -> dict[tuple[str, int], Measurement]:
    """Return {(metric, subject): measurement}; each pair must be unique."""
    found = [each for each in said if isinstance(each, Measurement)]
    table = {(m.metric, m.subject): m for m in found}
    assert len(table) == len(found)
    return table


def measured(of: Probe, trial: Trial) -> dict[str, Measurement]:
    """Return {metric: measurement} of a trial with one subject."""
    return {metric: m for (metric, _), m in by_subject(of.measure(trial, "cpu")).items()}
