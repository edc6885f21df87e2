from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from bakeoff.suite.schema import About, MetricSpec
from bakeoff.suite.tracking.shared_views import (
    SHOWN_EDITION_TAG,
    address_at,
    comparison_page,
    judged_metric,
    page_of,
    view_tags,
)
from tests.suite.heads_sweep import HEADS

BITS = MetricSpec(name="bits_per_character", unit="bit/character", better="lower")
ACCURACY = MetricSpec(name="accuracy", unit="1", better="higher")


def test_the_address_is_that_of_the_server_without_its_password() -> None:
    page = comparison_page("7", "quick")
    assert page.startswith("#/experiments/7/runs?viewStateShareKey=quick&compareRunsMode=CHART")
    assert (
        address_at("https://me:secret@host:5000/mlflow/", page)
        == f"https://host:5000/mlflow/{page}"
    )
    assert address_at("sqlite:////tmp/mlflow.db", page) == ""
    assert address_at("postgresql://host/name", page) == ""


def _states(about: About) -> dict[str, dict[str, Any]]:
    """Return the decoded state of each shared view, by its key."""
    tags = view_tags(about)
    return {
        name.removeprefix("mlflow.sharedViewState."): json.loads(json.loads(value)["state"])
        for name, value in tags.items()
        if name != "mlflow.experiment.primaryMetric.name"
    }


def test_the_variants_of_the_newest_edition_are_shown_best_first_and_never_averaged() -> None:
    states = _states(HEADS.about)
    assert list(states) == ["quick", "quick.trials"]
    assert all("groupBy" not in state for state in states.values())
    variants, trials = states.values()
    of_sweep = "tags.`bakeoff.scale` = 'quick' and "
    assert variants["searchFilter"] == (
        f"tags.`bakeoff.role` = 'variant' and {of_sweep}tags.`bakeoff.edition` = '1'"
    )
    assert trials["searchFilter"] == (
        f"tags.`bakeoff.role` = 'trial' and {of_sweep}tags.`bakeoff.probe` = 'quality' and "
        "tags.`bakeoff.edition` = '1'"
    )
    assert (variants["orderByKey"], variants["orderByAsc"]) == (
        "metrics.`bits_per_character`",
        True,
    )
    # MLflow's own column name of the start time would show only the folded parent.
    assert trials["orderByKey"] == "attributes.`start_time`"
    for state in (variants, trials):
        assert [chart["metricKey"] for chart in state["compareRunCharts"]] == [
            "bits_per_character",
            "validation_bits_per_character",
        ]


def test_a_view_of_more_than_mlflow_reads_at_once_says_so() -> None:
    many = replace(HEADS.about, variants=tuple(f"heads={i}" for i in range(200)))
    view = json.loads(view_tags(many)["mlflow.sharedViewState.quick"])
    assert view["name"] == "quick: variants side by side (200, the best 100 first)"


def test_where_nothing_trains_both_views_show_all_trials_of_the_sweep() -> None:
    state, same = _states(replace(HEADS.about, metrics={})).values()
    assert state == same
    assert "quality" not in state["searchFilter"]
    assert state["orderByKey"] == "attributes.`start_time`"


def test_a_sweep_opens_at_its_trials_until_its_newest_edition_has_variants() -> None:
    tags = {"bakeoff.scale": "quick", "bakeoff.edition": "2"}
    assert "viewStateShareKey=quick.trials&" in page_of("7", tags)
    assert "viewStateShareKey=quick.trials&" in page_of("7", tags | {SHOWN_EDITION_TAG: "1"})
    assert page_of("7", tags | {SHOWN_EDITION_TAG: "2"}) == comparison_page("7", "quick")
    # An older version has no tags of editions.
    assert page_of("7", {"bakeoff.scale": "quick"}) == comparison_page("7", "quick")


def test_the_judged_metric_is_the_claims_else_the_first_score() -> None:
    scores = {"shakespeare_characters": {"quality": (ACCURACY, BITS)}, "other": {}}
    about = replace(HEADS.about, metrics=scores, tasks=("other", "shakespeare_characters"))
    assert judged_metric(about) == BITS
    assert judged_metric(replace(about, claim=None)) == ACCURACY
    assert about.claim is not None
    of_times = replace(about, claim=replace(about.claim, metric="step_seconds", task="mixer_alone"))
    assert judged_metric(of_times) == ACCURACY
    assert judged_metric(replace(about, metrics={})) is None
