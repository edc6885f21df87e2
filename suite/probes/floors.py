"""Score every floor of a task in the same way as its models.

There is one trial per task: floors have no variant and no seed. A floor that does not suit the task
is skipped, with the reason in its row.
"""

from __future__ import annotations

from collections.abc import Iterator

from bakeoff.suite.floors.registry import FLOORS as ALL_FLOORS
from bakeoff.suite.probes.probe import Probe, measurement, task_metric, task_of
from bakeoff.suite.schema import FLOORS, Measurement, MetricSpec, Point, Status, Trial
from bakeoff.suite.tasks.task import Task


class Floors(Probe):
    """The task's metric on the test split, for each of its floors."""

    name = FLOORS
    version = 1
    grain = "task"
    depends_on = frozenset({"num_training_examples"})

    def metrics(self, task: type[Task] | None, length: int) -> tuple[MetricSpec, ...]:
        """Return the task's own metric."""
        assert task is not None, "floors have a task"
        return (task_metric(task),)

    def labels(self, task: type[Task]) -> tuple[str, ...]:
        """Return the labels of the task's floors."""
        return tuple(ALL_FLOORS[name].label_on(task) for name in task.floors)

    def definitions(self, task: type[Task]) -> dict[str, int]:
        """Return the versions of the task's floors."""
        return {f"floor {name}": ALL_FLOORS[name].version for name in task.floors}

    def measure(self, trial: Trial, device: str) -> Iterator[Point | Measurement]:
        """Score the floors one after the other, on the CPU."""
        task = task_of(trial)
        metric = task_metric(type(task))
        for subject, name in enumerate(task.floors):
            floor = ALL_FLOORS[name]
            if floor.suits(type(task)):
                yield measurement(metric, floor.score(task), subject=subject)
            else:
                reason = f"{floor.label} does not suit {task.name}"
                yield measurement(
                    metric, None, subject=subject, reason=reason, status=Status.SKIPPED
                )
