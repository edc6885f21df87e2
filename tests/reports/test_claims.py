"""Are the claims of an overview judged together, and each at the level that is left for it?"""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest

from reports.claims import judged_together
from reports.evidence import evidence
from reports.statistics import mean_interval, smallest_level
from reports.strength import smallest_levels
from reports.verdict import Outcome, judge, verdict
from tests.reports.simulated import Case, about, series


def _case(synthetic: ModuleType, differences: list[float], by: float = 0.0) -> Case:
    said = about(synthetic, len(differences), by)
    return said, [series([1 + d for d in differences], [1.0] * len(differences))]


def test_a_claim_alone_is_judged_as_on_its_page(synthetic: ModuleType) -> None:
    case = _case(synthetic, [0.1, 0.2, 0.15])
    alone = verdict(*case)
    assert judged_together({"x": case}) == {"x": alone}


def test_what_is_clear_alone_may_be_open_among_others(synthetic: ModuleType) -> None:
    clear = _case(synthetic, [0.1, 0.2, 0.15])  # p = 0.037
    alone = verdict(*clear)
    assert alone is not None
    assert alone.outcome is Outcome.SUPPORTED
    cases = {f"open {k}": _case(synthetic, [0.1, -0.2, 0.1]) for k in range(3)}
    together = judged_together({"clear": clear} | cases)["clear"]
    assert together.outcome is Outcome.INCONCLUSIVE
    assert together.level == 0.05 / 4
    assert together.num_claims == 4
    assert "98.75 % interval" in together.finding
    assert any("1.25 % level" in text and "4 claims" in text for text in together.details)


def test_the_clearest_leaves_more_for_the_next(synthetic: ModuleType) -> None:
    cases = {
        "second": _case(synthetic, [0.1, 0.2, 0.15]),
        "first": _case(synthetic, [0.1, 0.1002, 0.1001]),
    }
    together = judged_together(cases)
    assert list(together) == ["second", "first"]
    assert [together[name].level for name in together] == [0.05, 0.025]
    assert {each.outcome for each in together.values()} == {Outcome.SUPPORTED}


def test_lost_claims_count_and_those_that_claim_nothing_do_not(synthetic: ModuleType) -> None:
    silent = (synthetic.about(claim=None), [])
    lost = (about(synthetic, 3, 0.0), [series([1.0, 2.0], [1.0, 2.0])])
    together = judged_together(
        {"silent": silent, "lost": lost, "open": _case(synthetic, [0.1, -0.2, 0.1])}
    )
    assert list(together) == ["lost", "open"]
    assert together["lost"].outcome is Outcome.INVALID
    assert together["open"].level == 0.025


@pytest.mark.parametrize("by", [0.0, 0.5, 1.0, 3.0])
def test_the_smallest_level_is_where_the_rule_comes_to_decide(
    synthetic: ModuleType, by: float
) -> None:
    """The closed form against the rule itself, on either side of it."""
    open_words = {Outcome.INCONCLUSIVE, Outcome.UNDERPOWERED}
    for number in range(60):
        values = np.random.default_rng(number).normal(0.8, 1, 3 + number % 5).tolist()
        found = evidence(*_case(synthetic, values, by))
        assert found is not None
        level = smallest_levels(found).decides
        above, below = (
            judge(mean_interval(values, 1 - min(1.0, level * factor)), by)
            for factor in (1.001, 0.999)
        )
        assert above not in open_words or level > 0.999
        assert below in open_words


def test_the_smallest_level_against_zero_is_the_p_of_the_t_test() -> None:
    from scipy import stats

    values = np.random.default_rng(1).normal(0.5, 1, 6).tolist()
    assert smallest_level(values) == pytest.approx(stats.ttest_1samp(values, 0).pvalue)
    assert smallest_level(values, 0.3) == pytest.approx(stats.ttest_1samp(values, 0.3).pvalue)
    assert smallest_level([1.0]) == smallest_level([0.0, 0.0]) == 1.0
    assert smallest_level([1.0, 1.0]) == 0.0
