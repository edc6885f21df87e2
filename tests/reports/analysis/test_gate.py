"""No verdict on scores of models that a predictor without an architecture beats."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from reports.analysis.verdict import ClaimOutcome, Verdict, judged_together, verdict
from reports.results.frame import results_frame
from reports.results.series import Series, all_series
from suite.schema import About, ClaimSpec, MetricSpec
from tests.reports import conftest as synthetic

BITS = MetricSpec(name="bits", unit="bit", better="lower")
SHARE = MetricSpec(name="accuracy", unit="1", better="higher")
SECONDS = MetricSpec(name="step", unit="s", better="lower")


def measured(
    a: Sequence[float], b: Sequence[float], floors: dict[str, float], *,
    spec: MetricSpec = BITS, claimed: str = "", **fields: Any,
) -> tuple[About, tuple[Series, ...]]:  # fmt: skip
    """Two variants, the second one the baseline, with a time that says that `a` is faster."""
    claim = ClaimSpec(
        statement="A beats B.", metric=claimed or spec.name, a="a", b="b", by=0.0, source="",
        task="t",
    )  # fmt: skip
    said = synthetic.about(
        variants=("a", "b"), baseline="b", tasks=("t",), probes=("quality", "floors", "time"),
        metrics={"t": {"quality": (spec,), "floors": (spec,), "time": (SECONDS,)}},
        floors={"t": tuple(floors)}, num_seeds=len(b), claim=claim, **fields,
    )  # fmt: skip
    rows = [
        synthetic.row(said, name, "t", "quality", spec, seed=seed) | {"value": value}
        for name, values in (("a", a), ("b", b))
        for seed, value in enumerate(values)
    ]
    rows += [
        synthetic.row(said, name, "t", "time", SECONDS, seed=seed) | {"value": value + seed / 100}
        for name, value in (("a", 1.0), ("b", 2.0))
        for seed in range(len(b))
    ]
    rows += [
        synthetic.row(said, label, "t", "floors", spec, seed=0) | {"value": value}
        for label, value in floors.items()
    ]
    return said, all_series(said, results_frame(rows))


def judged(*given: Any, **fields: Any) -> Verdict:
    found = verdict(*measured(*given, **fields))
    assert found is not None
    return found


GOOD, BETTER = [2.50, 2.52, 2.48], [2.20, 2.22, 2.18]


def test_a_baseline_that_has_learnt_is_judged() -> None:
    assert judged(BETTER, GOOD, {"unigram": 4.5, "trigram": 2.6}).outcome is ClaimOutcome.SUPPORTED


def test_a_baseline_below_the_best_floor_is_not() -> None:
    found = judged(BETTER, GOOD, {"unigram": 4.5, "five-gram": 2.3})
    assert found.outcome is ClaimOutcome.NOT_TESTED
    assert found.sentence == (
        "A beats B: not tested, indicative; no verdict at this scale, since the baseline has not "
        "learnt t: its bits is 2.500 bit [2.450, 2.550], and the floor five-gram has 2.300."
    )
    assert found.smallest_effect is None
    assert found.sign_flip is None


def test_the_whole_interval_must_lie_beyond() -> None:
    assert judged(BETTER, GOOD, {"trigram": 2.54}).outcome is ClaimOutcome.NOT_TESTED
    assert judged(BETTER, GOOD, {"trigram": 2.56}).outcome is ClaimOutcome.SUPPORTED


def test_of_shares_more_is_better() -> None:
    a, b = [0.6, 0.61, 0.62], [0.5, 0.51, 0.52]
    assert judged(a, b, {"majority": 0.4}, spec=SHARE).outcome is ClaimOutcome.SUPPORTED
    assert judged(a, b, {"majority": 0.55}, spec=SHARE).outcome is ClaimOutcome.NOT_TESTED


def test_what_is_no_score_needs_nothing_learnt() -> None:
    found = judged(BETTER, GOOD, {"five-gram": 2.3}, claimed="step")
    assert found.outcome is ClaimOutcome.SUPPORTED


def test_without_floors_there_is_no_gate() -> None:
    assert judged(BETTER, GOOD, {}).outcome is ClaimOutcome.SUPPORTED


def test_an_untested_claim_counts_among_others() -> None:
    tested = measured(BETTER, GOOD, {"trigram": 2.6})
    found = judged_together({"x": measured(BETTER, GOOD, {"five-gram": 2.3}), "y": tested})
    assert found["x"].outcome is ClaimOutcome.NOT_TESTED
    assert (found["y"].num_claims, found["y"].level) == (2, 0.025)


@pytest.mark.parametrize("n", [3, 10])
def test_a_model_at_chance_passes_once_in_forty(n: int) -> None:
    rng, passed, num = np.random.default_rng(n), 0, 400
    for _ in range(num):
        b = rng.normal(2.0, 0.1, size=n).tolist()
        found = judged([value - 1 for value in b], b, {"unigram": 2.0})
        passed += found.outcome is not ClaimOutcome.NOT_TESTED
    assert passed / num < 0.025 + 3 * (0.025 * 0.975 / num) ** 0.5


def test_a_check_is_judged_alone_and_makes_no_other_claim_wait() -> None:
    about, series = measured(BETTER, GOOD, {})
    claim = about.claim
    assert claim is not None
    check = replace(about, claim=replace(claim, is_check=True))
    found = judged_together({"x": (check, series), "y": (about, series), "z": (about, series)})
    assert {name: each.num_claims for name, each in found.items()} == {"x": 1, "y": 2, "z": 2}
    assert found["x"].level == 0.05
    assert found["x"].kind == "supported, a check"
    assert found["y"].kind == "supported, indicative"
