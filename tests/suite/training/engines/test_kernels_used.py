"""Test that what computes a matrix state is recorded in a result, as the kernel of attention is."""

from __future__ import annotations

import pytest
import torch

from bakeoff.models import build_mixer
from bakeoff.models.kernels import fla_kernels, state_kernels
from bakeoff.suite.events import Condition
from bakeoff.suite.tasks.registry import build_task
from bakeoff.suite.training.engines import recording
from bakeoff.suite.training.engines.kernels_used import kernels_used
from bakeoff.suite.training.engines.local import LocalEngine
from bakeoff.suite.training.loop import Exercise, train_resuming
from tests.models.kernels.fla_peer import peer
from tests.suite.toy import training
from tests.suite.training.engines import tape
from tests.suite.training.engines.test_recording import LENGTH, TEXT, built


def conditions_of(mixer: str) -> list[Condition]:
    asked = training(2, num_evaluations=0)
    exercise = Exercise(task=build_task(TEXT, LENGTH), training=asked, batch=4, seed=0)
    engine = LocalEngine(built(mixer), exercise.training, "cpu", is_recorded=True)
    said = train_resuming(engine, exercise, None)
    return [each for each in said if isinstance(each, Condition) and "kernel" in each.name]


def test_a_training_says_which_kernels_it_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "on_gpu", tape.recorded)
    assert conditions_of("gla") == []  # a CPU has no other kernel
    monkeypatch.setattr(state_kernels, "why_no_fla", lambda *_: "")
    monkeypatch.setattr(fla_kernels, "kernel_function", lambda _: peer)
    monkeypatch.setattr(fla_kernels, "_trusted", {})
    expected = Condition("state kernel", "gla of flash-linear-attention")
    assert conditions_of("gla") == [expected]
    with kernels_used() as found:
        for mixer in ("gla", "attention"):
            build_mixer(mixer, dim=16)(torch.randn(2, 5, 16))
    assert found == [Condition("attention kernel", "flash"), expected]
