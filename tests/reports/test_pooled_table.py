"""Is pooling over tasks done only where it may be, and by the right numbers?"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest

from reports.document import Entry, Exhibit, Table
from reports.pooled_table import pooled_exhibit
from reports.results.frame import results_frame
from reports.results.series import all_series
from reports.stats.aggregate import interquartile_mean, pooled_interval
from suite.schema import About

TASKS = ("t1", "t2", "t3")
SEEDS = range(4)
SHIFTS = {"a": 0.0, "b": 0.04, "c": -0.03}


def _value(variant: str, task: str, seed: int) -> float:
    wobble = np.random.default_rng([len(variant), ord(variant), ord(task[1]), seed])
    return 0.5 + 0.1 * TASKS.index(task) + SHIFTS[variant] + float(wobble.normal(0, 0.005))


def _about(synthetic: ModuleType, tasks: tuple[str, ...], **changes: Any) -> About:
    spec = synthetic.ACCURACY
    fields = {
        "variants": tuple(SHIFTS), "baseline": "a", "tasks": tasks, "probes": ("quality",),
        "num_seeds": len(SEEDS), "metrics": {task: {"quality": (spec,)} for task in tasks},
        "claim": None,
    }  # fmt: skip
    made: About = synthetic.about(**(fields | changes))
    return made


def _exhibit(
    synthetic: ModuleType, tasks: tuple[str, ...] = TASKS, **mishaps: dict[str, Any]
) -> Exhibit | None:
    """Mishaps: ``b_t1_2`` is seed 2 of variant b on t1."""
    said, spec = _about(synthetic, tasks), synthetic.ACCURACY
    rows = [
        synthetic.row(said, v, task, "quality", spec, seed=s, value=_value(v, task, s))
        | mishaps.get(f"{v}_{task}_{s}", {})
        for v in SHIFTS for task in tasks for s in SEEDS
    ]  # fmt: skip
    return pooled_exhibit(said, all_series(said, results_frame(rows)))


def _table(synthetic: ModuleType, tasks: tuple[str, ...] = TASKS, **mishaps: Any) -> Table:
    made = _exhibit(synthetic, tasks, **mishaps)
    assert made is not None
    return made.tables[0]


def _entry(table: Table, variant: str, key: str) -> Entry:
    (row,) = (row for row in table.rows if row.name == variant)
    return row.entries[[column.key for column in table.columns].index(key)]


def _values(variant: str, task: str) -> np.ndarray:
    return np.array([_value(variant, task, seed) for seed in SEEDS])


def test_means_are_over_tasks_and_differences_over_pairs(synthetic: ModuleType) -> None:
    table = _table(synthetic)
    mean = np.mean([_values("b", task).mean() for task in TASKS])
    assert _entry(table, "b", "accuracy").estimate.point == pytest.approx(mean)
    found = _entry(table, "b", "accuracy_interquartile_mean").estimate.point
    by_task = {task: tuple(_values("b", task)) for task in TASKS}
    assert found == pytest.approx(interquartile_mean(by_task))
    pairs = {task: tuple(_values("b", task) - _values("a", task)) for task in TASKS}
    change = _entry(table, "b", "accuracy_difference")
    assert change.estimate.point == pytest.approx(pooled_interval(pairs).point)
    assert change.estimate.low == pytest.approx(pooled_interval(pairs).low)
    assert (change.text[0], change.tone) == ("+", "better")
    assert _entry(table, "c", "accuracy_difference").tone == "worse"
    assert _entry(table, "a", "accuracy_difference").text == "baseline"


def test_how_often_it_beats_the_baseline_counts_every_pair(synthetic: ModuleType) -> None:
    table = _table(synthetic)
    assert _entry(table, "b", "probability_of_improvement").estimate.point == 1.0
    assert _entry(table, "c", "probability_of_improvement").estimate.point == 0.0
    diverged = {"value": None, "status": "diverged", "reason": "nan"}
    table = _table(synthetic, b_t1_2=diverged)
    found = _entry(table, "b", "probability_of_improvement").estimate
    assert (found.point, found.n) == (pytest.approx(11 / 12), 12)
    assert _entry(table, "b", "accuracy").text.endswith("†")
    assert table.footnotes


def test_a_variant_without_a_task_is_pooled_over_none(synthetic: ModuleType) -> None:
    skipped = {"value": None, "status": "skipped", "reason": "no"}
    table = _table(synthetic, **{f"b_t2_{seed}": skipped for seed in SEEDS})
    entry = _entry(table, "b", "accuracy")
    assert (entry.text, entry.estimate.point) == ("no result on t2", None)
    assert _entry(table, "b", "accuracy_difference").text == "–"
    assert _entry(table, "c", "accuracy").estimate.point is not None


def test_two_tasks_have_no_interquartile_mean(synthetic: ModuleType) -> None:
    table = _table(synthetic, TASKS[:2])
    assert [column.key for column in table.columns] == [
        "accuracy", "accuracy_difference", "probability_of_improvement",
    ]  # fmt: skip


def test_one_task_or_two_metrics_are_not_pooled(synthetic: ModuleType) -> None:
    assert _exhibit(synthetic, TASKS[:1]) is None
    sweep = synthetic.sweep()  # bits on one task, accuracy on the other
    assert pooled_exhibit(sweep.about, all_series(sweep.about, sweep.results)) is None


def test_a_task_that_is_an_axis_is_not_pooled(synthetic: ModuleType) -> None:
    names = tuple(f"task={task}" for task in TASKS)
    said = _about(synthetic, TASKS, variants=names, baseline=names[0])
    rows = [
        synthetic.row(said, f"task={task}", task, "quality", synthetic.ACCURACY, value=0.5)
        for task in TASKS
    ]
    assert pooled_exhibit(said, all_series(said, results_frame(rows))) is None


def test_nothing_measured_and_one_seed_are_told(synthetic: ModuleType) -> None:
    said = _about(synthetic, TASKS)
    made = pooled_exhibit(said, all_series(said, results_frame([])))
    assert made is not None
    assert _entry(made.tables[0], "b", "accuracy").text == "no result on t1, t2, t3"
    rows = [
        synthetic.row(said, v, task, "quality", synthetic.ACCURACY, value=_value(v, task, 0))
        for v in SHIFTS for task in TASKS
    ]  # fmt: skip
    made = pooled_exhibit(said, all_series(said, results_frame(rows)))
    assert made is not None
    change = _entry(made.tables[0], "b", "accuracy_difference")
    assert (change.estimate.n, change.interval) == (3, "")


def test_too_many_variants_are_not_pooled_and_it_is_said(synthetic: ModuleType) -> None:
    names = tuple(f"v={number}" for number in range(501))
    said = _about(synthetic, TASKS, variants=names, baseline=names[0])
    made = pooled_exhibit(said, all_series(said, results_frame([])))
    assert made is not None
    assert made.tables == ()
    assert "more than 500 variants" in made.sentences[-1]


def test_it_says_that_it_is_exploratory(synthetic: ModuleType) -> None:
    made = _exhibit(synthetic)
    assert made is not None
    assert "exploratory" in made.sentences[0]
