"""Test verdicts: each rule at its limits, and the q-values of several claims."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from bakeoff.reports.analysis.verdict import ClaimOutcome, Verdict, judge, verdict, with_q_values
from bakeoff.reports.results.frame import results_frame
from bakeoff.reports.results.series import all_series
from bakeoff.reports.stats.intervals import Estimate, smallest_level
from bakeoff.reports.stats.significance import smallest_effect
from bakeoff.suite.schema import ClaimSpec, Provenance, Registration
from tests.reports import conftest as synthetic
from tests.reports.conftest import known
from tests.reports.simulated import Case
from tests.reports.simulated import about as made_about
from tests.reports.simulated import series as made_series


@pytest.mark.parametrize(
    ("low", "point", "high", "by", "outcome"),
    [
        (0.01, 0.03, 0.05, 0.02, ClaimOutcome.SUPPORTED),
        (0.01, 0.02, 0.03, 0.02, ClaimOutcome.SUPPORTED),  # exactly the claimed size
        (0.00, 0.03, 0.06, 0.02, ClaimOutcome.INCONCLUSIVE),  # zero is not above zero
        (0.01, 0.019, 0.03, 0.02, ClaimOutcome.SUPPORTED),  # better, perhaps by less than claimed
        (0.01, 0.015, 0.02, 0.02, ClaimOutcome.SUPPORTED),  # the claimed size is not excluded
        (-0.01, 0.03, 0.07, 0.02, ClaimOutcome.INCONCLUSIVE),
        (-0.05, -0.03, -0.01, 0.02, ClaimOutcome.REFUTED),
        # small, and certainly in the wrong direction
        (-0.015, -0.01, -0.005, 0.02, ClaimOutcome.REFUTED),
        # certainly less than claimed, perhaps worse
        (-0.03, -0.01, 0.01, 0.02, ClaimOutcome.REFUTED),
        (-0.01, 0.0, 0.01, 0.02, ClaimOutcome.EQUIVALENT),
        (0.005, 0.01, 0.015, 0.02, ClaimOutcome.SMALLER),  # certainly better, certainly by less
        (-0.005, 0.005, 0.015, 0.02, ClaimOutcome.EQUIVALENT),
        (-0.02, 0.0, 0.01, 0.02, ClaimOutcome.REFUTED),  # touches the margin, so it is not inside
        (0.01, 0.02, 0.03, 0.0, ClaimOutcome.SUPPORTED),
        (0.0, 0.0, 0.0, 0.0, ClaimOutcome.INCONCLUSIVE),
        (-0.01, 0.0, 0.01, 0.0, ClaimOutcome.INCONCLUSIVE),
    ],
)
def test_rules(low: float, point: float, high: float, by: float, outcome: ClaimOutcome) -> None:
    assert judge(Estimate(n=3, point=point, low=low, high=high), by) is outcome


@pytest.mark.parametrize("n", [0, 1, 2])
def test_two_pairs_are_too_few_however_clear(n: int) -> None:
    assert judge(Estimate(n=n, point=1.0, low=0.9, high=1.1), 0.1) is ClaimOutcome.UNDERPOWERED


def _judged(
    a: list[Any],
    b: list[Any],
    better: str = "lower",
    name: str = "m",
    unit: str = "bit",
    losses: tuple[list[float], list[float]] | None = None,
    **about: Any,
) -> Verdict:
    spec = synthetic.MetricSpec(name=name, unit=unit, better=better)
    loss = synthetic.MetricSpec(name="loss", unit="bit", better="lower")
    said = synthetic.about(
        variants=("a", "b"),
        baseline="b",
        tasks=("t",),
        probes=("quality",),
        metrics={"t": {"quality": (spec,)}},
        **(
            {
                "num_seeds": max(len(a), len(b)),
                "claim": ClaimSpec(
                    statement="A beats B.", metric=name, a="a", b="b", by=0.02, source="", task="t"
                ),
            }
            | about
        ),
    )
    rows = []
    for label, values in (("a", a), ("b", b)):
        for seed, value in enumerate(values):
            given = {"value": value} if isinstance(value, float) else value
            if given:
                rows.append(synthetic.row(said, label, "t", "quality", spec, seed=seed) | given)
    for label, some in zip("ab", losses or (), strict=False):
        rows += [
            synthetic.row(said, label, "t", "validation", loss, seed=seed, value=value)
            for seed, value in enumerate(some)
        ]
    return known(verdict(said, all_series(said, results_frame(rows))))


def test_lower_is_better_and_the_sentence_says_it_all() -> None:
    answer = _judged([2.000, 2.110, 2.200], [2.030, 2.142, 2.231])
    assert answer.outcome is ClaimOutcome.SUPPORTED
    assert answer.sentence == (
        "A beats B: supported, indicative; a is better than b by 0.0310 bit "
        "(95 % interval 0.0285 to 0.0335, 3 paired seeds), at least the 0.02 bit claimed."
    )


@pytest.mark.parametrize(
    ("gains", "by", "kind", "end"),
    [
        ([0.10, 0.11, 0.12], 0.05, "supported", "), at least the 0.05 bit claimed."),
        ([0.10, 0.11, 0.12], 0.12, "supported", "); the interval contains the 0.12 bit claimed."),
        ([0.10, 0.11, 0.12], 0.9, "smaller than claimed", "), less than the 0.9 bit claimed."),
        ([0.10, 0.11, 0.12], 0.0, "supported", "3 paired seeds)."),
        (
            [-0.1, 0.01, 0.10],
            0.9,
            "equivalent",
            "); either way it is less than the 0.9 bit claimed.",
        ),
        ([-0.1, -0.3, 0.1], 0.4, "refuted", "), less than the 0.4 bit claimed."),
        ([-0.1, -0.11, -0.12], 0.4, "refuted", "3 paired seeds)."),
        (
            [0.1, -0.3, 0.3],
            0.2,
            "inconclusive",
            "); the interval contains both 0 and the 0.2 bit claimed.",
        ),
    ],
)
def test_the_sentence_compares_the_interval_with_the_claimed_size(
    gains: list[float], by: float, kind: str, end: str
) -> None:
    answer = _found([1.0 + gain for gain in gains], [1.0] * 3, by=by)
    assert answer.outcome == kind
    assert answer.sentence.endswith(end)


def test_equal_to_the_last_bit_is_identical_and_not_merely_equivalent() -> None:
    same = [2.0, 2.1, 2.2]
    assert _judged(same, same).outcome is ClaimOutcome.IDENTICAL
    assert _judged(same, [2.0, 2.1, 2.2 + 1e-12]).outcome is ClaimOutcome.EQUIVALENT
    assert _judged([None], [None]).outcome is ClaimOutcome.INVALID


def _of_shares(a: list[float], b: list[float], **more: Any) -> Verdict:
    return _judged(a, b, better="higher", name="exact_match", unit="1", **more)


def test_equal_shares_do_not_show_that_models_computed_the_same() -> None:
    """Compare two models that are always right and may differ in all other respects."""
    answer = _of_shares([1.0] * 3, [1.0] * 3)
    assert answer.outcome is ClaimOutcome.NO_DIFFERENCE
    assert answer.sentence == (
        "A beats B: no difference seen, indicative; both gave 1.000 with each of 3 seeds, a bound "
        "of the score; a difference may not be visible on a finite test set."
    )
    assert (answer.advantage.point, answer.advantage.low) == (0.0, None)
    assert answer.num_seeds_to_settle is None
    known_size = _of_shares([1.0] * 3, [1.0] * 3, num_test_examples={"t": 2_000})
    assert "; 2,000 test examples leave it open by 0.0015 (95 %)." in known_size.sentence
    inside = _of_shares([0.5, 0.6, 0.7], [0.5, 0.6, 0.7], num_test_examples={"t": 100})
    assert inside.outcome is ClaimOutcome.NO_DIFFERENCE
    assert "the same number with each of 3 seeds; 100 test examples leave it open by 0.096" in (
        inside.sentence
    )
    assert _of_shares([0.0] * 3, [0.0] * 3).outcome is ClaimOutcome.NO_DIFFERENCE


def test_equal_losses_show_that_models_computed_the_same() -> None:
    same, other = [0.1, 0.2, 0.3], [0.1, 0.2, 0.3 + 1e-12]
    found = [_of_shares([1.0] * 3, [1.0] * 3, losses=(same, of_b)) for of_b in (same, other)]
    assert [one.outcome for one in found] == [ClaimOutcome.IDENTICAL, ClaimOutcome.NO_DIFFERENCE]


@pytest.mark.parametrize("num_seeds", [1, 2])
def test_too_few_equal_pairs_are_no_verdict(num_seeds: int) -> None:
    for answer in (
        _of_shares([1.0] * num_seeds, [1.0] * num_seeds),
        _judged([2.0] * num_seeds, [2.0] * num_seeds),
    ):
        assert answer.outcome is ClaimOutcome.UNDERPOWERED
        assert "at least 3 pairs are needed for a verdict" in answer.sentence


def test_higher_is_better_turns_the_sign() -> None:
    answer = _judged([2.0, 2.1, 2.2], [2.03, 2.13, 2.24], better="higher")
    assert answer.outcome is ClaimOutcome.REFUTED
    assert "a is worse than b by 0.033" in answer.sentence
    assert answer.advantage.point == pytest.approx(-0.1 / 3)


def test_large_scale_is_not_called_indicative() -> None:
    answer = _judged([2.0, 2.1, 2.2], [2.1, 2.2, 2.31], is_indicative=False)
    assert answer.sentence.startswith("A beats B: supported; ")


@pytest.mark.parametrize(
    ("mishap", "words"),
    [
        ({"status": "timeout", "value": None}, "2 of 3; 1 timeout"),
        ({"status": "crashed", "value": None}, "2 of 3; 1 crashed"),
        ({"status": "out_of_memory", "value": None}, "2 of 3; 1 out of memory"),
        ({"status": "error", "value": None, "reason": "boom"}, "2 of 3; 1 error"),
        ({"value": float("nan")}, "2 of 3; 1 not a number"),
        (None, "2 of 3; 1 missing"),
    ],
)
def test_a_lost_seed_makes_it_invalid(mishap: Any, words: str) -> None:
    answer = _judged([1.0, 1.1, mishap], [2.0, 2.1, 2.2])
    assert answer.outcome is ClaimOutcome.INVALID
    assert f"a has m for {words}" in answer.sentence


def test_seeds_that_never_ran_are_missing_for_every_metric_of_trained_models() -> None:
    """Check a claim on the validation score: stopping as soon as it holds is no test."""
    spec = synthetic.MetricSpec(name="validation_m", unit="bit", better="lower")
    said = synthetic.about(
        variants=("a", "b"),
        baseline="b",
        tasks=("t",),
        num_seeds=30,
        probes=("validation",),
        metrics={"t": {"validation": (spec,)}},
        claim=ClaimSpec(statement="A", metric=spec.name, a="a", b="b", by=0.0, source="", task="t"),
    )
    rows = [
        synthetic.row(said, label, "t", "validation", spec, seed=seed, value=value + 0.001 * seed)
        for label, value in (("a", 1.0), ("b", 2.0))
        for seed in range(3)
    ]
    answer = known(verdict(said, all_series(said, results_frame(rows))))
    assert answer.outcome is ClaimOutcome.INVALID
    assert "a has validation m for 3 of 30; 27 missing" in answer.sentence


def test_no_result_at_all() -> None:
    said = synthetic.about()
    found = known(verdict(said, all_series(said, results_frame([]))))
    assert found.outcome is ClaimOutcome.INVALID
    assert "8 heads has bits per character for 0 of 3; 3 missing" in found.sentence


@pytest.mark.bad_input(20)
def test_single_seed_is_underpowered() -> None:
    answer = _judged([1.0], [2.0])
    assert answer.outcome is ClaimOutcome.UNDERPOWERED
    assert "(1 paired seed); at least 3 pairs" in answer.sentence


def test_a_metric_without_direction_cannot_be_judged() -> None:
    answer = _judged([1.0, 1.0, 1.0], [2.0, 2.0, 2.0], better="none")
    assert answer.outcome is ClaimOutcome.INVALID


def test_no_claim_no_verdict() -> None:
    said = synthetic.about(claim=None)
    assert verdict(said, all_series(said, results_frame([]))) is None


def test_times_of_two_machines_are_never_paired() -> None:
    """Machine X timed both; machine Y, ten times faster, timed only `a` in further processes."""
    answer = _timed(
        [
            {"environment_id": place, "variant": name, "seed": seed, "value": value + seed * 1e-4}
            for place, name, value in [("x", "a", 0.030), ("x", "b", 0.020), ("y", "a", 0.002)]
            for seed in range(3)
        ]
    )
    assert answer.outcome is ClaimOutcome.REFUTED
    assert "a is slower than b, 0.67 times as fast" in answer.sentence
    assert "3 paired processes" in answer.sentence


def _timed(rows: list[dict[str, Any]], at: str = "") -> Verdict:
    """Return the verdict on times in environments x and y; a missing value is 1 plus the seed."""
    spec = synthetic.MetricSpec(name="seconds", unit="s", better="lower")
    claim = ClaimSpec(
        statement="A is faster", metric="seconds", a="a", b="b", by=0.0, source="", task="t", at=at
    )
    places = {
        name: Provenance(
            commit="",
            device=device,
            num_threads=threads,
            num_cpus=2,
            num_gpus=0,
            versions={"torch": "2.13.0"},
        )
        for name, device, threads in (("x", "EPYC 7B13", 1), ("y", "H100", 2))
    }
    said = synthetic.about(
        variants=("a", "b"),
        baseline="b",
        tasks=("t",),
        probes=("step_time",),
        claim=claim,
        metrics={"t": {"step_time": (spec,)}},
        provenances=places,
    )
    made = [
        synthetic.row(said, row["variant"], "t", "step_time", spec)
        | {"value": 1.0 + row["seed"], "at": at, "trial_id": str(index)}
        | row
        for index, row in enumerate(rows)
    ]
    return known(verdict(said, all_series(said, results_frame(made))))


def _three(*pairs: str) -> list[dict[str, Any]]:
    """Return three seeds of each pair of an environment and a variant."""
    return [
        {"environment_id": place, "variant": name, "seed": seed}
        for place, name in pairs
        for seed in range(3)
    ]


def test_two_that_never_met_on_one_machine_have_no_verdict() -> None:
    answer = _timed(_three("xa", "yb"))
    assert answer.outcome is ClaimOutcome.INVALID
    assert answer.finding == (
        "no verdict, since a was measured on EPYC 7B13 (1 thread, torch 2.13.0) and b on H100 "
        "(2 threads, torch 2.13.0); times of different devices, thread counts or torch versions "
        "are never compared"
    )


def test_one_machine_that_saw_both_is_enough() -> None:
    assert _timed(_three("xa", "yb", "ya")).outcome is not ClaimOutcome.INVALID


def test_a_claim_at_a_coordinate_is_judged_there_only() -> None:
    """Let `b` take ten times as long at another coordinate, in more processes."""
    elsewhere = [
        {"environment_id": "x", "variant": name, "seed": seed, "value": value, "at": "length=4096"}
        for seed in range(5)
        for name, value in (("a", 1.0), ("b", 10.0))
    ]
    answer = _timed(_three("xa", "xb") + elsewhere, at="length=64")
    assert answer.outcome is ClaimOutcome.INCONCLUSIVE
    assert "3 paired processes" in answer.sentence


def _found(a: list[Any], b: list[Any], **about: Any) -> Verdict:
    said = made_about(len(a), about.pop("by", 0.0), **about)
    return known(verdict(said, [made_series(a, b)]))


def test_a_diverged_seed_leaves_it_open_however_good_the_others_are() -> None:
    answer = _found([9.0, 9.1, None], [1.0, 1.1, 1.2])
    assert answer.outcome is ClaimOutcome.INCONCLUSIVE
    assert answer.advantage.point is None
    assert "a in 1 of 3 and b in 0 of 3" in answer.finding
    assert [(side.num, side.num_total) for side in answer.diverged] == [(1, 3), (0, 3)]
    assert answer.sign_flip is None
    assert answer.improvement.probability.point == pytest.approx(2 / 3)
    assert answer.details[:-1] == (
        "A diverged seed counted as worse than any score, a was better in 2 of 3 seeds: "
        "probability of improvement 0.67 (95 % interval 0.09 to 0.99).",
    )


def test_diverged_seeds_of_either_side_are_told_and_count() -> None:
    answer = _found([9.0, None, 9.2], [None, None, 1.2])
    assert (answer.improvement.num_better, answer.improvement.num_equal) == (2, 1)
    assert "a in 1 of 3 and b in 2 of 3" in answer.finding


def test_a_diverged_seed_does_not_excuse_a_missing_one() -> None:
    answer = _judged([1.0, {"status": "diverged", "value": None}, None], [2.0, 2.1, 2.2])
    assert answer.outcome is ClaimOutcome.INVALID
    assert "1 of 3; 1 diverged; 1 missing" in answer.finding
    assert answer.details == ()


def test_a_single_diverged_seed_is_too_few() -> None:
    assert _found([None], [1.0]).outcome is ClaimOutcome.UNDERPOWERED


def test_seeds_that_never_met_have_no_verdict() -> None:
    rows: list[Any] = [(1.0, 1.0, 1.0, None, None, None), (None, None, None, 2.0, 2.0, 2.0)]
    answer = _judged(*(list(row) for row in rows), num_seeds=3)
    assert answer.outcome is ClaimOutcome.INVALID
    assert "no seed has both a and b" in answer.finding


def test_an_open_verdict_says_how_many_seeds_would_settle_it() -> None:
    """Use mean 0.1 and standard deviation 0.2: t(n) 0.2 / sqrt n falls below 0.1 at n = 18."""
    answer = _found([1.1, 1.3, 0.9], [1.0, 1.0, 1.0])
    assert answer.outcome is ClaimOutcome.INCONCLUSIVE
    assert answer.num_seeds_to_settle == 18
    assert answer.basis.endswith(" About 18 seeds would settle it.")
    assert answer.smallest_effect == pytest.approx(smallest_effect(0.2, 3, num_pairs=3))
    assert answer.details[:-1] == (
        "A was better in 2 of 3 seeds: probability of improvement 0.67 "
        "(95 % interval 0.09 to 0.99).",
        "The smallest possible p-value of an exact sign-flip test is 0.25 with 3 seeds; it takes 6 "
        "to reach 0.05.",
        "If the mean and the spread stay the same, about 18 seeds would be enough for a verdict; "
        "these 3 detect a true difference of 1.01 bit in four of five cases.",
        "The verdict uses Student's t interval of the paired differences at the 5 % level, which "
        "assumes approximately normal errors. It applies only to the claim of this ablation; every "
        "other comparison is exploratory.",
    )


def test_one_and_two_pairs_say_what_they_can() -> None:
    one, two = _found([1.1], [1.0]), _found([1.1, 1.3], [1.0, 1.0])
    assert any("The spread cannot be estimated from one pair" in text for text in one.details)
    assert any(f"about {two.num_seeds_to_settle} seeds would be enough" in t for t in two.details)
    assert not any("level" in text for text in (*one.details, *two.details))


def test_what_no_number_of_seeds_would_settle() -> None:
    answer = _found([1.1, 0.9, 1.0], [1.0, 1.0, 1.0])
    assert answer.num_seeds_to_settle is None
    assert any("more than 1,000 seeds" in text for text in answer.details)


def test_six_pairs_have_an_exact_p() -> None:
    answer = _found([1.1, 1.2, 1.15, 1.3, 1.1, 1.2], [1.0] * 6)
    assert answer.outcome is ClaimOutcome.SUPPORTED
    assert answer.num_seeds_to_settle is None
    assert answer.sign_flip.p == 2 / 2**6
    assert any("p = 0.031 (two-sided, 6 seeds)" in text for text in answer.details)


def test_a_claim_that_was_stated_late_is_exploratory() -> None:
    late = Registration(sha256="ab" * 16, num_pairs_before=3, changes=("by was 0.1",))
    answer = _found([1.1, 1.2, 1.15], [1.0] * 3, registration=late)
    assert answer.outcome is ClaimOutcome.SUPPORTED
    assert answer.kind == "supported, exploratory"
    assert answer.is_exploratory
    assert answer.remark == (
        "Exploratory, because 3 seeds were measured before the claim was stated in its present "
        "form; changed since it was first stated: by was 0.1."
    )
    early = Registration(sha256="ab" * 16, changes=("by was 0.1",))
    answer = _found([1.1, 1.2, 1.15], [1.0] * 3, registration=early, is_indicative=True)
    assert answer.kind == "supported, indicative"
    assert answer.remark == ""


def test_times_are_judged_by_their_ratio() -> None:
    """Check that a uniformly slower process changes neither the ratio nor its interval."""
    a, b = [1.0, 1.02, 0.98], [2.0, 2.0, 2.0]
    steady, disturbed = (
        verdict(
            made_about(3, 0.0),
            [
                made_series(
                    [x * f for x, f in zip(a, by, strict=True)],
                    [x * f for x, f in zip(b, by, strict=True)],
                    unit="s",
                    better="lower",
                )
            ],
        )
        for by in ([1.0] * 3, [1.0, 4.0, 0.5])
    )
    assert steady.is_ratio
    assert steady.outcome is disturbed.outcome is ClaimOutcome.SUPPORTED
    assert steady.finding == disturbed.finding
    assert steady.finding == (
        "a is faster than b, 2.00 times as fast (95 % interval 1.90 to 2.10, 3 paired processes)"
    )


def test_a_claim_on_times_stays_open_within_what_the_baseline_shows_against_itself() -> None:
    times = made_series([0.99, 1.0, 1.01], [1.04, 1.05, 1.06], unit="s", better="lower")
    for by in (0.0, 0.01):
        assert verdict(made_about(3, by), [times]).outcome is ClaimOutcome.SUPPORTED
        answer = verdict(made_about(3, by), [replace(times, resolution=math.log(1.07))])
        assert answer.outcome is ClaimOutcome.INCONCLUSIVE
        assert answer.finding.endswith(
            "; repeated measurements of the baseline differ by a ratio of up to 1.07"
        )
    assert (
        "came out faster"
        in verdict(made_about(3, 0.0), [replace(times, resolution=math.log(1.07))]).finding
    )


def test_times_with_a_least_difference_in_seconds_are_judged_in_seconds() -> None:
    answer = verdict(
        made_about(3, 0.5),
        [made_series([1.0, 1.02, 0.98], [2.0] * 3, unit="s", better="lower")],
    )
    assert not answer.is_ratio
    assert "a is better than b by 1 s" in answer.finding


def test_where_neither_is_surely_better_the_advantage_keeps_its_sign() -> None:
    """Check the sign, because the opposite direction next to a claim would be misread."""
    answer = _found([1.0, 1.2, 0.9], [1.1, 1.1, 1.1])
    assert answer.advantage.point < 0
    assert answer.finding.startswith("the advantage of a over b is −")
    assert not answer.advantage.excludes_zero


def _case(differences: list[float], by: float = 0.0) -> Case:
    said = made_about(len(differences), by)
    return said, [made_series([1 + d for d in differences], [1.0] * len(differences))]


def test_no_other_claim_moves_a_verdict() -> None:
    alone = known(verdict(*_case([0.1, 0.2, 0.15])))  # p = 0.037
    others = {f"open {k}": known(verdict(*_case([0.1, -0.2, 0.1]))) for k in range(3)}
    judged = with_q_values({"clear": alone, **others})
    assert list(judged) == ["clear", *others]
    assert replace(judged["clear"], q=None) == alone
    assert judged["clear"].q == pytest.approx(4 * known(alone.p))
    assert {each.q for each in others.values()} == {None}
    assert with_q_values({"clear": alone})["clear"].q == alone.p
    assert with_q_values({}) == {}


def test_checks_and_what_was_not_tested_have_no_q_value() -> None:
    clear, check = (known(verdict(*_case([0.1, 0.2, 0.15]))) for _ in range(2))
    lost = known(verdict(made_about(3, 0.0), [made_series([1.0, 2.0], [1.0, 2.0])]))
    assert lost.outcome is ClaimOutcome.INVALID
    found = with_q_values({"x": clear, "check": replace(check, is_check=True), "lost": lost})
    assert {name: each.q for name, each in found.items()} == {
        "x": clear.p,
        "check": None,
        "lost": None,
    }


def test_the_smallest_level_against_zero_is_the_p_of_the_t_test() -> None:
    from scipy import stats

    values = np.random.default_rng(1).normal(0.5, 1, 6).tolist()
    assert smallest_level(values) == pytest.approx(stats.ttest_1samp(values, 0).pvalue)
    assert smallest_level(values, 0.3) == pytest.approx(stats.ttest_1samp(values, 0.3).pvalue)
    assert smallest_level([1.0]) == smallest_level([0.0, 0.0]) == 1.0
    assert smallest_level([1.0, 1.0]) == 0.0
