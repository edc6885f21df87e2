"""Score every floor of a task as its models are scored.

One trial a task: floors have no variant and no seed. What this machine cannot compute is skipped,
with the reason in its row.
"""

from __future__ import annotations

from collections.abc import Iterator

from suite.floors.registry import floor
from suite.probes.probe import Probe, measurement, task_metric, task_of
from suite.schema import FLOORS, Measurement, MetricSpec, Point, Status, Trial
from suite.tasks.task import Task


class Floors(Probe):
    """The task's metric on the test split, for each of its floors."""

    name = FLOORS
    version = 1
    grain = "task"
    depends_on = frozenset({"num_training_examples"})

    def metrics(self, task: type[Task] | None, length: int) -> tuple[MetricSpec, ...]:
        """The task's own."""
        assert task is not None, "floors are no sweep"
        return (task_metric(task),)

    def labels(self, task: type[Task]) -> tuple[str, ...]:
        """Of the task's floors."""
        return tuple(floor(name).label_on(task) for name in task.floors)

    def definitions(self, task: type[Task]) -> dict[str, int]:
        """Of the task's floors."""
        return {f"floor {name}": floor(name).version for name in task.floors}

    def measure(self, trial: Trial, device: str) -> Iterator[Point | Measurement]:
        """On the CPU, one floor after the other."""
        task = task_of(trial)
        for subject, name in enumerate(task.floors):
            yield _measured(task, name, subject)


def _measured(task: Task, name: str, subject: int) -> Measurement:
    chosen = floor(name)
    suits = chosen.suits(type(task))
    reason = chosen.why_not() if suits else f"{chosen.label} needs {chosen.needs}"
    return measurement(
        task_metric(type(task)),
        None if reason else chosen.score(task),
        subject=subject,
        reason=reason,
        status=Status.SKIPPED if reason else Status.OK,
    )
