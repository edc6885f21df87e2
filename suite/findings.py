"""What is the store told of a sweep's answer? A word, a sentence, and a mean for each variant."""

from __future__ import annotations

import math
import statistics

from reports.frame import Sweep
from reports.series import Series, all_series
from reports.verdict import verdict
from suite.schema import About
from suite.tracking.chart_view import judged_metric
from suite.tracking.limits import entity_key
from suite.tracking.run_fields import Findings


def findings_of(sweep: Sweep) -> Findings:
    """Read off the same rows, by the same rules, as the report."""
    measured = all_series(sweep.about, sweep.results)
    judged = verdict(sweep.about, measured)
    return Findings(
        verdict=str(judged.outcome) if judged else "",
        sentence=judged.sentence if judged else "",
        means={
            key: mean
            for series in measured
            if _is_judged(series, sweep.about)
            for key, mean in _means(series, sweep.about).items()
        },
    )


def _is_judged(series: Series, about: About) -> bool:
    metric = judged_metric(about)
    return series.is_whole_score and metric is not None and series.metric == metric.name


def _means(series: Series, about: About) -> dict[str, float]:
    """By the name that the parent shows it under; the task stands in it where there are several."""
    task = [series.task] if len(about.tasks) > 1 else []
    found: dict[str, float] = {}
    for variant in about.variants:
        values = [value for value in series.values(variant).values() if math.isfinite(value)]
        if values:
            key = entity_key("/".join([series.metric, *task, variant]))
            found[key] = statistics.fmean(values)
    return found
