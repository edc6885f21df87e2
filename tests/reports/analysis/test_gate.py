"""Test that models which do not beat a predictor without an architecture get no verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from bakeoff.reports.analysis.verdict import ClaimOutcome, Verdict, verdict
from bakeoff.reports.results.frame import results_frame
from bakeoff.reports.results.series import Series, all_series, compared, without_controls
from bakeoff.reports.tables.comparison import comparison_table
from bakeoff.suite.schema import About, ClaimSpec, MetricSpec
from tests.reports import conftest as synthetic

BITS = MetricSpec(name="bits", unit="bit", better="lower")
SHARE = MetricSpec(name="accuracy", unit="1", better="higher")
SECONDS = MetricSpec(name="step", unit="s", better="lower")


def measured(
    a: Sequence[float],
    b: Sequence[float],
    floors: Mapping[str, float | None],
    *,
    spec: MetricSpec = BITS,
    claimed: str = "",
    at: str = "",
    others: Mapping[str, Sequence[float | None]] | None = None,
    other: MetricSpec = SECONDS,
) -> tuple[About, tuple[Series, ...]]:
    """Make variants with baseline `b`, and another metric in which `a` is better.

    Scores at `at`, if given, equal the whole scores. A value of None is a seed or a floor that
    failed.
    """
    scores = {"a": a, "b": b, **(others or {})}
    claim = ClaimSpec(
        statement="A beats B.",
        metric=claimed or spec.name,
        a="a",
        b="b",
        by=0.0,
        source="",
        task="t",
        at=at,
    )
    said = synthetic.about(
        variants=tuple(scores),
        baseline="b",
        tasks=("t",),
        probes=("quality", "floors", "time"),
        metrics={"t": {"quality": (spec,), "floors": (spec,), "time": (other,)}},
        floors={"t": tuple(floors)},
        num_seeds=len(b),
        claim=claim,
    )
    rows = [
        synthetic.row(said, name, "t", "quality", spec, seed=seed) | {"at": place} | _value(value)
        for name, values in scores.items()
        for seed, value in enumerate(values)
        for place in dict.fromkeys(("", at))
    ]
    rows += [
        synthetic.row(said, name, "t", "time", other, seed=seed) | {"value": value + seed / 100}
        for name, value in (("a", 1.0), ("b", 2.0))
        for seed in range(len(b))
    ]
    rows += [
        synthetic.row(said, label, "t", "floors", spec, seed=0) | _value(value)
        for label, value in floors.items()
    ]
    return said, all_series(said, results_frame(rows))


def _value(value: float | None) -> dict[str, Any]:
    return {"value": value, "status": "ok" if value is not None else "diverged"}


def judged(*given: Any, **fields: Any) -> Verdict:
    found = verdict(*measured(*given, **fields))
    assert found is not None
    return found


_NOT_TESTED = ClaimOutcome.NOT_TESTED
GOOD, BETTER = [2.50, 2.52, 2.48], [2.20, 2.22, 2.18]


def test_models_that_have_learnt_are_judged() -> None:
    assert judged(BETTER, GOOD, {"unigram": 4.5, "trigram": 2.7}).outcome is ClaimOutcome.SUPPORTED


def test_a_baseline_below_the_best_floor_is_not() -> None:
    found = judged(BETTER, GOOD, {"unigram": 4.5, "five-gram": 2.3})
    assert found.outcome is ClaimOutcome.NOT_TESTED
    assert found.sentence == (
        "A beats B: not tested, indicative; a is better than b by 0.3000 bit (95 % interval "
        "0.3000 to 0.3000, 3 paired seeds); this does not show which is better once the "
        "task is learnt, since the baseline has not learnt t: its bits is 2.50 bit (99 % interval "
        "[2.39, 2.61]), and the floor five-gram has 2.30; more steps or an easier task may change "
        'this, and probes=["validation"] without floors compares how fast the models learn.'
    )
    assert found.advantage.point == pytest.approx(0.3)
    assert found.p is None
    assert found.smallest_effect is None
    assert found.sign_flip is None


def test_equal_scores_below_the_floor_show_no_interval() -> None:
    found = judged([0.5] * 3, [0.5] * 3, {"majority": 0.6}, spec=SHARE)
    assert found.outcome is ClaimOutcome.NOT_TESTED
    assert found.finding.startswith("both gave 0.5000 with each of 3 seeds; ")
    assert (found.advantage.point, found.advantage.low) == (0.0, None)


def test_diverged_seeds_below_the_floor_are_told() -> None:
    found = judged([2.2, 2.2, None, 2.2], [*GOOD, 2.5], {"five-gram": 2.3})
    assert found.outcome is ClaimOutcome.NOT_TESTED
    assert found.finding.startswith("seeds diverged, a in 1 of 4 and b in 0 of 4; ")
    assert found.advantage.point is None


def test_a_page_whose_floors_stand_beside_the_scores_says_the_same() -> None:
    said, series = measured(BETTER, GOOD, {"five-gram": 2.3})
    assert verdict(said, without_controls(series)) == verdict(said, series)


def test_the_whole_interval_of_99_percent_must_lie_beyond() -> None:
    assert judged(BETTER, GOOD, {"trigram": 2.61}).outcome is ClaimOutcome.NOT_TESTED
    assert judged(BETTER, GOOD, {"trigram": 2.62}).outcome is ClaimOutcome.SUPPORTED


def test_of_shares_more_is_better() -> None:
    a, b = [0.6, 0.61, 0.62], [0.5, 0.51, 0.52]
    assert judged(a, b, {"majority": 0.4}, spec=SHARE).outcome is ClaimOutcome.SUPPORTED
    assert judged(a, b, {"majority": 0.55}, spec=SHARE).outcome is ClaimOutcome.NOT_TESTED


def test_all_seeds_at_the_floor_are_not_above_it() -> None:
    third = [1 / 3 + 1e-17] * 3
    assert judged([0.6] * 3, third, {"majority": 1 / 3}, spec=SHARE).outcome is _NOT_TESTED
    assert judged([0.6] * 3, [0.1 + 0.2] * 3, {"majority": 0.3}, spec=SHARE).outcome is _NOT_TESTED


def test_one_side_of_the_claim_must_have_learnt_too() -> None:
    """Check the sides of the claim where the baseline is a third variant."""
    floors = {"trigram": 2.7}
    poor, poorer = [3.0, 3.01, 3.02], [4.0, 4.01, 4.02]
    said, series = measured(poor, poorer, floors, others={"c": GOOD})
    found = verdict(replace(said, baseline="c"), series)
    assert found is not None
    assert "since a has not learnt t: its bits is 3.010 bit" in found.sentence
    said, series = measured(BETTER, poorer, floors, others={"c": GOOD})
    assert verdict(replace(said, baseline="c"), series).outcome is ClaimOutcome.SUPPORTED


def test_a_baseline_without_a_score_has_not_learnt() -> None:
    said, series = measured(BETTER, GOOD, {"trigram": 2.7}, others={"c": [None] * 3})
    found = verdict(replace(said, baseline="c"), series)
    assert "t: none of its seeds has a score, and the floor trigram has 2.7; " in found.finding


def test_a_baseline_of_another_task_is_not_asked() -> None:
    said, series = measured(BETTER, GOOD, {"trigram": 2.7})
    elsewhere = replace(said, baseline="task=other", variants=("a", "b", "task=other"))
    assert verdict(elsewhere, series).outcome is ClaimOutcome.SUPPORTED


def test_floors_that_could_not_be_computed_open_no_gate() -> None:
    found = judged(BETTER, GOOD, {"trigram": None})
    assert found.outcome is ClaimOutcome.NOT_TESTED
    assert found.finding.endswith(
        "; this does not show which is better once the task is learnt, since no floor of t could "
        "be computed, so nothing shows what they have learnt"
    )


def test_a_floor_that_was_left_out_is_named() -> None:
    found = judged(BETTER, GOOD, {"trigram": 2.7, "tf-idf": None})
    assert found.outcome is ClaimOutcome.SUPPORTED
    assert found.details[-1] == "Not computed, and therefore not required: the floor tf-idf."


def test_two_seeds_are_too_few_before_all_else() -> None:
    found = judged(BETTER[:2], GOOD[:2], {"five-gram": 2.3})
    assert found.outcome is ClaimOutcome.UNDERPOWERED


def test_of_a_part_the_whole_score_must_have_been_learnt() -> None:
    """Use a part, since parts and other lengths have no known floors."""
    at = "length=256"
    assert judged(BETTER, GOOD, {"five-gram": 2.3}, at=at).outcome is ClaimOutcome.NOT_TESTED
    found = judged(BETTER, GOOD, {"trigram": 2.7}, at=at)
    assert found.outcome is ClaimOutcome.SUPPORTED
    assert (
        found.details[-1] == f"The floors are those of the whole score; no floor at {at} is known."
    )


@pytest.mark.parametrize("metric", ["training_bits", "validation_bits", "bits_by_position"])
def test_what_rests_on_a_score_has_its_gate(metric: str) -> None:
    """Otherwise a claim on training data could hold for models that learnt nothing."""
    named = replace(SECONDS, name=metric)
    poor = judged(BETTER, GOOD, {"five-gram": 2.3}, claimed=metric, other=named)
    assert poor.outcome is ClaimOutcome.NOT_TESTED
    found = judged(BETTER, GOOD, {"trigram": 2.7}, claimed=metric, other=named)
    assert found.outcome is ClaimOutcome.SUPPORTED
    assert found.details[-1] == f"The floors are those of bits; no floor of {metric} is known."


@pytest.mark.parametrize("metric", ["written_chrf", "bits_per_word", "exposure_gap"])
def test_what_is_written_has_the_gate_of_the_score_of_text(metric: str) -> None:
    """Check metrics under other names, and that a task with another score has no gate."""
    bleu = MetricSpec(name="bleu", unit="BLEU", better="higher")
    fields = {"claimed": metric, "other": replace(SECONDS, name=metric, unit="BLEU")}
    scores = [20.0, 20.1, 19.9], [10.0, 10.1, 9.9]
    assert judged(*scores, {"copied": 12.0}, spec=bleu, **fields).outcome is _NOT_TESTED
    assert judged(*scores, {"copied": 4.0}, spec=bleu, **fields).outcome is not _NOT_TESTED
    assert judged(*scores, {"copied": 12.0}, spec=SHARE, **fields).outcome is not _NOT_TESTED


def test_what_is_no_score_needs_nothing_learnt_and_says_so() -> None:
    found = judged(BETTER, GOOD, {"five-gram": 2.3}, claimed="step")
    assert found.outcome is ClaimOutcome.SUPPORTED
    assert found.details[-1] == "The claim is not about a score, so floors do not apply."


def test_a_task_without_floors_has_no_gate_and_says_so() -> None:
    found = judged(BETTER, GOOD, {})
    assert found.outcome is ClaimOutcome.SUPPORTED
    assert found.details[-1].startswith("No floor of t is known, so nothing shows")


@pytest.mark.parametrize(
    ("floor", "note"),
    [
        (
            2.3,
            "The baseline (b) does not beat the floor f here, so this table allows no conclusion "
            "about quality.",
        ),
        (2.7, ""),
    ],
)
def test_a_table_says_where_its_baseline_is_below_the_floor(floor: float, note: str) -> None:
    said, series = measured(BETTER, GOOD, {"unigram": 4.5, "f": floor}, claimed="step")
    footnotes = comparison_table(said, compared(without_controls(series)), "t").footnotes
    assert [each for each in footnotes if "does not beat" in each] == [note] * bool(note)


def test_a_check_says_that_it_is_one() -> None:
    about, series = measured(BETTER, GOOD, {})
    claim = about.claim
    assert claim is not None
    check = verdict(replace(about, claim=replace(claim, is_check=True)), series)
    assert check is not None
    assert check.kind == "supported, a check"
