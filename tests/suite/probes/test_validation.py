"""Test validation: quality's training, scored on validation data, never on the test split."""

from __future__ import annotations

from pathlib import Path

import pytest

from bakeoff.suite.events import TrainedState
from bakeoff.suite.planning.plan import plan
from bakeoff.suite.probes.quality import Quality
from bakeoff.suite.probes.validation import Validation
from bakeoff.suite.schema import Measurement, Point, Trial
from tests.suite.probes.conftest import TWO_WORKERS
from tests.workplace import Workplace


@pytest.fixture
def trials(tmp_path: Path) -> dict[str, Trial]:
    """Return the trials of one variant and seed by probe."""
    planned = plan(Workplace(tmp_path).ablation(probes=["quality", "validation"], steps=4))
    return {trial.probe: trial for trial in reversed(planned.trials)}


def test_the_number_is_the_last_point_of_qualitys_curve(trials: dict[str, Trial]) -> None:
    points = [
        said for said in Quality().measure(trials["quality"], "cpu") if isinstance(said, Point)
    ]
    state, only = Validation().measure(trials["validation"], "cpu")
    assert isinstance(state, TrainedState)
    assert isinstance(only, Measurement)
    assert (only.metric, only.value, only.unit, only.better) == (
        "validation_accuracy",
        points[-1].value,
        "1",
        "higher",
    )


def test_workers_are_refused_with_a_reason(trials: dict[str, Trial]) -> None:
    model = trials["validation"].subjects[0]
    assert Validation().why_not(model, None) == ""
    assert "one process" in Validation().why_not(model, TWO_WORKERS)
