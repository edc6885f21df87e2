"""Describes the MLflow page that compares the trials of a sweep: its address and content. Pure.

MLflow keeps a view that people share as a tag of the experiment: the filter, the order, the columns
and what the runs are grouped by. A sweep has one, under the name of its scale; an MLflow that does
not know such views shows the same runs as a table.
"""

from __future__ import annotations

import json
from urllib.parse import quote, urlsplit, urlunsplit

from suite.schema import About, MetricSpec
from suite.tracking.client import entity_key

VIEW_TAG = "mlflow.sharedViewState."  # of the experiment; the view's key follows
TRAINING_RUNS = "workflowType=machine_learning"  # without it: pages for language models
_QUALITY = "quality"  # the probe whose trials are trained and scored
_AXES = {
    "lineSmoothness": 0, "xAxisScaleType": "linear", "scaleType": "linear", "xAxisKey": "step",
    "yAxisKey": "metric", "yAxisExpressions": [], "range": {}, "ignoreOutliers": False,
    "useGlobalXaxisKey": True, "useGlobalLineSmoothing": True, "selectedXAxisMetricKey": "",
}  # fmt: skip


def judged_metric(about: About) -> MetricSpec | None:
    """Return the score of the claim, else the first one; None where nothing trains."""
    tasks = (about.claim.task, *about.tasks) if about.claim else about.tasks
    named = about.claim.metric if about.claim else ""
    for task in tasks:
        specs = about.metrics.get(task, {}).get(_QUALITY, ())
        if specs:
            return next((spec for spec in specs if spec.name == named), specs[0])
    return None


def view_tag(about: About) -> tuple[str, str]:
    """Return name and value of the experiment's tag that holds the view of this sweep."""
    view = {
        "name": f"{about.scale}: variants side by side",
        "createdAt": 0,  # the same sweep gives the same tag
        "state": json.dumps(_state(about), sort_keys=True),
    }
    return VIEW_TAG + about.scale, json.dumps(view, sort_keys=True)


def comparison_page(experiment_id: str, scale: str) -> str:
    """Return the address after the server's: charts of the trials, a line a variant."""
    query = f"viewStateShareKey={quote(scale, safe='')}&compareRunsMode=CHART"
    return f"#/experiments/{experiment_id}/runs?{query}&{TRAINING_RUNS}"


def report_page(experiment_id: str, run_id: str) -> str:
    """Return the same for the report among the parent's artifacts."""
    page = f"#/experiments/{experiment_id}/runs/{run_id}/artifacts/report/index.html"
    return f"{page}?{TRAINING_RUNS}"


def address_at(tracking_uri: str, page: str) -> str:
    """Return the whole address, without the password; empty where a store serves no pages."""
    parts = urlsplit(tracking_uri)
    if parts.scheme not in ("http", "https"):
        return ""
    host = parts.netloc.rpartition("@")[2]
    return f"{urlunsplit((parts.scheme, host, parts.path.rstrip('/'), '', ''))}/{page}"


def _state(about: About) -> dict[str, object]:
    """MLflow's names; what is left out has its default."""
    metric = judged_metric(about)
    trials = [("bakeoff.role", "trial"), ("bakeoff.scale", about.scale)]
    state: dict[str, object] = {"runsHiddenMode": "SHOW_ALL"}
    columns = ["params.`variant`", "params.`task`", "params.`seed`", "tags.`bakeoff.status`"]
    if metric is not None:
        trials.append(("bakeoff.probe", _QUALITY))
        score = f"metrics.`{entity_key(metric.name)}`"
        state |= {"orderByKey": score, "orderByAsc": metric.better == "lower"}
        state |= {"groupBy": _by_variant(about), **_charts(metric)}
        columns.append(score)
    state["searchFilter"] = " and ".join(f"tags.`{name}` = '{value}'" for name, value in trials)
    return state | {"selectedColumns": columns}


def _by_variant(about: About) -> dict[str, object]:
    """One line a variant, the mean over seeds; apart by task where there are several."""
    names = ["task", "variant"] if len(about.tasks) > 1 else ["variant"]
    keys = [{"mode": "param", "groupByData": name} for name in names]
    return {"aggregateFunction": "average", "groupByKeys": keys}


def _charts(metric: MetricSpec) -> dict[str, object]:
    """The score and its curve; below them MLflow makes charts of all other metrics by itself."""
    section = {"uuid": "score", "name": "the score", "display": True}
    flags = {"deleted": False, "isGenerated": False}
    curve = entity_key(f"validation_{metric.name}")
    bar = {"uuid": "score-bar", "type": "BAR", "metricKey": entity_key(metric.name)}
    line = {"uuid": "score-line", "type": "LINE", "metricKey": curve}
    drawn = {"selectedMetricKeys": [curve], **_AXES}
    of_section = {"metricSectionId": section["uuid"], "runsCountToCompare": 10, **flags}
    return {
        "compareRunCharts": [{**bar, **of_section}, {**line, **drawn, **of_section}],
        "compareRunSections": [{**section, **flags, "isReordered": True}],
        "isAccordionReordered": True,  # else sections stand in the order of their names
    }
