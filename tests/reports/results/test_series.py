"""Test means over seeds: shares stay between 0 and 1; all others use Student's t."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bakeoff.reports.results.series import Series, is_share
from bakeoff.reports.stats.intervals import mean_interval
from tests.reports.made_growth import readings

NEAR_ONE = (0.9965, 0.9985, 0.9945)


def series(metric: str, unit: str) -> Series:
    return Series(
        task="t",
        probe="quality",
        metric=metric,
        unit=unit,
        better="higher",
        readings={"a": readings(NEAR_ONE), "b": readings((0.001, 0.2, 0.9))},
    )


@pytest.mark.parametrize(
    "metric",
    [
        "accuracy",
        "validation_accuracy",
        "next_text_accuracy",
        "exact_match",
        "recall_at_5",
        "written_exact_match",
        "pictures_right",
        "localisation",
    ],
)
def test_a_mean_of_shares_is_a_share(metric: str) -> None:
    whole = series(metric, "1")
    for variant in whole.readings:
        found = whole.mean(variant, 0.99)
        assert found.low is not None
        assert found.high is not None
        assert 0 < found.low < found.high < 1
    apart = whole.mean_difference([1.0, 0.9, 0.2])
    assert (apart.low, apart.high) == (mean_interval([1.0, 0.9, 0.2]).low, 1.0)


@pytest.mark.parametrize(
    ("metric", "unit"),
    [("return_got", "1"), ("mean_squared_error", "1"), ("length_ratio", "1"), ("accuracy", "%")],
)
def test_other_means_are_left_alone(metric: str, unit: str) -> None:
    assert not is_share(metric, unit)
    assert series(metric, unit).mean("a") == mean_interval(NEAR_ONE)


def test_a_mean_stays_within_the_bounds_of_its_metric() -> None:
    errors = replace(
        series("mean_squared_error", "1"), better="lower", readings={"a": readings((0.1, 0.2, 2.0))}
    )
    assert mean_interval((0.1, 0.2, 2.0)).low < 0 == errors.mean("a").low
    bleu = replace(series("bleu", "BLEU"), readings={"a": readings((99.9, 98.0, 99.9))})
    assert mean_interval((99.9, 98.0, 99.9)).high > 100 == bleu.mean("a").high


def test_equal_shares_of_a_whole_task_have_the_error_of_its_test_split() -> None:
    equal = replace(series("accuracy", "1"), readings={"a": readings((1.0, 1.0, 1.0))})
    assert (equal.mean("a").low, equal.mean("a").high) == (1.0, 1.0)  # the size is not known
    found = replace(equal, num_examples=2_000).mean("a")
    assert (found.low, found.high) == pytest.approx((0.99808, 1.0), abs=1e-5)
