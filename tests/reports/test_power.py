"""Does planning keep its word? Against scipy, tables in books, and the rule that judges."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from reports.power import MOST_SEEDS, num_seeds_to_settle, power, smallest_effect
from reports.statistics import mean_interval


@pytest.mark.parametrize(("n", "effect", "alpha"), [(3, 2.0, 0.05), (10, 0.5, 0.05), (5, 1, 0.01)])
def test_power_is_that_of_the_noncentral_t(n: int, effect: float, alpha: float) -> None:
    quantile = stats.t.ppf(1 - alpha / 2, n - 1)
    theirs = stats.nct.sf(quantile, n - 1, effect * math.sqrt(n))
    assert power(3 * effect, 3.0, n, alpha) == pytest.approx(theirs, abs=1e-9)


def test_thirty_four_pairs_find_half_a_standard_deviation() -> None:
    """Cohen's table: d = 0.5, two-sided 0.05, power 0.8 takes 34 pairs."""
    assert power(0.5, 1.0, 33) < 0.8 < power(0.5, 1.0, 34)


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
    needed = num_seeds_to_settle(gap, spread)
    assert needed is not None
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
