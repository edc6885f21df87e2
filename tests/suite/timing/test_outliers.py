"""Tukey's fences, counted."""

from __future__ import annotations

from suite.timing.outliers import Outliers, outliers

NINE = [float(i) for i in range(1, 10)]


def test_mild_and_severe_ones_are_told_apart() -> None:
    assert outliers(NINE) == Outliers(0, 0)
    # Two more at each end put the quartiles at 2 and 8: fences at -7, 17 and at -16, 26.
    samples = [*NINE, -10.0, 20.0, -30.0, 30.0]
    assert outliers(samples) == Outliers(mild=2, severe=2)


def test_a_value_on_the_fence_is_inside() -> None:
    assert outliers([0.0, 1.0, 2.0, 3.0, 6.0]) == Outliers(0, 0)  # 3 + 1.5 * 2
    assert outliers([0.0, 1.0, 2.0, 3.0, 6.001]) == Outliers(1, 0)


def test_one_sample_has_no_outliers() -> None:
    assert outliers([1.0]) == outliers([]) == Outliers(0, 0)


def test_where_all_are_equal_any_other_is_severe() -> None:
    assert outliers([1.0] * 9 + [1.1]) == Outliers(0, 1)
