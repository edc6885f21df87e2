"""Test quality: the test split is read once, after training; FLOPs are those of training."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from bakeoff.models import build_model
from bakeoff.models.interface import Outputs
from bakeoff.suite.errors import Diverged
from bakeoff.suite.events import TrainedState
from bakeoff.suite.planning.plan import plan
from bakeoff.suite.probes.quality import Quality
from bakeoff.suite.schema import Measurement, Point, Trial
from bakeoff.suite.spec import Model, vary
from bakeoff.suite.tasks.images.fashion_mnist import FashionMnistPatches
from bakeoff.suite.tasks.metrics import Accuracy, as_sums
from bakeoff.suite.tasks.selective_copying import SelectiveCopying
from bakeoff.suite.tasks.task import Batch, Split
from tests.suite.probes.conftest import said_after_training
from tests.suite.probes.no_formula import Silent
from tests.suite.small_ablation import make_ablation
from tests.workplace import Workplace


@pytest.fixture
def trial(tmp_path: Path) -> Trial:
    return plan(Workplace(tmp_path).ablation(probes=["quality"], steps=4)).trials[0]


def said(trial: Trial) -> list[Point | Measurement]:
    return list(Quality().measure(trial, "cpu"))


def test_the_number_is_the_test_splits_and_not_the_validations(trial: Trial) -> None:
    *points, state, last = said(trial)
    assert isinstance(state, TrainedState)
    assert isinstance(last, Measurement)
    assert isinstance(points[-1], Point)
    assert last.value is not None
    assert last.value * 2000 == int(last.value * 2000)  # 2,000 test images
    assert points[-1].value * 1000 == int(points[-1].value * 1000)  # 1,000 validation images


def test_points_carry_three_forward_passes_a_step(trial: Trial) -> None:
    forward = build_model(trial.subjects[0]).flops(trial.length, batch=trial.batch)
    points = [point for point in said(trial) if isinstance(point, Point)]
    assert [point.flops for point in points] == [3 * forward * point.step for point in points]


def test_a_mixer_without_a_formula_trains_without_flops(trial: Trial) -> None:
    name = f"{Silent.__module__}:{Silent.__name__}"
    silent = replace(trial, subjects=(replace(trial.subjects[0], mixer=name, knobs={}),))
    points = [point for point in said(silent) if isinstance(point, Point)]
    assert points
    assert {point.flops for point in points} == {None}


def test_a_test_score_that_is_no_number_is_a_divergence(
    trial: Trial, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[Split] = []

    class Broken(Accuracy):
        def sums(self, outputs: Outputs, batch: Batch) -> torch.Tensor:
            right, count = super().sums(outputs, batch).tolist()
            return as_sums(math.inf if count == 100 and read[-1] == "test" else right, count)

    def held_out(self: FashionMnistPatches, split: Split, batch: int) -> Iterator[Batch]:
        read.append(split)
        return original(self, split, batch)

    original = FashionMnistPatches.held_out
    monkeypatch.setattr(FashionMnistPatches, "held_out", held_out)
    monkeypatch.setattr(FashionMnistPatches, "metric", Broken())
    with pytest.raises(Diverged, match="the test accuracy is inf"):
        said(trial)


@pytest.mark.slow
def test_a_model_that_is_read_otherwise_is_scored_and_not_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check that the score depends on the number of rounds at evaluation."""
    few = {"validation": 100, "test": 200}
    monkeypatch.setattr(SelectiveCopying, "num_held_out", few)
    fields = {
        "baseline": Model(mixer="lsh_attention", heads=2, chunk=4, rounds=2),
        "axes": [vary("read_rounds", [None, 2, 0])],
        "tasks": ["selective_copying"],
        "scale": {"length": 32, "steps": 20, "batch": 20, "learning_rate": 1e-2},
    }
    own, same, full = plan(make_ablation(**fields), seeds=1).trials
    trained = [each for each in Quality().measure(own, "cpu") if isinstance(each, Measurement)]
    read = [said_after_training(each, tmp_path) for each in (same, full)]
    assert not any(isinstance(each, Point) for said in read for each in said)
    scores = [[m.value for m in said if isinstance(m, Measurement)] for said in (trained, *read)]
    assert scores[0] == scores[1] != scores[2]
