"""Test the verdicts on claims about speedups whose true size is known, and their error rates."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from bakeoff.reports.analysis.verdict import ClaimOutcome, Verdict, verdict, with_q_values
from bakeoff.reports.results.series import Series
from bakeoff.reports.stats.significance import ALPHA
from bakeoff.suite.schema import FLOORS, Status
from tests.reports import made_speedup as made
from tests.reports.conftest import known
from tests.reports.simulated import reading


def judged(
    num_seeds: int = 3, by: float = 1.2, counted_by: str = "flops", seed: int = 1, **drawn: Any
) -> Verdict:
    said = made.about(num_seeds, drawn.get("num_budgets", 3), by=by, counted_by=counted_by)
    return known(verdict(said, made.measured(np.random.default_rng(seed), num_seeds, **drawn)))


@pytest.mark.parametrize("cost", [0.6, 1.0, 1.6])
@pytest.mark.parametrize("counted_by", ["flops", "step_time"])
@pytest.mark.parametrize(
    ("truth", "by", "outcome"),
    [
        (1.2, 1.1, ClaimOutcome.SUPPORTED),
        (1.2, 1.0, ClaimOutcome.SUPPORTED),
        (1.2, 0.0, ClaimOutcome.SUPPORTED),
        (1.2, 1.4, ClaimOutcome.SMALLER),
        (0.9, 1.2, ClaimOutcome.REFUTED),
        (1.0, 1.2, ClaimOutcome.EQUIVALENT),
        (1.0, 1.0, ClaimOutcome.INCONCLUSIVE),
    ],
)
def test_a_known_speedup_is_judged_as_any_advantage(
    cost: float, counted_by: str, truth: float, by: float, outcome: ClaimOutcome
) -> None:
    found = judged(by=by, counted_by=counted_by, speedup=truth, cost=cost, noise=0.005)
    assert found.advantage.point == pytest.approx(math.log(truth), abs=0.02)
    assert found.outcome is outcome
    assert found.is_ratio


def test_the_sentence_says_how_much_the_other_one_needs() -> None:
    found = judged(speedup=1.4, noise=0.02)
    assert found.sentence.startswith(
        "Mamba-2 needs fewer FLOPs: supported; 1,000 steps needs 1.41 times the FLOPs of "
        "Mamba-2 for the same bits (95 % interval 1."
    )
    assert found.sentence.endswith(", 3 paired seeds), at least the factor of 1.2 claimed.")
    assert found.effect.startswith("1.41 times the FLOPs (1.")
    assert "Fieller" in " ".join(found.details)
    assert "3 budgets of 1,000 steps" in " ".join(found.details)


@pytest.mark.parametrize(
    ("truth", "by", "end"),
    [
        (1.2, 1.2, "); the interval contains the factor of 1.2 claimed."),
        (1.1, 1.5, "), less than the factor of 1.5 claimed."),
        (1.0, 1.5, "); either way it is less than the factor of 1.5 claimed."),
    ],
)
def test_the_interval_is_compared_with_the_claimed_factor(
    truth: float, by: float, end: str
) -> None:
    assert judged(by=by, speedup=truth, noise=0.02).sentence.endswith(end)


def test_an_open_verdict_names_one_and_the_factor_and_how_many_seeds_settle_it() -> None:
    found = judged(num_seeds=4, by=1.2, speedup=1.1, noise=0.5, seed=3)
    assert found.outcome is ClaimOutcome.INCONCLUSIVE
    assert "; by the means, 1,000 steps needs " in found.sentence
    assert found.sentence.endswith("; the interval contains both 1 and the factor of 1.2 claimed.")
    assert found.num_seeds_to_settle
    assert "at the same budget in four of five cases" in " ".join(found.details)


def test_the_seeds_to_settle_are_those_of_the_same_mean_and_spread() -> None:
    """Check against pairs of the present mean and spread, as many as the answer says."""
    found = judged(num_seeds=4, by=1.2, speedup=1.2, noise=0.5, seed=3)
    scores, flops, times = made.measured(np.random.default_rng(3), 4, speedup=1.2, noise=0.5)
    needed = found.num_seeds_to_settle
    assert needed is not None
    copies = needed // 4
    assert copies > 1
    for num, is_settled in ((copies + 1, True), (copies - 1, False)):
        many = replace(
            scores,
            readings={
                label: tuple(
                    reading(one.value, place * 4 + one.seed) for place in range(num) for one in some
                )
                for label, some in scores.readings.items()
            },
        )
        answer = known(verdict(made.about(4 * num), (many, flops, times)))
        assert (answer.outcome is ClaimOutcome.SUPPORTED) == is_settled


@pytest.mark.parametrize(
    ("truth", "says"),
    [
        (2.5, "needs more than 2.00 times the FLOPs of Mamba-2 for the same bits, which is "
              "beyond its largest budget"),
        (0.4, "needs less than 0.50 times the FLOPs of Mamba-2 for the same bits, which is "
              "below its smallest budget"),
    ],
)  # fmt: skip
def test_a_score_outside_the_curve_is_not_tested(truth: float, says: str) -> None:
    found = judged(speedup=truth, noise=0.001)
    assert found.outcome is ClaimOutcome.NOT_TESTED
    assert found.finding == f"no verdict, since 1,000 steps {says}"
    assert (found.p, found.effect, found.advantage.point) == (None, "", None)
    assert not found.details


def test_an_end_beyond_the_curve_is_open_and_excludes_nothing_there() -> None:
    """Check that a limit of the curve is not taken for the end of the interval."""
    found = judged(num_seeds=3, by=3.0, speedup=1.8, noise=0.15, seed=2)
    assert found.advantage.high == math.inf
    assert "2.00 or more" in found.finding
    assert found.outcome is ClaimOutcome.SUPPORTED  # and not smaller than claimed


def test_a_cheap_variant_below_all_budgets_is_not_better_by_the_limit_alone() -> None:
    """Check a variant of 0.3 of the budget, as bad as the smallest budget of the baseline.

    The speedup at the smallest budget is 1.67, which is no end of the interval.
    """
    scores, flops, times = made.measured(
        np.random.default_rng(2), 5, speedup=1.72, cost=0.3, noise=0.5
    )
    found = known(verdict(made.about(5), (scores, flops, times)))
    assert found.outcome is ClaimOutcome.INCONCLUSIVE
    assert "1.67 or less" in found.finding
    assert found.p is not None
    assert found.p > ALPHA


@pytest.mark.parametrize(("truth", "noise"), [(1.15, 0.1), (1.5, 0.7)])
@pytest.mark.parametrize("counted_by", ["flops", "step_time"])
def test_p_is_below_a_level_where_the_interval_excludes_no_speedup(
    counted_by: str, truth: float, noise: float
) -> None:
    kinds = set()
    for seed in range(150):
        found = judged(
            counted_by=counted_by,
            seed=seed,
            speedup=truth,
            cost=[0.4, 1.0, 1.7][seed % 3],
            noise=noise,
            time_noise=0.03,
        )
        if found.outcome in (ClaimOutcome.NOT_TESTED, ClaimOutcome.INVALID):
            continue
        assert found.p is not None
        assert (found.p < ALPHA) == found.advantage.excludes_zero
        kinds.add(found.p < ALPHA)
    assert kinds == {True, False}


def test_a_baseline_that_does_not_improve_gives_no_verdict() -> None:
    scores, *others = made.measured(np.random.default_rng(1), 3)
    readings = dict(scores.readings)
    readings["steps=500"], readings["steps=2000"] = readings["steps=2000"], readings["steps=500"]
    found = known(verdict(made.about(3), (replace(scores, readings=readings), *others)))
    assert found.outcome is ClaimOutcome.INVALID
    assert found.finding == (
        "no verdict, since the baseline does not improve from each of its budgets to the next"
    )


def test_without_a_count_of_the_budget_there_is_no_verdict() -> None:
    scores, flops, _ = made.measured(np.random.default_rng(1), 3)
    none = {**flops.readings, made.MIXER: ()}
    found = known(verdict(made.about(3), (scores, replace(flops, readings=none))))
    assert found.outcome is ClaimOutcome.INVALID
    assert "the FLOPs of Mamba-2 are not known" in found.finding
    timed = known(verdict(made.about(3, counted_by="step_time"), (scores, flops)))
    assert "the training time of Mamba-2" in timed.finding


def _changed(scores: Series, variant: str, status: Status) -> Series:
    first, *rest = scores.readings[variant]
    lost = reading(None, first.seed, status)
    return replace(scores, readings={**scores.readings, variant: (lost, *rest)})


def test_a_seed_of_any_budget_is_missed_or_diverged() -> None:
    scores, *others = made.measured(np.random.default_rng(1), 3)
    crashed = _changed(scores, "steps=2000", Status.CRASHED)
    found = known(verdict(made.about(3), (crashed, *others)))
    assert found.outcome is ClaimOutcome.INVALID
    assert "2,000 steps has bits for 2 of 3" in found.finding
    diverged = _changed(scores, "steps=2000", Status.DIVERGED)
    found = known(verdict(made.about(3), (diverged, *others)))
    assert found.outcome is ClaimOutcome.INCONCLUSIVE
    assert "2,000 steps in 1 of 3" in found.finding
    assert found.improvement is None
    assert found.p is None


def test_models_that_have_not_learnt_the_task_are_not_tested() -> None:
    scores, *others = made.measured(np.random.default_rng(1), 3, speedup=1.4, noise=0.02)
    said = made.about(3)
    floors = {made.TASK: {**said.metrics[made.TASK], FLOORS: (made.BITS,)}}
    said = replace(said, floors={made.TASK: ("unigram",)}, metrics=floors)
    for floor, outcome in ((0.5, ClaimOutcome.NOT_TESTED), (9.0, ClaimOutcome.SUPPORTED)):
        beside = replace(scores, readings={**scores.readings, "unigram": (reading(floor, 0),)})
        found = known(verdict(said, (beside, *others)))
        assert found.outcome is outcome
        assert "needs 1.41 times the FLOPs" in found.finding
        assert (found.p is None) == (outcome is ClaimOutcome.NOT_TESTED)


@pytest.mark.parametrize("num_seeds", [1, 2])
def test_two_seeds_are_too_few(num_seeds: int) -> None:
    found = judged(num_seeds=num_seeds, speedup=1.4, noise=0.001)
    assert found.outcome is ClaimOutcome.UNDERPOWERED


def test_a_model_that_is_the_same_one_has_no_speedup() -> None:
    """Check that rounding in the interpolation gives no p."""
    scores, *others = made.measured(np.random.default_rng(1), 3)
    same = {**scores.readings, made.MIXER: scores.readings["steps=1000"]}
    found = known(verdict(made.about(3), (replace(scores, readings=same), *others)))
    assert found.p == 1.0
    assert found.advantage.point == pytest.approx(0.0, abs=1e-5)
    assert not found.advantage.excludes_zero
    assert found.outcome in (ClaimOutcome.EQUIVALENT, ClaimOutcome.INCONCLUSIVE)


def test_the_claims_of_an_overview_share_q_values() -> None:
    found = with_q_values({"one": judged(speedup=1.4), "two": judged(speedup=1.4, seed=2)})
    assert all(each.q is not None for each in found.values())


# --- speedups in time ----------------------------------------------------------------------------


def test_the_noise_of_step_times_widens_the_interval() -> None:
    quiet, loud = (
        judged(num_seeds=5, counted_by="step_time", speedup=1.2, noise=0.02, time_noise=noise)
        for noise in (0.0, 0.05)
    )
    assert loud.advantage.half_width > 1.5 * known(quiet.advantage.half_width)
    assert "times the training time of Mamba-2" in quiet.finding


def test_only_the_step_of_the_named_training_is_used() -> None:
    """Check that the other budgets, which train the same model, do not move along the curve."""
    said = made.about(3, counted_by="step_time")
    scores, flops, times = made.measured(np.random.default_rng(1), 3, speedup=1.3, noise=0.01)
    slow = tuple(replace(each, value=2 * each.value) for each in times.of("steps=2000"))
    moved = replace(times, readings={**times.readings, "steps=2000": slow})
    answers = [known(verdict(said, (scores, flops, each))).advantage for each in (times, moved)]
    assert answers[0] == answers[1]


def test_a_ratio_within_the_resolution_or_of_noisy_times_is_inconclusive() -> None:
    said = made.about(5, counted_by="step_time")
    scores, flops, times = made.measured(np.random.default_rng(1), 5, speedup=1.2, noise=0.01)
    coarse = replace(times, resolution=math.log(1.3))
    found = known(verdict(said, (scores, flops, coarse)))
    assert found.outcome is ClaimOutcome.INCONCLUSIVE
    assert "a ratio of up to 1.30" in found.finding
    noisy = {
        label: tuple(replace(each, status=Status.NOISY) for each in some)
        for label, some in times.readings.items()
    }
    scores, *_ = made.measured(np.random.default_rng(1), 5, speedup=1.0, noise=0.01)
    found = known(verdict(said, (scores, flops, replace(times, readings=noisy))))
    assert found.outcome is ClaimOutcome.INCONCLUSIVE
    assert found.finding.endswith("most of the timings are noisy")


# --- error rates ---------------------------------------------------------------------------------


def _false(found: Verdict, truth: float, by: float) -> bool:
    match found.outcome:
        case ClaimOutcome.SUPPORTED:
            return truth <= 1
        case ClaimOutcome.SMALLER:
            return not 1 < truth < by
        case ClaimOutcome.EQUIVALENT:
            return max(truth, 1 / truth) >= by
        case ClaimOutcome.REFUTED:
            says_worse = (found.advantage.high or 0.0) < 0
            return truth >= 1 if says_worse else truth >= by
        case _:
            return False


def _false_share(num: int, num_seeds: int, truth: float, by: float, **drawn: Any) -> float:
    """Return the share of false verdicts among all sweeps, those without a verdict included."""
    rng = np.random.default_rng([17, num_seeds, round(100 * truth)])
    counted_by = drawn.pop("counted_by", "flops")
    said = made.about(num_seeds, drawn.get("num_budgets", 3), by=by, counted_by=counted_by)
    sweeps = (made.measured(rng, num_seeds, speedup=truth, **drawn) for _ in range(num))
    return sum(_false(known(verdict(said, each)), truth, by) for each in sweeps) / num


def _slack(num: int) -> float:
    return 3.5 * math.sqrt(ALPHA * (1 - ALPHA) / num)


@pytest.mark.whole
@pytest.mark.parametrize("counted_by", ["flops", "step_time"])
def test_without_a_speedup_at_most_one_verdict_in_twenty_is_false(counted_by: str) -> None:
    share = _false_share(600, 3, 1.0, 1.2, noise=0.1, counted_by=counted_by, time_noise=0.03)
    assert 0 < share <= ALPHA + _slack(600)


@pytest.mark.statistics
def test_false_verdicts_at_length() -> None:
    num = 1_000
    cells = {
        (noise, draw.__name__, truth, n): _false_share(
            num, n, truth, 1.2, noise=noise, draw=draw, cost=1.5
        )
        for noise in (0.1, 0.3)
        for draw in (made.normal, made.heavy)
        for truth in (1.0, 1.2)
        for n in (3, 5, 10)
    }
    cells |= {
        (0.1, f"time, {spread:g}", 1.0, n): _false_share(
            num, n, 1.0, 1.2, counted_by="step_time", time_noise=spread
        )
        for spread in (0.01, 0.05)
        for n in (3, 5, 10)
    }
    print("\nFalse verdicts on a claim of 1.2, by noise, kind, true speedup: 3, 5, 10 seeds")
    for noise, kind, truth in dict.fromkeys(name[:3] for name in cells):
        shares = " / ".join(f"{100 * cells[noise, kind, truth, n]:.1f}" for n in (3, 5, 10))
        print(f"{noise} {kind:12} {truth}: {shares} %")
    assert all(share <= ALPHA + _slack(num) for share in cells.values())


def test_the_time_of_one_process_supports_nothing() -> None:
    said = made.about(5, 4, by=1.05, counted_by="step_time")
    rng = np.random.default_rng(3)
    drawn = made.measured(rng, 5, speedup=1.3, noise=0.02, num_budgets=4, time_noise=0.2)
    assert known(verdict(said, drawn)).outcome is ClaimOutcome.INCONCLUSIVE
    scores, flops, times = drawn
    readings = {**times.readings, made.MIXER: times.of(made.MIXER)[:1]}
    found = known(verdict(said, (scores, flops, replace(times, readings=readings))))
    assert found.outcome is ClaimOutcome.INVALID
    assert found.finding.endswith("have no interval, since one process measured them")
