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
    Family,
    SmallestLevels,
    holm,
    num_pairs_needed,
    num_seeds_to_settle,
    power,
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


def _levels(**claims: tuple[float, float]) -> dict[str, float]:
    families = holm({k: SmallestLevels(decides=d, excludes_zero=z) for k, (d, z) in claims.items()})
    return {name: family.level for name, family in families.items()}


def test_one_claim_has_the_whole_level() -> None:
    assert holm({"x": SmallestLevels(decides=0.01)}) == {"x": Family()}
    assert holm({}) == {}


def test_each_that_differs_leaves_more_for_the_next() -> None:
    # 0.05/4, 0.05/3, 0.05/2, 0.05
    levels = _levels(d=(0.03, 0.03), a=(0.001, 0.001), c=(0.02, 0.02), b=(0.013, 0.013))
    assert levels == pytest.approx({"a": 0.05 / 4, "b": 0.05 / 3, "c": 0.05 / 2, "d": 0.05})


def test_the_first_that_stays_open_ends_it() -> None:
    levels = _levels(a=(0.001, 0.001), b=(0.03, 0.03), c=(0.04, 0.04))
    assert levels == pytest.approx({"a": 0.05 / 3, "b": 0.05 / 2, "c": 0.05 / 2})


def test_exactly_at_the_level_is_not_below_it() -> None:
    assert _levels(a=(0.025, 0.025), b=(0.03, 0.03)) == {"a": 0.025, "b": 0.025}


def test_a_claim_of_no_difference_keeps_its_share() -> None:
    """Use a claim that is equivalent at any level, with zero well inside its interval."""
    assert _levels(a=(1e-9, 0.8), b=(0.02, 0.02)) == {"a": 0.025, "b": 0.025}
    assert _levels(a=(1e-9, 1e-9), b=(0.02, 0.02)) == {"a": 0.025, "b": 0.05}


def test_what_cannot_be_judged_counts_too() -> None:
    levels = _levels(lost=(1.0, 1.0), b=(0.02, 0.02))
    assert levels == {"b": 0.025, "lost": 0.05}
    assert holm({"x": SmallestLevels(), "y": SmallestLevels()})["x"].num_claims == 2


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
