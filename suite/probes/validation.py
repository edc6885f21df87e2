"""How good does the model get on data that one may choose by? Train, score the validation split.

Whoever chooses by what `quality` says has chosen on test data. This trains in the same way, on the
same batches, and never asks for the test split. It leaves no curve: that is quality's.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from models import ModelSpec, build_model
from suite.probes.probe import Probe
from suite.probes.quality import exercise
from suite.schema import Measurement, MetricSpec, Parallel, Trial
from suite.tasks.task import Task
from suite.training import VALIDATION, train


class Validation(Probe):
    """The task's metric on the validation split after training."""

    name = "validation"
    version = 1
    grain = "seed"
    trains = True
    is_batched = True

    def metrics(self, task: type[Task] | None, length: int) -> tuple[MetricSpec, ...]:
        """The task's own metric, as ``validation_accuracy``."""
        assert task is not None, "validation is no sweep"
        metric = task.metric
        name = f"{VALIDATION}{metric.name}"
        return (MetricSpec(name=name, unit=metric.unit, better=metric.better),)

    def why_not(self, model: ModelSpec, parallel: Parallel | None) -> str:
        """It trains in one process."""
        return "validation trains in one process; quality trains on workers" if parallel else ""

    def measure(self, trial: Trial, device: str) -> Iterator[Measurement]:
        """Train; the last point of the curve is the score after the last step."""
        torch.manual_seed(trial.seed)
        model = build_model(trial.subjects[0])
        points = list(train(model, exercise(trial, model), device))
        last = next(point for point in reversed(points) if point.metric.startswith(VALIDATION))
        yield Measurement(metric=last.metric, value=last.value, unit=last.unit, better=last.better)
