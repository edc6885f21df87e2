"""The rules by which something has changed, on numbers whose change is known."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from reports.analysis.time_comparison import CLEAR_GAP
from reports.compare.changes import (
    Change,
    ChangeOutcome,
    NumberKind,
    compare_selections,
    level_beyond_gap,
    unpaired_ratio,
)
from reports.compare.pairs import Selection
from reports.compare.table import by_title
from reports.stats.intervals import mean_interval
from tests.reports.compare.made_selections import THERE, row, rows, selection

BITS = [2.0, 2.1, 2.2, 2.05]
SECONDS = [0.010, 0.0101, 0.0099]


def changes(a: Selection, b: Selection) -> list[Change]:
    return compare_selections(a, b)[0]


def change(metric: str, a: list[float], b: list[float], **of_b: Any) -> Change:
    (found,) = changes(selection(rows(metric, a)), selection(rows(metric, b, **of_b)))
    return found


def shifted(values: list[float], by: float, wobble: float = 0.001) -> list[float]:
    return [value + by + wobble * (-1) ** index for index, value in enumerate(values)]


def times(values: list[float], factor: float) -> list[float]:
    return [factor * (1 + 0.001 * (-1) ** index) * x for index, x in enumerate(values)]


SHARES, RATES = [0.5, 0.6, 0.55], [100.0, 101.0, 99.0]
CASES = {
    "equal scores": ("bits", BITS, BITS, "identical"),
    "equal times": ("seconds", SECONDS, SECONDS, "identical"),
    "equal counts": ("num_parameters", [7.0], [7.0], "identical"),
    "more bits": ("bits", BITS, shifted(BITS, 0.1), "worse"),
    "fewer bits": ("bits", BITS, shifted(BITS, -0.1), "better"),
    "more accuracy": ("accuracy", SHARES, shifted(SHARES, 0.1), "better"),
    "scatter": ("bits", BITS, shifted(BITS, 0.001, wobble=0.1), "open"),
    "two seeds": ("bits", BITS[:2], [9.0, 9.1], "open"),
    "more time": ("seconds", SECONDS, times(SECONDS, 1.2), "slower"),
    "less time": ("seconds", SECONDS, times(SECONDS, 0.8), "faster"),
    "about as much time": ("seconds", SECONDS, times(SECONDS, 1.001), "same"),
    "times that scatter": ("seconds", SECONDS, [0.02, 0.01, 0.015], "ambiguous"),
    "two processes": ("seconds", SECONDS[:2], [0.02, 0.0201], "noisy"),
    "half the rate": ("tokens_per_second", RATES, [50.0, 50.5, 49.5], "slower"),
    "one parameter more": ("num_parameters", [100_000.0], [100_001.0], "moved"),
    "less memory": ("peak_bytes", [100.0], [50.0], "better"),
}


@pytest.mark.parametrize("case", CASES)
def test_the_finding(case: str) -> None:
    metric, a, b, wanted = CASES[case]
    found = change(metric, a, b)
    assert found.finding == wanted
    if wanted == "identical":
        assert (found.p, found.size) == (None, 0.0)


def test_a_score_is_tested_with_students_t_of_the_paired_differences() -> None:
    found = change("bits", BITS, shifted(BITS, 0.1))
    wanted = stats.ttest_rel(shifted(BITS, 0.1), BITS)
    assert found.estimate.point == pytest.approx(0.1)
    assert found.p == pytest.approx(wanted.pvalue)
    assert found.estimate.low == pytest.approx(wanted.confidence_interval(0.95).low)
    assert change("bits", BITS, shifted(BITS, 0.1), made=THERE).finding == "worse"
    last_digit = change("bits", BITS, [*BITS[:3], math.nextafter(BITS[3], 9)])
    assert last_digit.outcome is ChangeOutcome.OPEN
    assert last_digit.p is not None
    assert "holds zero" in last_digit.reason


def test_too_few_common_seeds_are_no_test() -> None:
    two = change("bits", BITS[:2], [9.0, 9.1])
    assert (two.p, two.reason) == (None, "2 paired seeds, and at least 3 are needed")
    later = selection([row("bits", 2.0, seed=seed) for seed in (7, 8, 9)])
    (apart,) = changes(selection(rows("bits", BITS[:3])), later)
    assert (apart.outcome, apart.reason) == (ChangeOutcome.OPEN, "no seed in common")
    assert change("seconds", SECONDS[:2], [0.02, 0.0201]).p is None


def test_a_time_and_a_rate_are_ratios() -> None:
    slower = change("seconds", SECONDS, times(SECONDS, 1.2))
    assert slower.estimate.point == pytest.approx(1.2, rel=2e-3)
    rate = change("tokens_per_second", RATES, [50.0, 50.5, 49.5])
    assert (rate.estimate.point, rate.tone) == (pytest.approx(0.5), "worse")
    noisy = [row("seconds", 0.01, seed, status="noisy", reason="restless") for seed in range(3)]
    (found,) = changes(selection(rows("seconds", SECONDS)), selection(noisy))
    assert (found.outcome, found.reason) == (ChangeOutcome.NOISY, "restless")


def test_times_of_different_devices_get_no_verdict() -> None:
    found = change("seconds", SECONDS, [0.001, 0.0011, 0.0012, 0.001], made=THERE)
    assert (found.outcome, found.p, found.estimate.n) == (ChangeOutcome.OTHER_DEVICE, None, 7)
    ratio = stats.gmean([1, 1.1, 1.2, 1]) / stats.gmean([10, 10.1, 9.9])
    assert found.estimate.point == pytest.approx(ratio)
    assert (found.pair.a.device, found.pair.b.device) == ("Old CPU", "New GPU")
    assert "environment" in found.pair.differs
    memory = change("peak_bytes", [100.0], [100.0], made=THERE)
    assert memory.outcome is ChangeOutcome.OTHER_DEVICE


def test_counts_and_shares() -> None:
    found = change("num_parameters", [100_000.0], [100_001.0])
    assert (found.outcome, found.estimate.point) == (ChangeOutcome.CHANGED, pytest.approx(1.00001))
    assert replace(found, outcome=ChangeOutcome.POSSIBLE).finding == "perhaps moved"
    assert change("num_parameters", [0.0], [5.0]).size == 1.0
    share = change("scaling_efficiency", [0.91], [0.92])  # of times, so no count
    assert share.kind is NumberKind.SCORE


def test_a_seed_that_ends_differently_is_a_change() -> None:
    b = [*rows("bits", BITS[:3]), row("bits", None, 3, status="diverged", reason="nan at step 9")]
    (found,) = changes(selection(rows("bits", BITS)), selection(b))
    assert found.outcome is ChangeOutcome.ENDED_DIFFERENTLY
    assert found.reason == "seed 3: ok in A, diverged (nan at step 9) in B"
    assert found.is_certain
    assert found.size == math.inf


def test_no_number_in_either_is_no_change() -> None:
    failed = selection([row("bits", None, status="skipped", reason="cannot be")])
    (found,) = changes(failed, failed)
    assert (found.outcome, found.reason) == (ChangeOutcome.NO_NUMBER, "skipped")


def scattered(num_tests: int, scale: float, random_seed: int) -> list[Change]:
    """Scores at so many coordinates, A and B from the same distribution."""
    rng = np.random.default_rng(random_seed)
    places = [(f"length={i}", seed) for i in range(num_tests) for seed in range(3)]
    a, b = (
        selection([row("bits", 2.0 + scale * rng.normal(), s, at=at) for at, s in places])
        for _ in range(2)
    )
    return changes(a, b)


def test_holm_keeps_chance_from_changing_anything() -> None:
    """Of 40 tests without an effect 2 exclude zero by chance; a page errs in 5 % of cases."""
    pages = [scattered(40, 0.01, random_seed) for random_seed in range(20)]
    possible = [c for page in pages for c in page if c.outcome is ChangeOutcome.POSSIBLE]
    certain = [[c for c in page if c.is_certain] for page in pages]
    # 40 of 800 are expected; both bounds are five standard deviations away.
    assert 10 <= len(possible) + sum(map(len, certain)) <= 70
    # Of 20 pages, 7 or more err once in 30,000 times.
    assert sum(map(bool, certain)) <= 6
    assert all("not among 40" in found.reason for found in possible)


def test_what_is_clear_survives_holm_and_counts_are_no_part_of_it() -> None:
    noise = [row("bits", 2.0 + 0.01 * s, s, at=f"length={i}") for i in range(5) for s in range(3)]
    other = [
        replaced | {"value": replaced["value"] + 0.001 * (i % 7 - 3)}
        for i, replaced in enumerate(noise)
    ]
    a = selection(noise, rows("bits", [2.0, 2.01, 2.02]), rows("num_parameters", [1.0]))
    b = selection(other, rows("bits", [2.5, 2.5100001, 2.5200002]), rows("num_parameters", [2.0]))
    found = changes(a, b)
    assert {(c.kind, c.outcome) for c in found if c.is_certain} == {
        (NumberKind.SCORE, ChangeOutcome.CHANGED),
        (NumberKind.COUNT, ChangeOutcome.CHANGED),
    }
    assert [c.kind for c in found if c.p is not None] == [NumberKind.SCORE] * 6


def test_scores_then_the_largest_change_stand_first_and_both_ways_round_it_is_the_same() -> None:
    a = selection(
        rows("num_parameters", [100.0]),
        rows("peak_bytes", [100.0]),
        rows("bits", BITS),
        rows("seconds", SECONDS),
    )
    b = selection(
        rows("num_parameters", [101.0]),
        rows("peak_bytes", [10.0]),
        rows("bits", shifted(BITS, 1.0)),
        rows("seconds", [3 * x for x in SECONDS]),
    )
    found = by_title(changes(a, b))[0]["What moved"]
    assert [c.pair.key.metric for c in found] == [
        "bits",
        "peak_bytes",
        "seconds",
        "num_parameters",
    ]
    for there, back in zip(changes(a, b), changes(b, a), strict=True):
        assert there.p == pytest.approx(back.p)
        assert there.size == pytest.approx(back.size)
        is_directed = there.pair.key.better != "none"
        assert {there.tone, back.tone} == ({"better", "worse"} if is_directed else {""})


def test_the_p_of_a_time_is_the_level_at_which_its_interval_leaves_the_gap() -> None:
    for sign in (1, -1):
        logs = [sign * x for x in (0.02, 0.03, 0.045)]
        at_p = mean_interval(logs, confidence=1 - level_beyond_gap(logs))
        nearest = at_p.low if sign > 0 else at_p.high
        assert nearest == pytest.approx(sign * math.log(CLEAR_GAP))
    assert level_beyond_gap([0.001, 0.002, 0.003]) == 1.0


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
