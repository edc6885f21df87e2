"""What is the store told of a sweep's answer? A word, a sentence, and a mean for each variant."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field

from reports.analysis.verdict import verdict
from reports.results.frame import Sweep
from reports.results.series import Series, all_series
from suite.comparison import judged_metric
from suite.schema import About
from suite.store_limits import entity_key


@dataclass(frozen=True, kw_only=True)
class Findings:
    """What a sweep found, as far as it has come.

    Attributes:
        verdict: The verdict on the claim, as ``supported``; empty where it makes none.
        sentence: The same with claim, size and interval, for a reader.
        means: Metric of the parent -> mean over seeds, as ``bits_per_character/heads:8``.
    """

    verdict: str = ""
    sentence: str = ""
    means: Mapping[str, float] = field(default_factory=dict)


def findings_of(sweep: Sweep) -> Findings:
    """Read off the same rows, by the same rules, as the report."""
    measured = all_series(sweep.about, sweep.results)
    judged = verdict(sweep.about, measured) if sweep.about.claim else None
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
