"""Check that the training score is the trained model's score on its first training batches."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from bakeoff.models import build_model
from bakeoff.suite.probes import training_score
from bakeoff.suite.schema import Measurement, Training
from bakeoff.suite.tasks.registry import build_task
from bakeoff.suite.training.engines.engine import in_evaluation_mode
from bakeoff.suite.training.weights import restore
from tests.suite.probes.conftest import language_model, said_after_training, trial_on_text

TRAINING = Training(
    steps=2, learning_rate=1e-2, warmup_steps=0, weight_decay=0.0, num_evaluations=0
)


@pytest.mark.usefixtures("few_scored")
def test_it_is_the_metric_over_batches_that_were_trained_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training_score, "NUM_BATCHES", 2)
    model = language_model(length=16, settings={"dropout": 0.3})
    trained = trial_on_text("quality", model, 8, training=TRAINING, seed=3)
    trial = trial_on_text("training_score", model, 8, seed=3, trained=trained)
    (found,) = said_after_training(trial, tmp_path)
    assert isinstance(found, Measurement)
    assert (found.metric, found.better) == ("training_bits_per_character", "lower")

    task, by_hand = build_task(trial.task, 16), build_model(model)
    restore(by_hand, tmp_path, trained.trial_id)
    sums = []
    with in_evaluation_mode(by_hand), torch.inference_mode():  # disables dropout
        for step in range(2):
            batch = task.training_batch(step, 8, seed=3)
            sums.append(task.metric.sums(batch.through(by_hand), batch))
    assert found.value == pytest.approx(task.metric.over(sums))
