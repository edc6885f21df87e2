"""Build the dashboard's content for a sweep: runs of variants, and shared views. No I/O.

A variant has one run for each task. It shows the row of the report's table and the mean curve of
the report's figure, so that means need not be computed in the dashboard. If a number changes, a new
run replaces it.

MLflow stores a shared view as a tag of the experiment: the filter, the order, the columns, the
charts. A sweep has two: one of the variants, whose numbers are the report's; and one of the trials,
which shows live curves before there is a report. Neither is grouped: MLflow loads 100 runs at a
time, so that a mean that it computes would lack all further seeds. The name of a view with more
runs states which come first.

After a reload MLflow keeps filter and order, which are then part of the address, and draws its own
charts of the same runs, the experiment's primary metric first.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from urllib.parse import quote, urlsplit, urlunsplit

from bakeoff.suite.schema import QUALITY, About, MetricSpec
from bakeoff.suite.tracking.client import (
    PARAM_LIMIT,
    TAG_LIMIT,
    MetricRow,
    RunContent,
    entity_key,
    shortened,
)

EDITION_TAG = "bakeoff.edition"  # its number; for a trial, the newest edition that it belongs to
# This is needed because two folders may number editions differently.
EDITION_SHA256_TAG = "bakeoff.edition_sha256"
# Tag of the parent: the edition that its variants show.
SHOWN_EDITION_TAG = "bakeoff.edition_of_variants"
VIEW_TAG = "mlflow.sharedViewState."  # prefix of a tag of the experiment; the view's key follows
PRIMARY_METRIC_TAG = "mlflow.experiment.primaryMetric.name"
VARIANT_SHA256_TAG = "bakeoff.variant_sha256"  # the mark of a complete variant in older versions
NUM_SEEDS = "num_seeds"
RUNS_AT_A_TIME = 100  # number of runs that MLflow's pages load; a button loads more
# Without it, MLflow shows pages for language models.
TRAINING_RUNS = "workflowType=machine_learning"
_AXES = {
    "lineSmoothness": 0,
    "xAxisScaleType": "linear",
    "scaleType": "linear",
    "xAxisKey": "step",
    "yAxisKey": "metric",
    "yAxisExpressions": [],
    "range": {},
    "ignoreOutliers": False,
    "useGlobalXaxisKey": True,
    "useGlobalLineSmoothing": True,
    "selectedXAxisMetricKey": "",
}


def edition_tags(about: About) -> dict[str, str]:
    """Return the tags that identify the shown edition; without a hash in an old store."""
    sha256 = next((each.sha256 for each in about.editions if each.is_shown), "")
    return {EDITION_TAG: str(about.edition), **({EDITION_SHA256_TAG: sha256} if sha256 else {})}


@dataclass(frozen=True, kw_only=True)
class VariantNumbers:
    """The report's numbers of one variant on one task.

    Attributes:
        variant: The label of the variant.
        task: The name of the task.
        axes: Name of the axis -> the variant's value.
        coverage: The number of seeds, for example ``2 of 3; 1 diverged``.
        is_complete: Whether all planned seeds succeeded.
        metrics: The numbers of the report's table, with intervals as ``NAME_low`` and
            ``NAME_high``.
        curve_metric: Name of the curve; empty if there is none.
        curve: Step and mean over seeds of each point.
    """

    variant: str
    task: str
    axes: Mapping[str, str] = field(default_factory=dict)
    coverage: str = ""
    is_complete: bool = True
    metrics: Mapping[str, float] = field(default_factory=dict)
    curve_metric: str = ""
    curve: tuple[tuple[int, float], ...] = ()

    @property
    def params(self) -> dict[str, str]:
        """MLflow's parameters."""
        params = {**self.axes, "variant": self.variant, "task": self.task}
        return {entity_key(name): value for name, value in params.items() if value}

    def content(self, about: About) -> RunContent:
        """Return the content of the variant's run."""
        edition = about.edition
        parts = [self.variant, self.task, f"edition {edition}" if edition > 1 else ""]
        parts.append("" if self.is_complete else self.coverage.partition(": ")[0])
        tags = {
            "mlflow.runName": " · ".join(filter(None, parts)),
            "mlflow.source.name": "bakeoff",
            "mlflow.runType": "evaluation",  # MLflow expands the parents of such runs
            "bakeoff.role": "variant",
            "bakeoff.ablation": about.ablation,
            "bakeoff.scale": about.scale,
            "bakeoff.variant": self.variant,
            "bakeoff.task": self.task,
            "bakeoff.coverage": self.coverage,
            **edition_tags(about),
        }
        tags = {name: value for name, value in tags.items() if value}
        content = json.dumps([tags, asdict(self)], sort_keys=True)
        numbers = [MetricRow(entity_key(name), v, 0, 0) for name, v in self.metrics.items()]
        # A number with the name of the curve would be appended to the curve.
        points = () if self.curve_metric in self.metrics else self.curve
        curve, fitting = entity_key(self.curve_metric), shortened(tags, TAG_LIMIT, "the report")[0]
        return RunContent(
            sha256=hashlib.sha256(content.encode()).hexdigest(),
            place=("variant", fitting["bakeoff.variant"], self.task),
            tags=fitting,
            params=shortened(self.params, PARAM_LIMIT, "the report")[0],
            rows=(*numbers, *(MetricRow(curve, v, step, step) for step, v in points)),
        )


@dataclass(frozen=True, kw_only=True)
class Findings:
    """The present findings of a sweep.

    Attributes:
        verdict: The verdict on the claim, for example ``supported``; empty without a claim.
        sentence: The verdict with claim, size and interval, for a reader.
        variants: The variants on each task, in the report's order.
    """

    verdict: str = ""
    sentence: str = ""
    variants: tuple[VariantNumbers, ...] = ()


def judged_metric(about: About) -> MetricSpec | None:
    """Return the score of the claim, or else the first one, or None if nothing is trained."""
    tasks = (about.claim.task, *about.tasks) if about.claim else about.tasks
    named = about.claim.metric if about.claim else ""
    for task in tasks:
        specs = about.metrics.get(task, {}).get(QUALITY, ())
        if specs:
            return next((spec for spec in specs if spec.name == named), specs[0])
    return None


def view_tags(about: About) -> dict[str, str]:
    """Return the experiment's tags with the views of this sweep and the primary metric."""
    metric = judged_metric(about)
    trials = ("trials", _of_trials(about, metric))
    variants = (_title(about), _of_variants(about, metric)) if metric else trials
    views = {"": variants, "trials": trials}
    found = {PRIMARY_METRIC_TAG: entity_key(metric.name)} if metric else {}
    for key, (title, state) in views.items():
        view = {
            "name": f"{about.scale}: {title}",
            "createdAt": 0,  # the same sweep gives the same tag
            "state": json.dumps(state, sort_keys=True),
        }
        found[VIEW_TAG + _key(about.scale, key)] = json.dumps(view, sort_keys=True)
    return found


def comparison_page(experiment_id: str, scale: str, *, has_variants: bool = True) -> str:
    """Return the address after the server's: the variants side by side, or else the trials."""
    key = quote(_key(scale, "" if has_variants else "trials"), safe="")
    query = f"viewStateShareKey={key}&compareRunsMode=CHART"
    return f"#/experiments/{experiment_id}/runs?{query}&{TRAINING_RUNS}"


def page_of(experiment_id: str, parent: Mapping[str, str]) -> str:
    """Return the page of a sweep that is available now, by the tags of its parent.

    A store of an older version has no editions, and one view.
    """
    has_variants = parent.get(SHOWN_EDITION_TAG) == parent.get(EDITION_TAG)
    return comparison_page(experiment_id, parent["bakeoff.scale"], has_variants=has_variants)


def report_page(experiment_id: str, run_id: str) -> str:
    """Return the address after the server's of the report among the parent's artifacts."""
    page = f"#/experiments/{experiment_id}/runs/{run_id}/artifacts/report/index.html"
    return f"{page}?{TRAINING_RUNS}"


def address_at(tracking_uri: str, page: str) -> str:
    """Return the whole address, without the password; empty if the store serves no pages."""
    parts = urlsplit(tracking_uri)
    if parts.scheme not in ("http", "https"):
        return ""
    host = parts.netloc.rpartition("@")[2]
    return f"{urlunsplit((parts.scheme, host, parts.path.rstrip('/'), '', ''))}/{page}"


def _key(scale: str, view: str) -> str:
    return f"{scale}.{view}" if view else scale


def _title(about: About) -> str:
    number = len(about.variants) * len(about.tasks)
    more = f" ({number:,}, the best {RUNS_AT_A_TIME} first)" if number > RUNS_AT_A_TIME else ""
    return f"variants side by side{more}"


def _of_variants(about: About, metric: MetricSpec) -> dict[str, object]:
    """Return the view of the variants, best first, as MLflow's fields without defaults."""
    name = entity_key(metric.name)
    scores = [f"metrics.`{name}{end}`" for end in ("", "_low", "_high", "_difference")]
    task = ["params.`task`"] if len(about.tasks) > 1 else []
    return {
        **_runs(about, "variant"),
        **_charts(metric),
        "orderByKey": f"metrics.`{name}`",
        "orderByAsc": metric.better == "lower",
        "selectedColumns": [*task, *scores, "metrics.`num_seeds`"],
    }


def _of_trials(about: About, metric: MetricSpec | None) -> dict[str, object]:
    """Return the view of the trials, newest first, so that running ones are among them.

    If the runs were sorted by MLflow's own name for the start, only the collapsed parent would be
    shown.
    """
    probe = {"bakeoff.probe": QUALITY} if metric else {}
    score = [f"metrics.`{entity_key(metric.name)}`"] if metric else []
    columns = ["params.`variant`", "params.`task`", "params.`seed`", "tags.`bakeoff.status`"]
    return {
        **_runs(about, "trial", **probe),
        **(_charts(metric) if metric else {}),
        "orderByKey": "attributes.`start_time`",
        "orderByAsc": False,
        "selectedColumns": [*columns, *score],
    }


def _runs(about: About, role: str, **more: str) -> dict[str, object]:
    """Return the filter of the listed runs, and that charts show the first 20 of them."""
    wanted = {"bakeoff.role": role, "bakeoff.scale": about.scale, **more}
    edition = edition_tags(about)
    wanted |= {name: edition[name] for name in [*edition][-1:]}  # the hash, if there is one
    query = " and ".join(f"tags.`{name}` = '{value}'" for name, value in wanted.items())
    return {"searchFilter": query, "runsHiddenMode": "FIRST_20_RUNS"}


def _charts(metric: MetricSpec) -> dict[str, object]:
    """Return the charts of the score and its curve; MLflow adds charts of all other metrics."""
    section = {"uuid": "score", "name": "the score", "display": True}
    flags = {"deleted": False, "isGenerated": False}
    curve = entity_key(f"validation_{metric.name}")
    bar = {"uuid": "score-bar", "type": "BAR", "metricKey": entity_key(metric.name)}
    line = {"uuid": "score-line", "type": "LINE", "metricKey": curve}
    drawn: dict[str, object] = {"selectedMetricKeys": [curve], **_AXES}
    of_section = {"metricSectionId": section["uuid"], "runsCountToCompare": 20, **flags}
    return {
        "compareRunCharts": [{**bar, **of_section}, {**line, **drawn, **of_section}],
        "compareRunSections": [{**section, **flags, "isReordered": True}],
        "isAccordionReordered": True,  # otherwise sections are in the order of their names
    }
