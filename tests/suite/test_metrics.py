"""Tests that every shipped metric is described once, in agreement with its probe."""

import pytest

from bakeoff.suite.probes.probe import PROBES, probe
from bakeoff.suite.schema import MetricSpec, metric_bounds, metric_spec
from bakeoff.suite.tasks.registry import TASKS, task_class


@pytest.mark.parametrize("task", TASKS)
def test_the_metrics_of_a_task_are_as_they_are_described(task: str) -> None:
    kind = task_class(task)
    for metric in (kind.metric, *kind.also_scored):
        found = MetricSpec(name=metric.name, unit=metric.unit, better=metric.better)
        assert found == metric_spec(metric.name)


@pytest.mark.parametrize("name", PROBES)
def test_the_metrics_of_a_probe_are_as_they_are_described(name: str) -> None:
    assert all(spec == metric_spec(spec.name) for spec in probe(name).specs)


@pytest.mark.parametrize(
    ("metric", "unit", "bounds"),
    [
        ("validation_accuracy", "1", (0.0, 1.0)),
        ("chance_localisation", "1", (0.0, 1.0)),
        ("accuracy_by_position", "1", (None, None)),
        ("accuracy", "%", (None, None)),
        ("my_own", "1", (None, None)),
        ("teacher_forced_bleu", "BLEU", (0.0, 100.0)),
    ],
)
def test_a_derived_metric_has_the_bounds_of_its_own(
    metric: str, unit: str, bounds: tuple[float | None, float | None]
) -> None:
    assert metric_bounds(metric, unit) == bounds
