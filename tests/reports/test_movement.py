"""The rules by which something has moved, on numbers whose movement is known."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from reports.analysis.time_comparison import CLEAR_GAP
from reports.movement import Kind, Movement, Movements, Outcome, level_beyond_gap, movements
from reports.stats.intervals import mean_interval
from tests.reports.made_sides import THERE, row, rows, side

BITS = [2.0, 2.1, 2.2, 2.05]
SECONDS = [0.010, 0.0101, 0.0099]


def moved_by(metric: str, a: list[float], b: list[float], **changes: Any) -> Movement:
    (movement,) = movements(side(rows(metric, a)), side(rows(metric, b, **changes))).every
    return movement


def shifted(values: list[float], by: float, wobble: float = 0.001) -> list[float]:
    return [value + by + wobble * (-1) ** index for index, value in enumerate(values)]


def test_equal_numbers_are_identical_and_no_test() -> None:
    for metric, values in (("bits", BITS), ("seconds", SECONDS), ("num_parameters", [7.0])):
        found = moved_by(metric, values, values)
        assert (found.outcome, found.p, found.size) == (Outcome.IDENTICAL, None, 0.0)


def test_the_last_digit_is_a_difference() -> None:
    b = [*BITS[:3], math.nextafter(BITS[3], 9)]
    found = moved_by("bits", BITS, b)
    assert found.outcome is Outcome.OPEN
    assert found.p is not None


def test_a_score_moves_where_the_interval_of_the_paired_differences_excludes_zero() -> None:
    worse, better = (
        moved_by("bits", BITS, shifted(BITS, 0.1)),
        moved_by("bits", BITS, shifted(BITS, -0.1)),
    )
    assert (worse.outcome, worse.finding) == (Outcome.MOVED, "worse")
    assert (better.outcome, better.finding) == (Outcome.MOVED, "better")
    assert worse.change.point == pytest.approx(0.1)
    wanted = stats.ttest_rel(shifted(BITS, 0.1), BITS)
    assert worse.p == pytest.approx(wanted.pvalue)
    assert worse.change.low == pytest.approx(wanted.confidence_interval(0.95).low)
    higher = moved_by("accuracy", [0.5, 0.6, 0.55], shifted([0.5, 0.6, 0.55], 0.1))
    assert higher.finding == "better"


def test_a_score_that_only_scatters_is_open() -> None:
    found = moved_by("bits", BITS, shifted(BITS, 0.001, wobble=0.1))
    assert (found.outcome, found.finding) == (Outcome.OPEN, "open")
    assert "holds zero" in found.reason


def test_two_seeds_and_no_common_seed_leave_it_open() -> None:
    two = moved_by("bits", BITS[:2], [9.0, 9.1])
    assert (two.outcome, two.p) == (Outcome.OPEN, None)
    assert two.reason == "2 paired seeds, and at least 3 are needed"
    later = [row("bits", 2.0, seed=seed) for seed in (7, 8, 9)]
    (apart,) = movements(side(rows("bits", BITS[:3])), side(later)).every
    assert (apart.outcome, apart.reason) == (Outcome.OPEN, "no seed in common")
    assert not movements(side(rows("bits", BITS[:3])), side(later)).has_common


def test_times_are_judged_by_the_rule_of_the_instrument() -> None:
    for factor, outcome in ((1.2, Outcome.SLOWER), (0.8, Outcome.FASTER), (1.001, Outcome.SAME)):
        b = [factor * (1 + 0.001 * (-1) ** i) * x for i, x in enumerate(SECONDS)]
        found = moved_by("seconds", SECONDS, b)
        assert found.outcome is outcome
        assert found.change.point == pytest.approx(factor, rel=2e-3)
    assert moved_by("seconds", SECONDS, [0.02, 0.01, 0.015]).outcome is Outcome.AMBIGUOUS
    few = moved_by("seconds", SECONDS[:2], [0.02, 0.0201])
    assert (few.outcome, few.p) == (Outcome.NOISY, None)


def test_a_rate_that_falls_is_slower() -> None:
    rates = [100.0, 101.0, 99.0]
    found = moved_by("tokens_per_second", rates, [0.5 * rate for rate in rates])
    assert found.outcome is Outcome.SLOWER
    assert found.change.point == pytest.approx(0.5)
    assert (found.tone, found.finding) == ("worse", "slower")


def test_times_of_different_devices_get_no_verdict() -> None:
    found = moved_by("seconds", SECONDS, [0.001, 0.0011, 0.0012, 0.001], made=THERE)
    assert (found.outcome, found.p) == (Outcome.ELSEWHERE, None)
    assert found.change.n == 7
    assert found.change.point == pytest.approx(
        stats.gmean([1, 1.1, 1.2, 1]) / stats.gmean([10, 10.1, 9.9])
    )
    assert (found.a.device, found.b.device) == ("Old CPU", "New GPU")
    assert "environment" in found.differs
    memory = moved_by("peak_bytes", [100.0], [100.0], made=THERE)
    assert memory.outcome is Outcome.ELSEWHERE


def test_scores_of_different_devices_are_compared() -> None:
    assert moved_by("bits", BITS, shifted(BITS, 0.1), made=THERE).outcome is Outcome.MOVED


def test_counts_are_compared_to_the_last_digit() -> None:
    found = moved_by("num_parameters", [100_000.0], [100_001.0])
    assert (found.outcome, found.finding) == (Outcome.MOVED, "moved")
    assert found.change.point == pytest.approx(1.00001)
    assert moved_by("peak_bytes", [100.0], [50.0]).finding == "better"
    assert moved_by("num_parameters", [0.0], [5.0]).size == 1.0


def test_a_share_of_times_is_compared_as_a_score() -> None:
    assert moved_by("scaling_efficiency", [0.91], [0.92]).kind is Kind.SCORE


def test_a_seed_that_ends_differently_has_moved() -> None:
    b = [*rows("bits", BITS[:3]), row("bits", None, 3, status="diverged", reason="nan at step 9")]
    (found,) = movements(side(rows("bits", BITS)), side(b)).every
    assert found.outcome is Outcome.FARED
    assert found.reason == "seed 3: ok in A, diverged (nan at step 9) in B"
    assert found.has_moved
    assert found.size == math.inf


def test_what_has_a_number_nowhere_is_said_to_be_so() -> None:
    failed = [row("bits", None, status="skipped", reason="cannot be")]
    (found,) = movements(side(failed), side(failed)).every
    assert (found.outcome, found.reason) == (Outcome.ABSENT, "skipped")


def test_noise_is_no_other_fate() -> None:
    b = [row("seconds", 0.01, seed, status="noisy", reason="restless") for seed in range(3)]
    (found,) = movements(side(rows("seconds", SECONDS)), side(b)).every
    assert (found.outcome, found.reason) == (Outcome.NOISY, "restless")


def test_what_is_recorded_and_differs_is_named() -> None:
    other = {"commit": "bbbb00000000", "trial_id": "another"}
    assert moved_by("bits", BITS, BITS).differs == ()
    assert moved_by("bits", BITS[:1], BITS[:1], **other).differs == ("trial", "commit")


def scattered(num_variants: int, scale: float, random_seed: int = 0) -> Movements:
    """Scores of so many coordinates, A and B from the same distribution."""
    rng = np.random.default_rng(random_seed)
    given = []
    for _ in range(2):
        given.append([
            row("bits", 2.0 + scale * rng.normal(), seed, at=f"length={place}")
            for place in range(num_variants)
            for seed in range(3)
        ])  # fmt: skip
    return movements(side(given[0]), side(given[1]))


def test_holm_keeps_chance_from_moving_anything() -> None:
    """Of 40 tests without an effect 2 exclude zero by chance; a page errs in 5 % of cases."""
    pages = [scattered(40, 0.01, random_seed) for random_seed in range(20)]
    alone = sum(len(page.moved) + len(page.perhaps) for page in pages)
    assert 10 <= alone <= 70  # 40 of 800 expected; both bounds are five standard deviations away
    # Of 20 pages, 7 or more err once in 30,000 times.
    assert sum(bool(page.moved) for page in pages) <= 6
    assert all("not among 40" in movement.reason for page in pages for movement in page.perhaps)


def test_what_is_clear_survives_holm_and_counts_are_no_part_of_it() -> None:
    noise = [row("bits", 2.0 + 0.01 * s, s, at=f"length={i}") for i in range(5) for s in range(3)]
    other = [replaced | {"value": replaced["value"] + 0.001 * (i % 7 - 3)}
             for i, replaced in enumerate(noise)]  # fmt: skip
    clear = [2.5, 2.51, 2.52]
    a = side(noise, rows("bits", [2.0, 2.01, 2.02]), rows("num_parameters", [1.0]))
    b = side(other, rows("bits", [x + 1e-7 * i for i, x in enumerate(clear)]),
             rows("num_parameters", [2.0]))  # fmt: skip
    found = movements(a, b)
    assert {(m.kind, m.outcome) for m in found.moved} == {
        (Kind.SCORE, Outcome.MOVED), (Kind.COUNT, Outcome.MOVED),
    }  # fmt: skip
    assert found.num_tested(Kind.SCORE) == 6
    assert found.num_tested(Kind.COUNT) == 0


def test_the_largest_movement_stands_first() -> None:
    a = side(rows("num_parameters", [100.0]), rows("peak_bytes", [100.0]),
             rows("bits", BITS), rows("seconds", SECONDS))  # fmt: skip
    b = side(rows("num_parameters", [101.0]), rows("peak_bytes", [10.0]),
             rows("bits", shifted(BITS, 1.0)),
             rows("seconds", [3 * x for x in SECONDS]))  # fmt: skip
    found = movements(a, b).moved
    assert [m.place.metric for m in found] == ["peak_bytes", "seconds", "bits", "num_parameters"]


def test_both_ways_round_the_same_has_moved() -> None:
    a, b = (
        side(rows("bits", BITS), rows("seconds", SECONDS)),
        side(rows("bits", shifted(BITS, 0.1)), rows("seconds", [1.2 * x for x in SECONDS])),
    )
    there, back = movements(a, b).every, movements(b, a).every
    for one, other in zip(there, back, strict=True):
        assert one.p == pytest.approx(other.p)
        assert one.size == pytest.approx(other.size)
        assert {one.tone, other.tone} == {"better", "worse"}


def test_the_p_of_a_time_is_the_level_at_which_its_interval_leaves_the_gap() -> None:
    for sign in (1, -1):
        logs = [sign * x for x in (0.02, 0.03, 0.045)]
        at_p = mean_interval(logs, confidence=1 - level_beyond_gap(logs))
        nearest = at_p.low if sign > 0 else at_p.high
        assert nearest == pytest.approx(sign * math.log(CLEAR_GAP))
    assert level_beyond_gap([0.001, 0.002, 0.003]) == 1.0


def test_an_unknown_direction_has_no_tone() -> None:
    found = moved_by("num_parameters", [1.0], [2.0])
    assert replace(found, outcome=Outcome.PERHAPS).finding == "perhaps moved"
