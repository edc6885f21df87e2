"""Train a model, then score the test split, once, at the end.

A model that differs from another one only in knobs of inference
(`bakeoff.models.model_spec.reading_knob`) is not trained again: its trial loads the weights of the
trained one and scores them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from bakeoff.suite.errors import Diverged
from bakeoff.suite.probes.probe import (
    TRAINING,
    Said,
    SpreadProbe,
    exercise,
    measurement,
    started,
    started_model,
    task_metric,
    teacher_model,
    trained_model,
)
from bakeoff.suite.probes.samples.collect import samples_of
from bakeoff.suite.schema import Measurement, MetricSpec, Trial
from bakeoff.suite.tasks.registry import build_task
from bakeoff.suite.tasks.sequence_metrics import SequenceMetric
from bakeoff.suite.tasks.task import Metric, Task
from bakeoff.suite.training.checkpoint import Checkpointer
from bakeoff.suite.training.engines.engine import evaluate_in_parts
from bakeoff.suite.training.engines.sharded import ShardedEngine
from bakeoff.suite.training.loop import evaluate, train_resuming


class Quality(SpreadProbe):
    """The task's metric on the test split after training, and the learning curve."""

    name = "quality"
    version = 1
    grain = "seed"
    depends_on = TRAINING | {"parallel", "test_lengths"}

    def metrics(self, task: type[Task] | None, length: int) -> tuple[MetricSpec, ...]:
        """Return the task's metric on the test split and on its parts, then other metrics."""
        assert task is not None, "quality is no sweep"
        in_parts = (task_metric(task, at) for at in ("", *task(length).parts()))
        return (*in_parts, *map(_spec_of, _others(task)))

    def measure(self, trial: Trial, device: str) -> Iterator[Said]:
        """Train and score.

        Samples come last, when there is nothing left that they could disturb.
        """
        return self.measure_resuming(trial, device, None)

    def measure_resuming(
        self, trial: Trial, device: str, checkpointer: Checkpointer | None
    ) -> Iterator[Said]:
        """Train and score, from the newest checkpoint on."""
        assert trial.parallel is None, "a trial of several workers runs on them"
        if trial.trained is None:
            model, engine, todo = yield from started(trial, device, checkpointer)
            yield from train_resuming(engine, todo, checkpointer)
        else:
            model = trained_model(trial, checkpointer, device)
        task = build_task(trial.task, trial.length)
        others = {metric.name: metric for metric in _others(type(task))}
        every = evaluate_in_parts(model, task, "test", trial.batch, device, [*others.values()])
        for at, value in every.items():
            yield _of(others[at], value) if at in others else _scored(task, value, at)
        for length in trial.test_lengths:
            longer = build_task(trial.task, length)
            # Use at most the tokens of the trial's batch at once, to keep memory the same.
            num_rows = max(1, trial.batch * trial.length // length)
            value = evaluate(model, longer, "test", num_rows, device)
            yield _scored(task, value, f"length={length}")
        yield from samples_of(model, task, trial.seed)

    def measure_on_workers(
        self, trial: Trial, device: str, checkpointer: Checkpointer
    ) -> Iterator[Said]:
        """Train and score from the same weights on the same batches, without samples.

        The whole model need not fit on any worker.
        """
        assert trial.parallel is not None, "a trial of one process runs in it"
        teacher = yield from teacher_model(trial, checkpointer)
        model = yield from started_model(trial, checkpointer)
        todo = exercise(trial, model, teacher)  # counted before parameters are divided
        engine = ShardedEngine(
            model, todo.training, trial.parallel, device, seed=trial.seed, teacher=teacher
        )
        yield from train_resuming(engine, todo, checkpointer)
        for at, value in engine.evaluate_in_parts(todo.task, "test", trial.batch).items():
            yield _scored(todo.task, value, at)
        for metric in _others(type(todo.task)):
            yield _of(metric, engine.evaluate(todo.task, "test", trial.batch, metric))


def _others(task: type[Task]) -> list[Metric]:
    """Return the task's further metrics, without those of generated sequences."""
    return [each for each in task.also_scored if not isinstance(each, SequenceMetric)]


def _spec_of(metric: Metric) -> MetricSpec:
    return MetricSpec(name=metric.name, unit=metric.unit, better=metric.better)


def _of(metric: Metric, value: float) -> Measurement:
    if not math.isfinite(value):
        raise Diverged(f"the test {metric.name} is {value}")
    return measurement(_spec_of(metric), value)


def _scored(task: Task, value: float, at: str = "") -> Measurement:
    if not math.isfinite(value):
        raise Diverged(f"the test {task.metric.name} is {value}{f' at {at}' if at else ''}")
    return measurement(task_metric(type(task), at), value)
