"""Test intervals against scipy, by hand, and by their coverage."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from bakeoff.reports.stats.intervals import (
    Estimate,
    mean_interval,
    median_range,
    paired_differences,
    paired_ratio,
    share_interval,
)


def test_digits_that_depend_on_the_processor_are_left_out() -> None:
    made = Estimate(n=3, point=1 / 3, low=1e-5 / 3, high=2 / 3)
    up = [math.nextafter(x, 1) for x in (1 / 3, 1e-5 / 3, 2 / 3)]
    assert Estimate(n=3, point=up[0], low=up[1] + 1e-17, high=up[2]).sure == made.sure
    assert made.sure.point == 0.333333333333
    exact = Estimate(n=3, point=1234567890123457.0)
    assert exact.sure == exact
    assert Estimate(n=0).sure == Estimate(n=0)


@pytest.mark.parametrize(
    "values", [(0.9955, 0.9991, 0.9949), (0.0, 0.001, 0.001), (0.1, 0.3, 0.9999), (1.0, 1.0, 0.5)]
)
def test_the_interval_of_a_share_stays_a_share(values: tuple[float, ...]) -> None:
    plain, found = mean_interval(values), share_interval(values)
    assert plain.low is not None
    assert plain.high is not None
    assert plain.low < 0 or plain.high > 1
    assert found.low is not None
    assert found.high is not None
    assert found.point == plain.point
    assert 0 < found.low < found.point < found.high < 1
    mirrored = share_interval([1 - value for value in values])
    assert (mirrored.low, mirrored.high) == pytest.approx((1 - found.high, 1 - found.low))


@pytest.mark.parametrize("values", [(0.5, 0.52, 0.49), (1.0, 1.0, 1.0), (0.3,), (), (0.9, 1.3, 2)])
def test_other_intervals_are_those_of_student(values: tuple[float, ...]) -> None:
    assert share_interval(values) == mean_interval(values)


@pytest.mark.parametrize("share", [0.0, 0.004, 0.5, 1.0])
def test_equal_shares_have_the_error_of_a_finite_test_split(share: float) -> None:
    found = share_interval([share] * 3, num_examples=1000)
    assert found.point == share
    assert found.low is not None
    assert found.high is not None
    assert 0 <= found.low <= share <= found.high <= 1
    # Wilson's interval is centred at a share of z^2 more examples, half of them right.
    squared = 1.959964**2
    assert (found.low + found.high) / 2 == pytest.approx(
        (1000 * share + squared / 2) / (1000 + squared)
    )
    assert share_interval([share], num_examples=1000).low is None
    assert share_interval([share, 0.3], num_examples=1000) == share_interval([share, 0.3])


@pytest.mark.parametrize(
    ("truth", "num_examples"), [(0.5, 200), (0.9, 500), (0.99, 2_000), (0.999, 10_000)]
)
def test_intervals_of_equal_shares_hold_the_truth(truth: float, num_examples: int) -> None:
    """Let all seeds end at the same model, and draw the test split."""
    rights = np.random.default_rng(5).binomial(num_examples, truth, size=4_000)
    values, counts = np.unique(rights, return_counts=True)
    found = [share_interval([k / num_examples] * 3, 0.95, num_examples) for k in values.tolist()]
    held = np.average([_holds(each, truth) for each in found], weights=counts)
    assert 0.93 < held < 0.98


@pytest.mark.statistics
@pytest.mark.parametrize("num_seeds", [3, 5, 8])
@pytest.mark.parametrize(
    ("truth", "spread"),
    [(0.99, 0.005), (0.998, 0.002), (0.9995, 0.0005), (0.005, 0.004), (0.9, 0.1), (0.5, 0.3)],
)
def test_intervals_of_shares_hold_the_truth(num_seeds: int, truth: float, spread: float) -> None:
    """Draw shares of seeds from a beta distribution, each measured on a test split of 10,000."""
    rng, num, both = np.random.default_rng(16), 2_000, truth * (1 - truth)
    size = both / spread**2 - 1
    true = rng.beta(truth * size, (1 - truth) * size, size=(num, num_seeds))
    seen = rng.binomial(10_000, true) / 10_000
    found = {
        kind: np.mean([_holds(of(some), truth) for some in seen.tolist()])
        for kind, of in (("student", mean_interval), ("share", share_interval))
    }
    print(f"{num_seeds} seeds, {truth} ± {spread}: {found}")
    assert found["share"] >= 0.87
    assert found["share"] >= found["student"] - 0.005


def _holds(found: Estimate, truth: float) -> bool:
    assert found.low is not None
    assert found.high is not None
    return found.low <= truth <= found.high


def test_three_values_by_hand() -> None:
    # mean 2, standard deviation 1; with 2 degrees of freedom t = c sqrt(2 / (1 - c^2)), c = 0.95
    estimate = mean_interval([1.0, 2.0, 3.0])
    half = 0.95 * (2 / (1 - 0.95**2)) ** 0.5 / 3**0.5
    assert estimate.point == 2.0
    assert estimate.low == pytest.approx(2 - half, rel=1e-12)
    assert estimate.high == pytest.approx(2 + half, rel=1e-12)
    assert estimate.half_width == pytest.approx(half, rel=1e-12)


@pytest.mark.parametrize("n", [2, 3, 5, 10, 30])
@pytest.mark.parametrize("confidence", [0.9, 0.95])
def test_interval_is_that_of_scipy(n: int, confidence: float) -> None:
    values = np.random.default_rng(n).normal(3, 2, n)
    low, high = stats.t.interval(confidence, n - 1, loc=values.mean(), scale=stats.sem(values))
    estimate = mean_interval(values.tolist(), confidence)
    assert (estimate.low, estimate.high) == pytest.approx((low, high), rel=1e-10)


def test_one_value_has_no_interval_and_none_has_no_mean() -> None:
    assert mean_interval([4.0]).point == 4.0
    assert mean_interval([4.0]).low is None
    assert mean_interval([4.0]).half_width is None
    assert mean_interval([]).point is None
    assert mean_interval([]).n == 0
    assert not mean_interval([4.0]).excludes_zero


def test_order_does_not_move_a_bit() -> None:
    values = np.random.default_rng(0).normal(1, 1e-3, 7).tolist()
    assert mean_interval(values) == mean_interval(values[::-1])


def test_pairing_uses_common_seeds_only_and_their_order() -> None:
    a, b = {2: 5.0, 0: 1.0, 1: 3.0}, {0: 0.5, 2: 1.0, 7: 9.0}
    assert paired_differences(a, b) == (0.5, 4.0)
    assert paired_ratio(a, b) == pytest.approx(3.5)
    assert paired_ratio(a, {}) is None
    assert paired_ratio({0: 1.0}, {0: 0.0}) is None


def test_pairing_removes_what_seeds_share() -> None:
    b = {seed: 10.0 * seed for seed in range(3)}
    a = {seed: value + 1 + 0.01 * seed for seed, value in b.items()}
    assert mean_interval(paired_differences(a, b)).excludes_zero
    unpaired = stats.ttest_ind(list(a.values()), list(b.values())).pvalue
    assert unpaired > 0.5


def test_median_and_range() -> None:
    estimate = median_range([3.0, 1.0, 2.0, 100.0])
    assert (estimate.point, estimate.low, estimate.high) == (2.5, 1.0, 100.0)
    assert median_range([]).point is None
    assert median_range([2.0]).low is None
