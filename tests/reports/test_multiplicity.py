"""Does each claim get its level? By hand, step by step."""

from __future__ import annotations

import pytest

from reports.multiplicity import Family, SmallestLevels, holm


def _levels(**claims: tuple[float, float]) -> dict[str, float]:
    families = holm({k: SmallestLevels(decides=d, excludes_zero=z) for k, (d, z) in claims.items()})
    return {name: family.level for name, family in families.items()}


def test_one_claim_has_the_whole_level() -> None:
    assert holm({"x": SmallestLevels(decides=0.01)}) == {"x": Family()}
    assert holm({}) == {}


def test_each_that_differs_leaves_more_for_the_next() -> None:
    # 0.05/4, 0.05/3, 0.05/2, 0.05
    levels = _levels(d=(0.03, 0.03), a=(0.001, 0.001), c=(0.02, 0.02), b=(0.013, 0.013))
    assert levels == pytest.approx({"a": 0.05 / 4, "b": 0.05 / 3, "c": 0.05 / 2, "d": 0.05})


def test_the_first_that_stays_open_ends_it() -> None:
    levels = _levels(a=(0.001, 0.001), b=(0.03, 0.03), c=(0.04, 0.04))
    assert levels == pytest.approx({"a": 0.05 / 3, "b": 0.05 / 2, "c": 0.05 / 2})


def test_exactly_at_the_level_is_not_below_it() -> None:
    assert _levels(a=(0.025, 0.025), b=(0.03, 0.03)) == {"a": 0.025, "b": 0.025}


def test_a_claim_of_no_difference_keeps_its_share() -> None:
    """Equivalent at any level, and zero well inside its interval."""
    assert _levels(a=(1e-9, 0.8), b=(0.02, 0.02)) == {"a": 0.025, "b": 0.025}
    assert _levels(a=(1e-9, 1e-9), b=(0.02, 0.02)) == {"a": 0.025, "b": 0.05}


def test_what_cannot_be_judged_counts_too() -> None:
    levels = _levels(lost=(1.0, 1.0), b=(0.02, 0.02))
    assert levels == {"b": 0.025, "lost": 0.05}
    assert holm({"x": SmallestLevels(), "y": SmallestLevels()})["x"].num_claims == 2
