"""Test that curves are read from their points, with each seed once."""

from __future__ import annotations

import math

import pandas as pd
import pytest

from bakeoff.reports.plots.learning_curves import Curves, learning_curves
from bakeoff.reports.view import Sweep
from tests.reports import conftest as synthetic
from tests.reports.conftest import judged, known


def _curves(sweep: Sweep, points: pd.DataFrame | None = None) -> Curves:
    points = sweep.curves if points is None else points
    return known(learning_curves(sweep.about, points, judged(sweep)))


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


def test_without_points_there_are_no_curves() -> None:
    sweep = synthetic.sweep()
    assert learning_curves(sweep.about, sweep.curves.iloc[:0], judged(sweep)) is None
    other = sweep.curves[sweep.curves["task"] != "majority"]
    assert learning_curves(sweep.about, other, judged(sweep)) is None
