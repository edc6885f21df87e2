"""Test the cost of a training from steps, step time and devices in one environment."""

from __future__ import annotations

import statistics
from dataclasses import replace
from typing import Any

import pytest

from bakeoff.reports.analysis.cost import (
    cost_column,
    setting,
    step_times,
    steps_column,
    training_seconds,
    variant_costs,
)
from bakeoff.reports.document import NO_ENTRY, Column
from bakeoff.reports.results.frame import results_frame
from bakeoff.reports.results.series import all_series
from bakeoff.reports.tables.comparison import comparison_table
from bakeoff.reports.view import Sweep
from bakeoff.suite.schema import About, MetricSpec
from tests.reports import conftest as synthetic
from tests.reports.conftest import known, series_of

TASK = "majority"


def _step(sweep: Any, variant: str) -> float:
    rows = sweep.results.query("metric == 'training_step_seconds' and task == @TASK")
    return float(statistics.median(rows[rows["variant"] == variant]["value"]))


def _column(**place: Any) -> Column | None:
    """Return the cost column of the sweep, as if it had been timed at that place."""
    sweep = synthetic.sweep()
    made = replace(synthetic.PLACE, **place)
    about = synthetic.about(provenances={synthetic.PLACE.environment_id: made})
    return cost_column(about, series_of(sweep), TASK, about.variants)


def test_a_training_is_its_steps_times_the_median_step() -> None:
    sweep = synthetic.sweep()
    times = known(step_times(series_of(sweep), TASK))
    found = training_seconds(sweep.about, times)
    assert found["heads=2"] == pytest.approx(300 * _step(sweep, "heads=2"))
    assert times.environment_id == synthetic.PLACE.environment_id


def test_a_variant_whose_budget_sets_its_steps_costs_these() -> None:
    sweep = synthetic.sweep()
    about = replace(sweep.about, training_steps={TASK: {"heads=2": 150}})
    times = known(step_times(series_of(sweep), TASK))
    found, usual = (training_seconds(each, times) for each in (about, sweep.about))
    assert found["heads=2"] == pytest.approx(usual["heads=2"] / 2)
    assert found["heads=8"] == usual["heads=8"]
    ours, usual_flops = (
        next(cost for cost in variant_costs(each, series_of(sweep), TASK) if cost.key == "flops")
        for each in (about, sweep.about)
    )
    assert ours.amounts["heads=2"] == usual_flops.amounts["heads=2"] / 2
    column = known(steps_column(about, TASK, about.variants))
    assert column.entries["heads=2"].text == "150"
    assert column.entries["heads=8"] == NO_ENTRY
    assert steps_column(sweep.about, TASK, about.variants) is None


@pytest.mark.parametrize(
    ("place", "unit", "num_devices"),
    [
        ({"num_threads": 1}, "core-seconds", 1),
        ({"num_threads": 4}, "core-seconds", 4),
        ({"num_threads": 8, "num_gpus": 1.0}, "GPU-seconds", 1),
        ({"num_threads": 8, "num_gpus": 0.25}, "GPU-seconds", 1),  # timings do not share a GPU
        ({"num_threads": 64}, "core-minutes", 64),
    ],
)
def test_cost_counts_devices_and_says_where(
    place: dict[str, Any], unit: str, num_devices: int
) -> None:
    column = known(_column(**place))
    assert column.unit == unit
    assert "on AMD EPYC 7B13 with" in column.note
    exact = num_devices * 300 * _step(synthetic.sweep(), "heads=2")
    entry = column.entries["heads=2"]
    assert entry.estimate.point == pytest.approx(exact)
    factor = 60 if unit == "core-minutes" else 1
    assert float(entry.text) == pytest.approx(exact / factor, rel=1e-3)


def test_long_trainings_cost_hours() -> None:
    sweep = synthetic.sweep()
    about = synthetic.about(settings={"steps": 1_000_000})
    column = known(cost_column(about, series_of(sweep), TASK, about.variants))
    assert column.unit == "core-hours"
    assert float(column.entries["heads=1"].text) == pytest.approx(
        1e6 * _step(sweep, "heads=1") / 3600, rel=1e-3
    )


def test_a_variant_without_times_has_none() -> None:
    sweep = synthetic.sweep()
    lacks = (sweep.results["variant"] == "heads=2") & (sweep.results["probe"] == "step_time")
    measured = all_series(sweep.about, sweep.results[~lacks])
    column = cost_column(sweep.about, measured, TASK, sweep.about.variants)
    assert column.entries["heads=2"].text == "–"
    assert column.entries["heads=1"].estimate.n == 1


@pytest.mark.parametrize(
    "changes", [{"settings": {}}, {"settings": {"steps": "many"}}, {"provenances": {}}]
)
def test_without_steps_or_place_there_is_no_column(changes: dict[str, Any]) -> None:
    sweep = synthetic.sweep()
    about = synthetic.about(**changes)
    assert cost_column(about, series_of(sweep), TASK, about.variants) is None


def test_the_column_stands_only_where_something_is_trained() -> None:
    sweep = synthetic.sweep()
    whole = comparison_table(sweep.about, series_of(sweep), TASK)
    assert whole.columns[-1].key == "training_cost"
    untrained = synthetic.about(metrics={}, probes=("step_time",))
    rows = sweep.results[sweep.results["probe"] == "step_time"]
    table = comparison_table(untrained, all_series(untrained, rows), TASK)
    (column,) = table.columns
    assert column.key == f"training_step_seconds_length=128_{synthetic.PLACE.environment_id}"


def test_a_setting_is_the_variants_own_where_it_is_an_axis() -> None:
    about: About = synthetic.about()
    assert setting(about, "heads=8", "steps") == 300
    assert setting(about, "heads=8, steps=900", "steps") == 900
    assert setting(about, "heads=8", "patience") == 0
    assert setting(about, "steps=-3", "steps") == 0


def test_flops_count_forward_and_backward_of_every_batch() -> None:
    sweep = synthetic.sweep()
    costs = {cost.key: cost for cost in variant_costs(sweep.about, series_of(sweep), TASK)}
    assert list(costs) == ["seconds", "flops"]
    assert costs["flops"].amounts["heads=8"] == 3 * 29_360_128 * 32 * 300
    last = sweep.curves.query("variant == 'heads=8' and step == 297").iloc[0]
    assert costs["flops"].amounts["heads=8"] == pytest.approx(last["flops"] / 297 * 300)


def test_flops_are_those_of_the_learning_curve_where_there_is_one() -> None:
    """Check that passes that a recipe adds, as a teacher's, are counted."""
    sweep = synthetic.sweep()
    counted = Sweep.of_frames(
        sweep.about, sweep.results, sweep.curves.assign(flops=sweep.curves["flops"] * 20)
    )
    costs = {c.key: c for c in variant_costs(counted.about, counted.series, TASK)}
    last = sweep.curves.query("variant == 'heads=8' and task == @TASK")["flops"].max()
    assert costs["flops"].amounts["heads=8"] == 20 * last


@pytest.mark.parametrize(
    ("name", "plain", "other"),
    [("distillation", "none", "soft"), ("adversarial_steps", 0, 3), ("accumulation", 1, 4)],
)
def test_a_recipe_that_the_timed_step_lacks_has_no_training_time(
    name: str, plain: str | int, other: str | int
) -> None:
    sweep = synthetic.sweep()
    values = {v: {name: other if v == "heads=2" else plain} for v in sweep.about.variants}
    axes = dict.fromkeys(values, (name,))
    about = replace(sweep.about, axis_values=values, named_axes=axes)
    times = known(step_times(series_of(sweep), TASK))
    found = training_seconds(about, times)
    assert found.keys() == training_seconds(sweep.about, times).keys() - {"heads=2"}
    flops = next(c for c in variant_costs(about, series_of(sweep), TASK) if c.key == "flops")
    assert "heads=2" not in flops.amounts
    shared = replace(sweep.about, settings={**sweep.about.settings, name: other})
    assert bool(training_seconds(shared, times)) == (name == "accumulation")


def test_the_environment_with_most_times_is_taken() -> None:
    said = synthetic.about()
    rows = [
        synthetic.row(
            said,
            "heads=8",
            TASK,
            "step_time",
            synthetic.SECONDS,
            seed=seed,
            value=value,
            environment_id=place,
            trial_id=f"{place}-{seed}",
        )
        for place, values in (("slow", (9.0,)), ("fast", (0.01, 0.02, 0.03)))
        for seed, value in enumerate(values)
    ]
    times = known(step_times(all_series(said, results_frame(rows)), TASK))
    assert (times.environment_id, times.seconds) == ("fast", {"heads=8": 0.02})


def test_a_state_is_a_cost_whatever_machine_said_it() -> None:
    """Check that bytes by formula on two machines are one series, named after neither."""
    said = synthetic.about(probes=("quality", "state_bytes"))
    spec = MetricSpec(name="state_bytes", unit="B", better="lower", at="length=2048")
    rows = [
        synthetic.row(
            said,
            variant,
            TASK,
            "state_bytes",
            spec,
            value=1024.0 * (place + 1),
            environment_id=f"machine-{place}",
        )
        for place, variant in enumerate(said.variants)
    ]
    (cost,) = variant_costs(said, all_series(said, results_frame(rows)), TASK)
    assert (cost.key, cost.unit) == ("state", "B")
    assert cost.amounts == {v: 1024.0 * (place + 1) for place, v in enumerate(said.variants)}
    assert cost.how.endswith("computed by formula after 2,048 tokens.")


@pytest.mark.parametrize(
    ("changes", "is_said"),
    [
        ({}, False),
        ({"settings": {"steps": 300, "batch": 32, "start": "definitions_masked"}}, True),
        ({"variants": ("heads=1", "heads=2, start=none")}, True),
    ],
)
def test_it_is_said_that_a_start_is_not_counted(changes: dict[str, Any], is_said: bool) -> None:
    """Otherwise pretraining would appear to cost nothing."""
    measured = series_of(synthetic.sweep())
    costs = [
        cost
        for cost in variant_costs(synthetic.about(**changes), measured, TASK)
        if cost.key in ("seconds", "flops")
    ]
    assert costs
    assert all(("pre-training" in cost.how) == is_said for cost in costs)


def test_failures_do_not_make_an_environment_the_most_measured() -> None:
    said = synthetic.about()
    ends = {"fast": (0.01, 0.02, 0.03), "slow": (9.0, None, None, None, None)}
    rows = [
        synthetic.row(
            said,
            "heads=8",
            TASK,
            "step_time",
            synthetic.SECONDS,
            seed=seed,
            value=value,
            status="ok" if value else "out_of_memory",
            environment_id=place,
            trial_id=f"{place}-{seed}",
        )
        for place, values in ends.items()
        for seed, value in enumerate(values)
    ]
    times = known(step_times(all_series(said, results_frame(rows)), TASK))
    assert (times.environment_id, times.seconds) == ("fast", {"heads=8": 0.02})
