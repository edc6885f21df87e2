from __future__ import annotations

import json
from dataclasses import replace

from suite.schema import MetricSpec
from suite.tracking.run_fields import address_at, comparison_page, judged_metric, view_tag
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


def test_the_view_shows_the_scored_trials_of_one_sweep() -> None:
    name, value = view_tag(HEADS.about)
    assert name == "mlflow.sharedViewState.quick"
    view = json.loads(value)
    state = json.loads(view["state"])
    assert view["name"].startswith("quick")
    assert state["searchFilter"] == (
        "tags.`bakeoff.role` = 'trial' and tags.`bakeoff.scale` = 'quick' "
        "and tags.`bakeoff.probe` = 'quality'"
    )
    assert (state["orderByKey"], state["orderByAsc"]) == ("metrics.`bits_per_character`", True)
    assert state["groupBy"]["groupByKeys"] == [{"mode": "param", "groupByData": "variant"}]
    assert [chart["metricKey"] for chart in state["compareRunCharts"]] == [
        "bits_per_character", "validation_bits_per_character",
    ]  # fmt: skip
    assert view_tag(HEADS.about) == (name, value)


def test_several_tasks_stand_apart() -> None:
    about = replace(HEADS.about, tasks=("shakespeare_characters", "fashion_mnist_patches"))
    keys = json.loads(json.loads(view_tag(about)[1])["state"])["groupBy"]["groupByKeys"]
    assert [key["groupByData"] for key in keys] == ["task", "variant"]


def test_where_nothing_trains_all_trials_of_the_sweep_are_shown() -> None:
    state = json.loads(json.loads(view_tag(replace(HEADS.about, metrics={}))[1])["state"])
    assert state["searchFilter"].endswith("tags.`bakeoff.scale` = 'quick'")
    assert "groupBy" not in state
    assert "orderByKey" not in state


def test_the_judged_metric_is_the_claims_else_the_first_score() -> None:
    scores = {"shakespeare_characters": {"quality": (ACCURACY, BITS)}, "other": {}}
    about = replace(HEADS.about, metrics=scores, tasks=("other", "shakespeare_characters"))
    assert judged_metric(about) == BITS
    assert judged_metric(replace(about, claim=None)) == ACCURACY
    assert about.claim is not None
    of_times = replace(about, claim=replace(about.claim, metric="step_seconds", task="mixer_alone"))
    assert judged_metric(of_times) == ACCURACY
    assert judged_metric(replace(about, metrics={})) is None
