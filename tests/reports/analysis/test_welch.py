"""The ratio of two unpaired sets of times: against scipy's Welch test."""

from __future__ import annotations

import math

import pytest
from scipy import stats

from reports.compare.changes import unpaired_ratio

A, B = [1.0, 1.1, 1.05], [2.0, 2.6, 2.2, 2.3]


def test_it_is_welchs_interval_of_the_logarithms() -> None:
    logs = [[math.log(x) for x in values] for values in (B, A)]
    wanted = stats.ttest_ind(*logs, equal_var=False).confidence_interval(0.95)
    found, inverse = unpaired_ratio(A, B), unpaired_ratio(B, A)
    assert found.n == 7
    assert found.point == pytest.approx(stats.gmean(B) / stats.gmean(A))
    assert found.low == pytest.approx(math.exp(wanted.low))
    assert found.high == pytest.approx(math.exp(wanted.high))
    assert inverse.high == pytest.approx(math.exp(-wanted.low))


def test_few_or_equal_processes() -> None:
    single = unpaired_ratio([2.0], [3.0, 3.0])
    assert (single.point, single.low) == (pytest.approx(1.5), None)
    assert unpaired_ratio([], B).point is None
    assert unpaired_ratio([0.0], B).point is None
    without_spread = unpaired_ratio([1.0, 1.0], [2.0, 2.0])
    assert without_spread.low == without_spread.high == pytest.approx(2.0)
