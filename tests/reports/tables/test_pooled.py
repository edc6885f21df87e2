"""Test that scores are pooled over tasks only if allowed, and with the right numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pytest

from bakeoff.reports.document import Exhibit, ReportTable
from bakeoff.reports.results.frame import results_frame
from bakeoff.reports.results.series import all_series
from bakeoff.reports.stats.aggregate import interquartile_mean, pooled_interval
from bakeoff.reports.tables.pooled import pooled_exhibit
from bakeoff.suite.schema import About
from tests.reports import conftest as synthetic
from tests.reports.conftest import entry, known, series_of

TASKS = ("t1", "t2", "t3")
SEEDS = range(4)
SHIFTS = {"a": 0.0, "b": 0.04, "c": -0.03}


def _value(variant: str, task: str, seed: int) -> float:
    wobble = np.random.default_rng([len(variant), ord(variant), ord(task[1]), seed])
    return 0.5 + 0.1 * TASKS.index(task) + SHIFTS[variant] + float(wobble.normal(0, 0.005))


def _about(tasks: tuple[str, ...], **changes: Any) -> About:
    spec = synthetic.ACCURACY
    fields = {
        "variants": tuple(SHIFTS),
        "baseline": "a",
        "tasks": tasks,
        "probes": ("quality",),
        "num_seeds": len(SEEDS),
        "metrics": {task: {"quality": (spec,)} for task in tasks},
        "claim": None,
    }
    return synthetic.about(**(fields | changes))


def _pooled(said: About, rows: Sequence[dict[str, Any]]) -> Exhibit | None:
    return pooled_exhibit(said, all_series(said, results_frame(rows)))


def _exhibit(
    tasks: tuple[str, ...] = TASKS, seeds: Iterable[int] = SEEDS, **mishaps: dict[str, Any]
) -> Exhibit | None:
    """Return the exhibit; the mishap ``b_t1_2`` changes seed 2 of variant b on t1."""
    said, spec = _about(tasks), synthetic.ACCURACY
    rows = [
        synthetic.row(said, v, task, "quality", spec, seed=s, value=_value(v, task, s))
        | mishaps.get(f"{v}_{task}_{s}", {})
        for v in SHIFTS
        for task in tasks
        for s in seeds
    ]
    return _pooled(said, rows)


def _table(*args: Any, **named: Any) -> ReportTable:
    return known(_exhibit(*args, **named)).tables[0]


def _values(variant: str, task: str) -> np.ndarray:
    return np.array([_value(variant, task, seed) for seed in SEEDS])


def test_means_are_over_tasks_and_differences_over_pairs() -> None:
    table = _table()
    mean = np.mean([_values("b", task).mean() for task in TASKS])
    assert entry(table, "b", "accuracy").estimate.point == pytest.approx(mean)
    found = entry(table, "b", "accuracy_interquartile_mean").estimate.point
    by_task = {task: tuple(_values("b", task)) for task in TASKS}
    assert found == pytest.approx(interquartile_mean(by_task))
    pairs = {task: tuple(_values("b", task) - _values("a", task)) for task in TASKS}
    change = entry(table, "b", "accuracy_difference")
    assert change.estimate.point == pytest.approx(pooled_interval(pairs).point)
    assert change.estimate.low == pytest.approx(pooled_interval(pairs).low)
    assert (change.text[0], change.tone) == ("+", "better")
    assert entry(table, "c", "accuracy_difference").tone == "worse"
    assert entry(table, "a", "accuracy_difference").text == "baseline"


def test_how_often_it_beats_the_baseline_counts_every_pair() -> None:
    table = _table()
    assert entry(table, "b", "probability_of_improvement").estimate.point == 1.0
    assert entry(table, "c", "probability_of_improvement").estimate.point == 0.0
    diverged = {"value": None, "status": "diverged", "reason": "nan"}
    table = _table(b_t1_2=diverged)
    found = entry(table, "b", "probability_of_improvement").estimate
    assert (found.point, found.n) == (pytest.approx(11 / 12), 12)
    assert entry(table, "b", "accuracy").marked.endswith("†")
    assert table.notes


def test_a_variant_without_a_task_is_pooled_over_none() -> None:
    skipped = {"value": None, "status": "skipped", "reason": "no"}
    table = _table(**{f"b_t2_{seed}": skipped for seed in SEEDS})
    found = entry(table, "b", "accuracy")
    assert (found.text, found.estimate.point) == ("no result on t2", None)
    assert entry(table, "b", "accuracy_difference").text == "–"
    assert entry(table, "c", "accuracy").estimate.point is not None


def test_two_tasks_have_no_interquartile_mean() -> None:
    table = _table(TASKS[:2])
    assert [column.key for column in table.columns] == [
        "accuracy",
        "accuracy_difference",
        "probability_of_improvement",
    ]


def test_one_task_or_two_metrics_are_not_pooled() -> None:
    assert _exhibit(TASKS[:1]) is None
    sweep = synthetic.sweep()  # bits on one task, accuracy on the other
    assert pooled_exhibit(sweep.about, series_of(sweep)) is None


def test_a_task_that_is_an_axis_is_not_pooled() -> None:
    names = tuple(f"task={task}" for task in TASKS)
    said = _about(TASKS, variants=names, baseline=names[0])
    rows = [
        synthetic.row(said, name, task, "quality", synthetic.ACCURACY, value=0.5)
        for name, task in zip(names, TASKS, strict=True)
    ]
    assert _pooled(said, rows) is None


def test_without_results_and_with_one_seed_the_table_says_so() -> None:
    assert entry(_table(seeds=()), "b", "accuracy").text == "no result on t1, t2, t3"
    change = entry(_table(seeds=(0,)), "b", "accuracy_difference")
    assert (change.estimate.n, change.interval) == (3, "")


def test_too_many_variants_are_not_pooled_and_it_is_said() -> None:
    names = tuple(f"v={number}" for number in range(501))
    made = known(_pooled(_about(TASKS, variants=names, baseline=names[0]), []))
    assert made.tables == ()
    assert "more than 500 variants" in made.sentences[-1]


def test_it_says_that_it_is_exploratory() -> None:
    assert "exploratory" in known(_exhibit()).sentences[0]
