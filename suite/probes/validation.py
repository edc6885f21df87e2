"""Train a model and score the validation split, the data that one may choose by.

Whoever chooses by what `quality` says has chosen on test data. This trains in the same way, on the
same batches, and never asks for the test split. It leaves no curve: that is quality's.
"""

from __future__ import annotations

from collections.abc import Iterator

from models import ModelSpec
from suite.probes.exercise import exercise, initial_model
from suite.probes.probe import Probe, Said
from suite.schema import Measurement, MetricSpec, Parallel, Point, Trial
from suite.tasks.task import Task
from suite.training.checkpoint import Checkpointer
from suite.training.engines.local import LocalEngine
from suite.training.loop import VALIDATION
from suite.training.resume import train_resuming


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

    def measure(self, trial: Trial, device: str) -> Iterator[Said]:
        """Train; the last point of the curve is the score after the last step."""
        return _measure(trial, device, None)

    def measure_resuming(
        self, trial: Trial, device: str, checkpointer: Checkpointer
    ) -> Iterator[Said]:
        """The same, from the newest checkpoint on."""
        return _measure(trial, device, checkpointer)


def _measure(trial: Trial, device: str, checkpointer: Checkpointer | None) -> Iterator[Said]:
    model = initial_model(trial)
    todo = exercise(trial, model)
    last: Point | None = None
    for said in train_resuming(LocalEngine(model, todo.training, device), todo, checkpointer):
        if not isinstance(said, Point):
            yield said
        elif said.metric.startswith(VALIDATION):
            last = said
    assert last is not None, "there is an evaluation after the last step"
    yield Measurement(metric=last.metric, value=last.value, unit=last.unit, better=last.better)
