"""Score a trained model on its training data; the difference to the test score is overfitting.

The batches are those of the first steps of its own training, with the model in evaluation mode,
without dropout. If the training data are few, they are repeated many times, and a model that
memorises them scores far better on them than on held-out data.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch

from bakeoff.suite.probes.probe import (
    ORIGIN,
    Said,
    TrainedModelProbe,
    measurement,
    task_metric,
    task_of,
    trained_model,
)
from bakeoff.suite.schema import MetricSpec, Trial
from bakeoff.suite.tasks.metrics import PlayedMetric
from bakeoff.suite.tasks.registry import task_class
from bakeoff.suite.tasks.task import Task
from bakeoff.suite.training.checkpoint import Checkpointer
from bakeoff.suite.training.engines.engine import in_evaluation_mode, score_batch

NUM_BATCHES = 64


class TrainingScore(TrainedModelProbe):
    """The task's metric on training data, after training."""

    name = "training_score"
    version = 1
    depends_on = TrainedModelProbe.depends_on | ORIGIN

    def metrics(self, task: type[Task] | None, length: int) -> tuple[MetricSpec, ...]:
        """Return the task's own metric, named for example ``training_accuracy``."""
        assert task is not None, "training_score is no sweep"
        metric = task_metric(task)
        return (replace(metric, name=f"training_{metric.name}"),)

    def why_not_on(self, task: type[Task]) -> str:
        """Return why a trial is skipped; the metric must not need played episodes."""
        if not isinstance(task.metric, PlayedMetric):
            return ""
        return f"{task.metric.name} is of episodes to be played, and {task.name} has none to learn"

    def measure_resuming(
        self, trial: Trial, device: str, checkpointer: Checkpointer | None
    ) -> Iterator[Said]:
        """Run one pass over the batches."""
        model = trained_model(trial, checkpointer, device)
        task = task_of(trial)
        sums = []
        with in_evaluation_mode(model), torch.inference_mode():
            for step in range(NUM_BATCHES):
                batch = task.training_batch(step, trial.batch, trial.seed).to(device)
                sums.append(score_batch(model, task.metric, batch)(batch))
        spec = self.metrics(task_class(trial.task), trial.length)[0]
        yield measurement(spec, task.metric.over(sums))
