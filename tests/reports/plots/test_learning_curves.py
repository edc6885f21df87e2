"""Curves are read off their points, each seed once, and nothing is extrapolated."""

from __future__ import annotations

import math

import pandas as pd
import pytest

from reports.plots.learning_curves import Curves, by_flops, by_seconds, learning_curves
from reports.results.frame import Sweep
from tests.reports import conftest as synthetic
from tests.reports.conftest import judged, known


def _curves(sweep: Sweep, points: pd.DataFrame | None = None) -> Curves:
    points = sweep.curves if points is None else points
    return known(learning_curves(sweep.about, points, judged(sweep)))


def test_a_score_lies_between_its_neighbours_and_nowhere_else() -> None:
    curve = _curves(synthetic.sweep()).seeds["heads=1"][0]
    middle = (curve.spent[2] + curve.spent[3]) / 2
    assert curve.score_at(middle) == pytest.approx((curve.scores[2] + curve.scores[3]) / 2)
    assert curve.score_at(curve.spent[-1]) == curve.scores[-1]
    assert curve.score_at(curve.spent[0]) == curve.scores[0]
    assert curve.score_at(curve.spent[0] - 1e-9) is None
    assert curve.score_at(curve.spent[-1] + 1e-9) is None


def test_a_seed_trained_twice_counts_once() -> None:
    sweep = synthetic.sweep()
    again = sweep.curves.assign(environment_id="zzz", trial_id="zzz", value=9.0)
    twice = pd.concat([again, sweep.curves], ignore_index=True)
    assert _curves(sweep, twice) == _curves(sweep)


@pytest.mark.parametrize("value", [math.nan, math.inf, -1e300])
def test_what_is_no_number_is_no_point(value: float) -> None:
    sweep = synthetic.sweep()
    points = sweep.curves.copy()
    points.loc[points["step"] == 75, "value"] = value
    steps = _curves(sweep, points).seeds["heads=1"][0].steps
    assert steps == tuple(step for step in _curves(sweep).seeds["heads=1"][0].steps if step != 75)


def test_seconds_are_steps_times_the_step_of_the_variant() -> None:
    curves = _curves(synthetic.sweep())
    made = by_seconds(curves, {"heads=1": 0.5, "heads=8": 2.0})
    assert set(made.seeds) == {"heads=1", "heads=8"}
    for variant, pace in (("heads=1", 0.5), ("heads=8", 2.0)):
        for seed in made.seeds[variant]:
            assert seed.spent == tuple(pace * step for step in seed.steps)


def test_flops_are_those_of_the_points_and_all_of_them() -> None:
    sweep = synthetic.sweep()
    points = sweep.curves.copy()
    points.loc[points["variant"] == "heads=4", "flops"] = math.nan
    made = by_flops(_curves(sweep, points))
    assert "heads=4" not in made.seeds
    assert made.seeds["heads=2"][0].spent[0] == 38 * 3 * 32 * 29_360_128.0


def test_without_points_there_are_no_curves() -> None:
    sweep = synthetic.sweep()
    assert learning_curves(sweep.about, sweep.curves.iloc[:0], judged(sweep)) is None
    other = sweep.curves[sweep.curves["task"] != "majority"]
    assert learning_curves(sweep.about, other, judged(sweep)) is None
