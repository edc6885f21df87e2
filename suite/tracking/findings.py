"""Holds what a sweep found, and turns each variant's numbers into the fields of a run. Pure.

A variant has one run for each task. It shows the row of the report's table and the mean curve of
the report's figure, so that nobody has to take means in the dashboard. Such a run never changes:
where a number does, another run takes its place.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from suite.schema import About
from suite.tracking.client import MetricRow, entity_key
from suite.tracking.shared_views import edition_tags

VARIANT_SHA256_TAG = "bakeoff.variant_sha256"  # of all that its run shows
NUM_SEEDS = "num_seeds"


@dataclass(frozen=True, kw_only=True)
class VariantNumbers:
    """What the report says of one variant on one task.

    Attributes:
        axes: Name of what is varied -> the variant's value.
        coverage: As ``2 of 3; 1 diverged``.
        is_complete: Whether all planned seeds ended well.
        metrics: As the report's table, intervals as ``NAME_low`` and ``NAME_high``.
        curve_metric: Name of the curve; empty where there is none.
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

    @property
    def num_curve_points(self) -> int:
        """Of which MLflow keeps each; none where a number has the name of the curve."""
        return 0 if self.curve_metric in self.metrics else len(self.curve)

    def rows(self, start_ms: int) -> list[MetricRow]:
        """Every number once, the points of the curve stamped with the start plus their step."""
        numbers = [MetricRow(entity_key(k), v, start_ms, 0) for k, v in self.metrics.items()]
        name, points = entity_key(self.curve_metric), self.curve[: self.num_curve_points]
        return numbers + [MetricRow(name, v, start_ms + step, step) for step, v in points]

    def tags(self, about: About) -> dict[str, str]:
        """Tags of its run; the last is a hash of everything that the run shows."""
        edition = about.edition
        parts = [self.variant, self.task, f"edition {edition}" if edition > 1 else ""]
        parts.append("" if self.is_complete else self.coverage.partition(": ")[0])
        tags = {
            "mlflow.runName": " · ".join(filter(None, parts)),
            "mlflow.source.name": "bakeoff",
            "mlflow.runType": "evaluation",  # MLflow unfolds the parents of such runs
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
        return {**tags, VARIANT_SHA256_TAG: hashlib.sha256(content.encode()).hexdigest()}


@dataclass(frozen=True, kw_only=True)
class Findings:
    """What a sweep found, as far as it has come.

    Attributes:
        verdict: The verdict on the claim, as ``supported``; empty where it makes none.
        sentence: The same with claim, size and interval, for a reader.
        variants: Those of each task, in the report's order.
    """

    verdict: str = ""
    sentence: str = ""
    variants: tuple[VariantNumbers, ...] = ()
