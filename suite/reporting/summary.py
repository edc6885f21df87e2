"""Sums up a sweep for the store: a verdict, its sentence, and a mean for each variant."""

from __future__ import annotations

import math
import statistics

from reports.analysis.verdict import verdict
from reports.results.frame import Sweep
from reports.results.series import Series, all_series
from suite.schema import About
from suite.tracking.chart_view import judged_metric
from suite.tracking.limits import entity_key
from suite.tracking.run_fields import Findings


def findings_of(sweep: Sweep) -> Findings:
    """The summary, by the rules of the report."""
    about = sweep.about
    measured = all_series(about, sweep.results)
    judged, metric = verdict(about, measured), judged_metric(about)
    means: dict[str, float] = {}
    for series in measured:
        if series.is_whole_score and metric is not None and series.metric == metric.name:
            means |= _means(series, about)
    return Findings(
        verdict=str(judged.outcome) if judged else "",
        sentence=judged.sentence if judged else "",
        means=means,
    )


def _means(series: Series, about: About) -> dict[str, float]:
    """By the metric's name on the parent, which holds the task where there are several."""
    task = [series.task] if len(about.tasks) > 1 else []
    found: dict[str, float] = {}
    for variant in about.variants:
        values = [value for value in series.values(variant).values() if math.isfinite(value)]
        if values:
            key = entity_key("/".join([series.metric, *task, variant]))
            found[key] = statistics.fmean(values)
    return found
