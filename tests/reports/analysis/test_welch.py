"""The ratio of two sets of processes that have nothing in common: against scipy's Welch test."""

from __future__ import annotations

import math

import pytest
from scipy import stats

from reports.unpaired import unpaired_ratio

A, B = [1.0, 1.1, 1.05], [2.0, 2.6, 2.2, 2.3]


def test_it_is_welchs_interval_of_the_logarithms() -> None:
    logs = [[math.log(x) for x in side] for side in (B, A)]
    wanted = stats.ttest_ind(*logs, equal_var=False).confidence_interval(0.95)
    found = unpaired_ratio(A, B)
    assert found.n == 7
    assert found.point == pytest.approx(stats.gmean(B) / stats.gmean(A))
    assert found.low == pytest.approx(math.exp(wanted.low))
    assert found.high == pytest.approx(math.exp(wanted.high))


def test_the_other_way_round_it_is_the_inverse() -> None:
    there, back = unpaired_ratio(A, B), unpaired_ratio(B, A)
    assert there.low is not None
    assert back.high == pytest.approx(1 / there.low)


def test_one_process_has_no_interval_and_none_no_ratio() -> None:
    assert unpaired_ratio([2.0], [3.0, 3.0]).point == pytest.approx(1.5)
    assert unpaired_ratio([2.0], [3.0, 3.0]).low is None
    assert unpaired_ratio([], B).point is None
    assert unpaired_ratio([0.0], B).point is None


def test_without_any_spread_the_interval_is_the_point() -> None:
    found = unpaired_ratio([1.0, 1.0], [2.0, 2.0])
    assert found.low == found.high == pytest.approx(2.0)
