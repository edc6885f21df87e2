"""Reads learning curves from a sweep: the points of each seed, by steps, FLOPs or seconds.

Seconds are steps times the measured training step, never the clock of a training run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import numpy as np
import pandas as pd

from reports.results.series import Series, belongs
from suite.schema import About, Better

_LARGEST = 1e100  # beyond, squares overflow: such a number counts as none
_COLUMNS = ("variant", "seed", "step", "flops", "value")


@dataclass(frozen=True, kw_only=True)
class TrainingResource:
    """What a training spends, and what its curves can be held against.

    Attributes:
        key: In names of files.
        title: As on an axis.
        unit: Of the amount.
        view: What a comparison at one amount is called.
        missing: Stands in the place of a score, where a variant has no such curve.
        why_missing: Why no variant has one.
    """

    key: str
    title: str
    unit: str
    view: str
    missing: str
    why_missing: str = ""


STEPS = TrainingResource(
    key="step", title="training steps", unit="1", view="equal steps", missing="no points"
)
FLOPS = TrainingResource(
    key="flops", title="training FLOPs", unit="FLOP", view="equal FLOPs",
    missing="no FLOPs known", why_missing="no mixer here has a formula for its FLOPs",
)  # fmt: skip
SECONDS = TrainingResource(
    key="seconds", title="training time", unit="s", view="equal time", missing="not timed",
    why_missing="no training step was timed on this task",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class SeedCurve:
    """One seed: all tuples are of one length, in the order of the steps.

    Attributes:
        flops: Training FLOPs so far; NaN where the mixer gives no formula.
        spent: What the curve is held against, so far; ascending.
        scores: Finite, and no squares of them overflow.
    """

    seed: int
    steps: tuple[float, ...]
    flops: tuple[float, ...]
    spent: tuple[float, ...]
    scores: tuple[float, ...]

    def score_at(self, budget: float) -> float | None:
        """On the straight line between two points; None beyond them: nothing is extrapolated."""
        if not self.spent[0] <= budget <= self.spent[-1]:
            return None
        return float(np.interp(budget, self.spent, self.scores))


@dataclass(frozen=True, kw_only=True)
class Curves:
    """The learning curves of one metric on one task.

    Attributes:
        seeds: Variant -> its curves, in the order of the ablation; only those with points.
    """

    task: str
    metric: str
    unit: str
    better: Better
    against: TrainingResource
    seeds: Mapping[str, tuple[SeedCurve, ...]]


def learning_curves(about: About, points: pd.DataFrame, judged: Series) -> Curves | None:
    """Against steps, of the metric that says most about the task's score; None without points.

    Args:
        about: Gives the order of the variants.
        points: Columns as `suite.schema.CURVE_COLUMNS`.
        judged: The task's score.
    """
    chosen = _chosen(points, judged)
    if chosen.empty:
        return None
    first = chosen.iloc[0]
    found = _seed_curves(chosen)
    order = [v for v in about.variants if v in found and belongs(v, judged.task)]
    return Curves(
        task=judged.task, metric=first["metric"], unit=first["unit"], better=first["better"],
        against=STEPS, seeds={variant: found[variant] for variant in order},
    )  # fmt: skip


def by_flops(curves: Curves) -> Curves:
    """The same against training FLOPs, where those are known of every point of a seed."""
    seeds = {
        variant: tuple(replace(c, spent=c.flops) for c in some if np.isfinite(c.flops).all())
        for variant, some in curves.seeds.items()
    }
    return replace(curves, against=FLOPS, seeds={v: some for v, some in seeds.items() if some})


def by_seconds(curves: Curves, step_seconds: Mapping[str, float]) -> Curves:
    """The same against training time, of the variants whose step was timed."""
    seeds = {
        variant: tuple(
            replace(c, spent=tuple(step * step_seconds[variant] for step in c.steps)) for c in some
        )
        for variant, some in curves.seeds.items()
        if variant in step_seconds
    }
    return replace(curves, against=SECONDS, seeds=seeds)


def _chosen(points: pd.DataFrame, judged: Series) -> pd.DataFrame:
    """Points of one metric, each seed's in the order of its steps, every step once."""
    here = points[points["task"] == judged.task]
    wanted = [f"validation_{judged.metric}", judged.metric]
    present = sorted(here["metric"].unique(), key=lambda m: (not m.startswith("validation"), m))
    metric = next((m for m in [*wanted, *present] if m in present), None)
    chosen = here[here["metric"] == metric] if metric else here.iloc[:0]
    finite = chosen[chosen["value"].abs() < _LARGEST]  # not so where it is NaN
    # A seed that was trained in two environments: the first.
    places = ["variant", "seed", "step"]
    ordered = finite.sort_values([*places, "environment_id", "trial_id"], kind="stable")
    once: pd.DataFrame = ordered.drop_duplicates(places)
    return once


def _seed_curves(chosen: pd.DataFrame) -> dict[str, tuple[SeedCurve, ...]]:
    found: dict[str, list[SeedCurve]] = {}
    rows: Iterator[tuple[Any, ...]] = zip(
        *(chosen[name].tolist() for name in _COLUMNS), strict=True
    )
    for (variant, seed), group in groupby(rows, key=lambda row: row[:2]):
        found.setdefault(str(variant), []).append(_seed_curve(seed, list(group)))
    return {variant: tuple(some) for variant, some in found.items()}


def _seed_curve(seed: int, rows: Sequence[tuple[Any, ...]]) -> SeedCurve:
    steps, flops, scores = (tuple(float(row[at]) for row in rows) for at in (2, 3, 4))
    return SeedCurve(seed=seed, steps=steps, flops=flops, spent=steps, scores=scores)
