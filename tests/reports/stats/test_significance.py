"""Test the sign-flip test, Holm's correction and power against scipy, tables and brute force."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from bakeoff.reports.stats.intervals import mean_interval
from bakeoff.reports.stats.significance import (
    MOST_PAIRS,
    MOST_SEEDS,
    holm,
    num_pairs_needed,
    num_seeds_to_settle,
    power,
    q_values,
    sign_flip,
    smallest_effect,
)
from tests.reports.conftest import known


def _by_hand(differences: list[float]) -> float:
    seen = abs(sum(differences))
    signs = itertools.product((1, -1), repeat=len(differences))
    sums = [abs(sum(s * d for s, d in zip(each, differences, strict=True))) for each in signs]
    return sum(total >= seen - 1e-9 for total in sums) / len(sums)


@pytest.mark.parametrize("n", [6, 7, 10])
def test_every_sign_counts_once(n: int) -> None:
    differences = np.random.default_rng(n).normal(0.6, 1, n).tolist()
    turned = [-d for d in reversed(differences)]
    assert sign_flip(differences).p == sign_flip(turned).p == _by_hand(differences)


def test_equal_sums_count_although_they_are_rounded() -> None:
    differences = [0.1, 0.2, 0.3, 0.1, 0.2, 0.3]  # 0.1 + 0.2 is not 0.3 in binary
    whole = [1.0, 2.0, 3.0, 1.0, 2.0, 3.0]
    assert sign_flip(differences).p == sign_flip(whole).p == _by_hand(whole)


@pytest.mark.parametrize(("alpha", "needed"), [(0.05, 6), (0.05 / 8, 9), (0.0625, 5), (0.5, 2)])
def test_too_few_pairs_have_no_p_but_say_how_many_it_takes(alpha: float, needed: int) -> None:
    few, enough = sign_flip([1.0] * (needed - 1), alpha), sign_flip([1.0] * needed, alpha)
    assert num_pairs_needed(alpha) == few.num_pairs_needed == needed
    assert few.p is None
    assert few.least_p > alpha
    assert enough.p == enough.least_p == 2 / 2**needed <= alpha


def test_no_difference_at_all_and_none_at_all() -> None:
    assert sign_flip([0.0] * 8).p == 1.0
    assert sign_flip([]).p is None
    assert sign_flip([]).least_p == 1.0


def test_many_pairs_are_still_exact() -> None:
    n = 24
    found = sign_flip([1.0] * 20 + [-1.0] * 4)
    assert found.p == 2 * sum(math.comb(n, k) for k in range(20, n + 1)) / 2**n
    assert sign_flip([1.0] * (MOST_PAIRS + 1)).p is None


def test_under_the_null_it_errs_no_more_than_it_says() -> None:
    """Draw from a skewed distribution; a difference of two equal ones is symmetric."""
    rng = np.random.default_rng(0)
    draws = rng.lognormal(size=(1500, 8)) - rng.lognormal(size=(1500, 8))
    wrong = np.mean([(sign_flip(row.tolist()).p or 1) <= 0.05 for row in draws])
    assert wrong <= 0.05 + 3.5 * math.sqrt(0.05 * 0.95 / 1500)


def test_holm_multiplies_by_the_number_of_tests_that_are_left() -> None:
    found = holm({"d": 0.03, "a": 0.001, "c": 0.02, "b": 0.013})
    assert found == pytest.approx({"a": 0.004, "b": 0.039, "c": 0.04, "d": 0.04})
    assert holm({"x": 0.4, "y": 0.9}) == pytest.approx({"x": 0.8, "y": 0.9})
    assert holm({}) == {}


def test_q_values_are_those_of_benjamini_and_hochberg() -> None:
    """Compare with the rule by hand: p times m over its rank, and never above a larger one's."""
    found = q_values({"d": 0.04, "a": 0.001, "c": 0.03, "b": 0.029})
    assert found == pytest.approx({"a": 0.004, "b": 0.04, "c": 0.04, "d": 0.04})
    assert q_values({"x": 0.2}) == {"x": 0.2}
    assert q_values({}) == {}


@pytest.mark.parametrize(("n", "effect", "alpha"), [(3, 2.0, 0.05), (10, 0.5, 0.05), (5, 1, 0.01)])
def test_power_is_that_of_the_noncentral_t(n: int, effect: float, alpha: float) -> None:
    quantile = stats.t.ppf(1 - alpha / 2, n - 1)
    theirs = stats.nct.sf(quantile, n - 1, effect * math.sqrt(n))
    assert power(3 * effect, 3.0, n, alpha) == pytest.approx(theirs, abs=1e-9)


@pytest.mark.parametrize("n", [3, 5, 10])
def test_the_smallest_effect_is_found_four_times_in_five(n: int) -> None:
    assert power(smallest_effect(0.02, n, 0.01), 0.02, n, 0.01) == pytest.approx(0.8, abs=1e-6)


def test_without_effect_the_power_is_the_half_level_and_without_spread_certain() -> None:
    assert power(0.0, 1.0, 5) == pytest.approx(0.025)
    assert power(0.1, 0.0, 3) == 1.0


@pytest.mark.parametrize(("gap", "spread"), [(1.0, 1.0), (0.3, 1.0), (0.1, 1.0)])
def test_the_seeds_to_settle_are_the_fewest_whose_interval_excludes(
    gap: float, spread: float
) -> None:
    needed = known(num_seeds_to_settle(gap, spread))
    for n, leaves_out in ((needed, True), (needed - 1, False)):
        values = np.random.default_rng(n).normal(size=n)
        values = gap + spread * (values - values.mean()) / values.std(ddof=1)
        assert mean_interval(values.tolist()).excludes_zero is leaves_out


def test_few_and_many() -> None:
    assert num_seeds_to_settle(100.0, 1.0) == 3
    assert num_seeds_to_settle(1.0, 0.0) == 3
    assert num_seeds_to_settle(0.0, 1.0) is None
    assert num_seeds_to_settle(0.0, 0.0) is None
    half = float(stats.t.ppf(0.975, MOST_SEEDS - 1)) / math.sqrt(MOST_SEEDS)
    assert num_seeds_to_settle(half * 1.0001, 1.0) == MOST_SEEDS
    assert num_seeds_to_settle(half * 0.9999, 1.0) is None
