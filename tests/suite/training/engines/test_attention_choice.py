"""Test that the attention kernel that torch chooses is detected and recorded in the result."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from bakeoff.models import build_mixer
from bakeoff.suite.events import Condition
from bakeoff.suite.tasks.registry import build_task
from bakeoff.suite.training.engines import attention_choice, recording
from bakeoff.suite.training.engines.attention_choice import AttentionChoice
from bakeoff.suite.training.engines.local import LocalEngine
from bakeoff.suite.training.loop import Exercise, train_resuming
from tests.suite.toy import training
from tests.suite.training.engines import tape
from tests.suite.training.engines.test_recording import LENGTH, TEXT, built


@pytest.mark.parametrize(
    ("knobs", "said"),
    [
        ({}, "flash"),
        ({"kernel": "math"}, "math"),
        ({"kernel": "materialised"}, ""),
        ({"value_dim": 3}, "math"),
        ({"position": "t5"}, "math"),  # no CPU kernel supports a learned bias
    ],
)
def test_the_choice_is_that_of_torch(knobs: dict[str, Any], said: str) -> None:
    mixer = build_mixer("attention", dim=8, **knobs)
    with AttentionChoice() as choice:
        mixer(torch.randn(2, 5, 8))
    assert choice.said == said


def test_under_autocast_the_question_is_about_the_numbers_that_are_computed_with(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[torch.dtype] = []
    chosen = lambda *args, **_: asked.extend(a.dtype for a in args) or "flash"  # noqa: E731
    monkeypatch.setattr(attention_choice, "_chosen", chosen)
    mixer = build_mixer("plain_attention", dim=8)  # attends to the tokens themselves, in float32
    with AttentionChoice(), torch.autocast("cpu", torch.bfloat16):
        mixer(torch.randn(2, 5, 8))
    assert set(asked) == {torch.bfloat16}


def test_what_cannot_be_asked_is_not_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(torch, "_fused_sdp_choice")
    x = torch.randn(2, 5, 8)
    with AttentionChoice() as choice:
        assert build_mixer("attention", dim=8)(x).shape == x.shape
    assert choice.said == ""


def test_a_recorded_training_says_it_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "on_gpu", tape.recorded)
    asked = training(2, num_evaluations=0)
    exercise = Exercise(task=build_task(TEXT, LENGTH), training=asked, batch=4, seed=0)
    engine = LocalEngine(built(), exercise.training, "cpu", is_recorded=True)
    assert Condition("attention kernel", "flash") in list(train_resuming(engine, exercise, None))
    monkeypatch.setattr(attention_choice, "_chosen", None)  # only the first step reads it
    engine.step(exercise.task.training_batch(0, 4, 0), exercise.task)
    assert engine.kernels == (Condition("attention kernel", "flash"),)
