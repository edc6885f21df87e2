"""Test that all missing results are listed, and nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bakeoff.reports.pages.failures import FailureGroup, failure_groups
from bakeoff.reports.results.frame import results_frame
from bakeoff.reports.results.series import all_series, beside_scores
from bakeoff.reports.results.spoken_names import shown_name
from bakeoff.reports.view import Sweep, read_sweep
from bakeoff.suite.schema import LEARNING_RATE, QUALITY
from tests.conftest import ROOT
from tests.reports import conftest as synthetic


@pytest.fixture(scope="module")
def searched() -> Sweep:
    """Return a sweep whose variants tried learning rates until they got worse."""
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
    name = shown_name(searched.about, variant)
    assert (told.variants, told.probe, told.fate) == ((name,), LEARNING_RATE, "missing")


def test_a_variant_that_is_skipped_has_no_search_to_miss(searched: Sweep) -> None:
    rows, variant = searched.results, searched.about.variants[0]
    of_it = rows["variant"] == variant
    left = rows[~(of_it & (rows["probe"] == LEARNING_RATE))].copy()
    scores = (left["variant"] == variant) & (left["probe"] == QUALITY)
    left.loc[scores, ["value", "status", "reason"]] = [float("nan"), "skipped", "it cannot be"]
    told = _told(replace(searched, results=left))
    assert {(group.probe, group.fate) for group in told} == {(QUALITY, "skipped")}


def test_what_is_skipped_for_one_reason_stands_once_for_all_probes() -> None:
    """Linformer and FNet cannot be causal: three probes of each share one row per task."""
    home = ROOT / "docs" / "results" / "linear_attention"
    sweep = read_sweep(home / "results.parquet", home / "curves.parquet")
    told = failure_groups(sweep.about, all_series(sweep.about, sweep.results))
    rows = [g for g in told if (g.task, g.variants) == ("mqar_small", ("FNet",))]
    (skipped,) = (group for group in rows if group.fate == "skipped")
    assert skipped.probe == "quality, parameters, flops"
    assert skipped.seeds == (0, 1, 2)


def test_what_failed_stays_with_its_probe() -> None:
    """Equal reasons may have different causes; only those known in advance are merged."""
    said = synthetic.about(tasks=("majority",), probes=("quality", "flops", "step_time"))
    rows = [
        synthetic.row(said, "heads=1", "majority", probe, spec, status=status, reason="why")
        for probe, spec, status in (
            ("quality", synthetic.ACCURACY, "error"),
            ("flops", synthetic.FLOPS, "error"),
            ("step_time", synthetic.SECONDS, "skipped"),
        )
    ]
    told = failure_groups(said, all_series(said, results_frame(rows)))
    found = [(g.probe, g.fate) for g in told if g.fate != "missing"]
    assert found == [("quality", "error"), ("flops", "error"), ("step_time", "skipped")]
