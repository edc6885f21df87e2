"""Is the sign-flip p exact? Against every sign by hand, against scipy, and by counting."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from reports.sign_flip import MOST_PAIRS, num_pairs_needed, sign_flip


def _by_hand(differences: list[float]) -> float:
    seen = abs(sum(differences))
    signs = itertools.product((1, -1), repeat=len(differences))
    sums = [abs(sum(s * d for s, d in zip(each, differences, strict=True))) for each in signs]
    return sum(total >= seen - 1e-9 for total in sums) / len(sums)


@pytest.mark.parametrize("n", [6, 7, 10])
def test_every_sign_counts_once(n: int) -> None:
    differences = np.random.default_rng(n).normal(0.6, 1, n).tolist()
    assert sign_flip(differences).p == _by_hand(differences)


def test_it_is_that_of_scipy() -> None:
    differences = np.random.default_rng(3).normal(0.4, 1, 9)
    theirs = stats.permutation_test(
        (differences,), np.mean, permutation_type="samples", n_resamples=np.inf, vectorized=False
    )
    assert sign_flip(differences.tolist()).p == pytest.approx(theirs.pvalue, abs=1e-12)


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


def test_order_and_sign_do_not_matter() -> None:
    differences = np.random.default_rng(5).normal(1, 1, 8).tolist()
    turned = [-d for d in reversed(differences)]
    assert sign_flip(turned).p == sign_flip(differences).p


def test_many_pairs_are_still_exact() -> None:
    n = 24
    found = sign_flip([1.0] * 20 + [-1.0] * 4)
    assert found.p == 2 * sum(math.comb(n, k) for k in range(20, n + 1)) / 2**n
    assert sign_flip([1.0] * (MOST_PAIRS + 1)).p is None


def test_under_the_null_it_errs_no_more_than_it_says() -> None:
    """Skewed on purpose: a difference of two that are alike is symmetric all the same."""
    rng = np.random.default_rng(0)
    draws = rng.lognormal(size=(1500, 8)) - rng.lognormal(size=(1500, 8))
    wrong = np.mean([(sign_flip(row.tolist()).p or 1) <= 0.05 for row in draws])
    assert wrong <= 0.05 + 3.5 * math.sqrt(0.05 * 0.95 / 1500)
