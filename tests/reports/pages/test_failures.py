"""Is everything told that is missing, and nothing else?"""

from __future__ import annotations

from dataclasses import replace

import pytest

from reports.pages.failures import FailureGroup, failure_groups
from reports.results.frame import Sweep, read_sweep
from reports.results.series import all_series, beside_scores
from suite.schema import LEARNING_RATE, QUALITY
from tests.conftest import ROOT


@pytest.fixture(scope="module")
def searched() -> Sweep:
    """A sweep whose variants tried different learning rates, each as far as it got better."""
    home = ROOT / "docs" / "results" / "recall"
    return read_sweep(home / "results.parquet", home / "curves.parquet")


def _told(sweep: Sweep) -> tuple[FailureGroup, ...]:
    probes = (LEARNING_RATE, QUALITY)
    measured = beside_scores(all_series(sweep.about, sweep.results))
    return failure_groups(sweep.about, [s for s in measured if s.probe in probes])


def test_a_learning_rate_that_a_search_had_no_need_to_try_is_not_missing(searched: Sweep) -> None:
    tried = searched.results.query("probe == @LEARNING_RATE and metric != @LEARNING_RATE")
    assert tried.groupby("variant")["at"].agg(frozenset).nunique() > 1
    assert _told(searched) == ()


def test_a_search_that_has_not_ended_is_missing(searched: Sweep) -> None:
    rows = searched.results
    variant = searched.about.variants[0]
    left = rows[~((rows["probe"] == LEARNING_RATE) & (rows["variant"] == variant))]
    (told,) = _told(replace(searched, results=left))
    assert (told.variants, told.probe, told.fate) == ((variant,), LEARNING_RATE, "missing")


def test_a_variant_that_is_skipped_has_no_search_to_miss(searched: Sweep) -> None:
    rows, variant = searched.results, searched.about.variants[0]
    of_it = rows["variant"] == variant
    left = rows[~(of_it & (rows["probe"] == LEARNING_RATE))].copy()
    scores = (left["variant"] == variant) & (left["probe"] == QUALITY)
    left.loc[scores, ["value", "status", "reason"]] = [float("nan"), "skipped", "it cannot be"]
    told = _told(replace(searched, results=left))
    assert {(group.probe, group.fate) for group in told} == {(QUALITY, "skipped")}
