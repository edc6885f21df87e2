"""Train a model and score the validation split, on which choices may be based.

Choices based on the result of `quality` would be made on test data. This probe trains in the same
way, on the same batches, and never reads the test split. It records no learning curve; `quality`
does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from bakeoff.suite.probes.probe import TRAINING, Probe, Said, measurement, started, task_metric
from bakeoff.suite.schema import MetricSpec, Point, Trial
from bakeoff.suite.tasks.task import Task
from bakeoff.suite.training.checkpoint import Checkpointer
from bakeoff.suite.training.loop import VALIDATION, train_resuming


class Validation(Probe):
    """The task's metric on the validation split after training."""

    name = "validation"
    version = 1
    grain = "seed"
    depends_on = TRAINING
    why_no_workers = "validation trains in one process; quality trains on workers"

    def metrics(self, task: type[Task] | None, length: int) -> tuple[MetricSpec, ...]:
        """Return the task's own metric, named for example ``validation_accuracy``."""
        assert task is not None, "validation is no sweep"
        return (replace(task_metric(task), name=f"{VALIDATION}{task.metric.name}"),)

    def measure(self, trial: Trial, device: str) -> Iterator[Said]:
        """Train a model and score it after the last step."""
        return self.measure_resuming(trial, device, None)

    def measure_resuming(
        self, trial: Trial, device: str, checkpointer: Checkpointer | None
    ) -> Iterator[Said]:
        """Train a model from the newest checkpoint on, and score it after the last step."""
        _, engine, todo = yield from started(trial, device, checkpointer)
        last: Point | None = None
        for said in train_resuming(engine, todo, checkpointer):
            if not isinstance(said, Point):
                yield said
            elif said.metric.startswith(VALIDATION):
                last = said
        assert last is not None, "there is an evaluation after the last step"
        yield measurement(self.metrics(type(todo.task), trial.length)[0], last.value)
