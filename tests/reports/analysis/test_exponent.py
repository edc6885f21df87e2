"""Test exponents of known growths: their values, intervals and descriptions."""

from __future__ import annotations

import math

import numpy as np
import pytest

from bakeoff.reports.analysis.exponent import exponent, growth_means, slope_over, which_growth
from tests.reports.made_growth import LENGTHS, counted, growth, timed

LAWS = {
    "n": lambda n: 40e-6 + 2e-6 * n,
    "n log n": lambda n: 40e-6 + 3e-7 * n * math.log2(n),
    "n^2": lambda n: 40e-6 + 1e-8 * n * n,
}


def _attention(n: float) -> float:
    """Return a fixed cost, projections and scores; at 4,096 projections are still a third."""
    return 60e-6 + 2e-6 * n + 1e-9 * n * n


def test_exact_powers_come_back_exactly_and_without_an_interval() -> None:
    of = growth({"a": counted(lambda n: 3 * n**1.5)})
    found = exponent(of, "a", of)
    assert found.estimate.point == pytest.approx(1.5, abs=1e-9)
    assert found.estimate.low is None
    assert found.places == (1024, 2048, 4096)
    assert found.theory == pytest.approx(1.5)
    assert [found.excludes(power) for power in (1.46, 1.54, 1.44, 1.56)] == [0, 0, 1, 1]


def test_slopes_of_a_known_case_by_hand() -> None:
    """Check a t interval with 2 degrees of freedom, from two places and two processes."""
    found = exponent(growth({"a": {64: [1.0, 1.1], 128: [2.0, 2.3]}}), "a")
    logs = [math.log(2.0) + math.log(2.3) - math.log(1.1)]
    point = logs[0] / 2 / math.log(2)
    variance = (math.log(1.1) ** 2 + math.log(1.15) ** 2) / 2 / 2
    half = 4.302652729911275 * math.sqrt(variance) / math.log(2)
    ends = (found.estimate.point, found.estimate.low, found.estimate.high)
    assert ends == pytest.approx((point, point - half, point + half), rel=1e-9)
    assert found.is_pre_asymptotic, "two places cannot say whether the slope still changes"
    steps = (point - 1.01 * half, point - 0.99 * half, point + 0.99 * half, point + 1.01 * half)
    assert [found.excludes(power) for power in steps] == [True, False, False, True]


@pytest.mark.parametrize("name", LAWS)
def test_pure_laws_are_told_from_one_another_and_seldom_called_pre_asymptotic(name: str) -> None:
    rng = np.random.default_rng(4)
    made = [growth({"a": timed(LAWS[name], rng)}) for _ in range(100)]
    others = [f"not {other}" for other in LAWS if other != name]
    expected = {f"{name}; {', '.join(order)}" for order in (others, others[::-1])}
    assert sum(which_growth(one, "a") in expected for one in made[:50]) >= 48
    assert sum(exponent(one, "a").is_pre_asymptotic for one in made) <= 15


def test_what_is_none_of_the_laws_or_cannot_be_told_is_said() -> None:
    cubic = which_growth(growth({"a": counted(lambda n: n**3.0)}), "a")
    assert cubic.startswith("none of the three: the nearest, n^2, is off by ")
    noisy = timed(LAWS["n log n"], np.random.default_rng(1), noise=0.1, places=(64, 80, 100, 128))
    assert " or " in which_growth(growth({"a": noisy}), "a")
    assert which_growth(growth({"a": counted(LAWS["n"], LENGTHS[:3])}), "a") == ""


def test_a_slope_that_still_bends_is_pre_asymptotic() -> None:
    """Use a tight interval around 1.49 that excludes the true exponent 2."""
    found = exponent(growth({"a": timed(_attention, np.random.default_rng(6), noise=0.005)}), "a")
    assert found.estimate.high < 1.6
    assert found.is_pre_asymptotic
    bent = growth({"a": counted(lambda n: n if n < 4096 else 1.1 * n, LENGTHS[-3:])})
    assert exponent(bent, "a").is_pre_asymptotic, "with too few places for a mixture"
    wild = timed(LAWS["n"], np.random.default_rng(8), noise=0.4, places=LENGTHS[-3:])
    assert exponent(growth({"a": wild}), "a").is_pre_asymptotic, "noise would hide a bend"


def test_a_leading_term_that_does_not_lead_is_pre_asymptotic() -> None:
    """Check that two equal local slopes are not enough evidence."""
    rng = np.random.default_rng(6)
    made = timed(lambda n: 5e-5 * n + 1.1e-9 * n * n, rng, noise=0.004)
    assert exponent(growth({"a": made}), "a").is_pre_asymptotic
    last_three = {place: made[place] for place in LENGTHS[-3:]}
    assert not exponent(growth({"a": last_three}), "a").is_pre_asymptotic


def test_what_is_missing_is_said() -> None:
    empty = growth({"a": {}})
    for found in (exponent(empty, "a"), exponent(None, "a")):
        assert (found.why_missing, found.estimate.n) == ("not measured", 0)
        assert found.is_pre_asymptotic
    zeros = exponent(growth({"a": counted(lambda n: 0.0)}), "a")
    assert zeros.why_missing == "measured at one place only, or nothing to count"


def test_a_noisy_place_marks_the_exponent_that_rests_on_it() -> None:
    values = {"a": timed(LAWS["n"], np.random.default_rng(9))}
    marked = exponent(growth(values, noisy=[("a", 4096)]), "a")
    assert marked.is_noisy
    assert not marked.excludes(9.0)
    assert not exponent(growth(values, noisy=[("a", 64)]), "a").is_noisy


def test_a_slope_over_chosen_places_needs_all_of_them() -> None:
    of = growth({"a": counted(lambda n: n**2, LENGTHS[:4])})
    assert slope_over(of, "a", (64, 256)) == pytest.approx(2.0)
    assert slope_over(of, "a", (256, 1024)) is None
    assert slope_over(of, "a", (256,)) is None
    assert slope_over(None, "a", (64, 256)) is None


@pytest.mark.parametrize("noise", [0.005, 0.05])
@pytest.mark.parametrize("places", [LENGTHS, LENGTHS[:2]])
def test_intervals_of_slopes_keep_their_word_at_three_processes(
    noise: float, places: tuple[int, ...]
) -> None:
    rng = np.random.default_rng(10)
    truth = exponent(growth({"a": counted(_attention, places)}), "a").estimate.point
    hits = 0
    for _ in range(300):
        made = timed(_attention, rng, noise=noise, places=places)
        found = exponent(growth({"a": made}), "a").estimate
        hits += found.low <= truth <= found.high
    assert 270 <= hits <= 297


def test_redraws_spread_as_the_interval_does_and_are_always_the_same() -> None:
    made = timed(LAWS["n"], np.random.default_rng(12), num_processes=3)
    means = growth_means(growth({"a": made}), "a")
    low, high = np.quantile(means.redraws()[:, 0], [0.025, 0.975])
    interval = means.contrast(np.eye(len(LENGTHS))[0])
    assert high - low == pytest.approx(interval.high - interval.low, rel=0.12)
    assert (means.redraws() == growth_means(growth({"a": made}), "a").redraws()).all()
