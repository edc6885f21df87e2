"""Reads learning curves from a sweep, and draws them against training steps."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.ticker import MaxNLocator

from reports.document import Drawing, capitalized, readable
from reports.escape import slug
from reports.plots.line_chart import ChartLine, LineChart, LineStyle, PlotAxis, Stroke, draw
from reports.plots.style import MAX_LINES, axis_title, caption, line_look
from reports.results.axis_values import belongs
from reports.results.series import Series, is_share
from reports.results.variant_labels import shown_name
from reports.stats.intervals import Estimate, mean_interval, share_interval
from suite.schema import About, Better

_LARGEST = 1e100  # beyond, squares overflow: such a number counts as none
_COLUMNS = ("variant", "seed", "step", "value")
_SETTLED = 0.45  # of the training, from where on the values set the frame
_FAR = 5.0  # interquartile ranges beyond which a value leaves the frame
_STEPS = PlotAxis(
    title="training steps", limits=(0, None), ticks=MaxNLocator(6, steps=[1, 2, 2.5, 5, 10])
)
_STYLE = LineStyle(
    line={"linewidth": 1.9}, baseline={"linewidth": 2.8}, band={"alpha": 0.11, "zorder": 1.5}
)


@dataclass(frozen=True, kw_only=True)
class SeedCurve:
    """One seed: both tuples are of one length, in the order of the steps.

    Attributes:
        scores: Finite, and no squares of them overflow.
    """

    seed: int
    steps: tuple[float, ...]
    scores: tuple[float, ...]


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
    seeds: Mapping[str, tuple[SeedCurve, ...]]


def learning_curves(about: About, points: pd.DataFrame, judged: Series) -> Curves | None:
    """Of the metric that says most about the task's score; None without points.

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
    order = [v for v in about.variants if v in found and belongs(about, v, judged.task)]
    return Curves(
        task=judged.task,
        metric=first["metric"],
        unit=first["unit"],
        better=first["better"],
        seeds={variant: found[variant] for variant in order},
    )


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
    numbers = chosen.astype({"step": "float64"})
    rows: Iterator[tuple[Any, ...]] = zip(
        *(numbers[name].tolist() for name in _COLUMNS), strict=True
    )
    for (variant, seed), group in groupby(rows, key=lambda row: row[:2]):
        _, _, steps, scores = (tuple(some) for some in zip(*group, strict=True))
        curve = SeedCurve(seed=seed, steps=steps, scores=scores)
        found.setdefault(str(variant), []).append(curve)
    return {variant: tuple(some) for variant, some in found.items()}


def curves_figure(about: About, curves: Curves) -> Drawing | None:
    """Each seed thin, the mean over all seeds thick, in a band that is its 95 % interval.

    The mean ends where the first seed ends, so that it is never one of survivors. None where no
    variant has points.
    """
    lines = [_line(about, curves, variant) for variant in list(curves.seeds)[:MAX_LINES]]
    if not lines:
        return None
    drawn = [curves.seeds[about.variants[line.index]] for line in lines]
    low, high = _limits(drawn)
    is_cut = not all(low <= y <= high for seeds in drawn for seed in seeds for y in seed.scores)
    title = f"{readable(curves.metric)} against training steps on {curves.task}"
    return draw(
        LineChart(
            name=f"{slug(curves.task)}-{slug(curves.metric)}-by-step",
            title=capitalized(title),
            description=_describe(about, lines, curves),
            caption=_caption(about, lines, curves, is_cut=is_cut),
            height=3.9,
            x=_STEPS,
            grid="y",
            style=_STYLE,
            lines=lines,
            y=PlotAxis(
                title=axis_title(curves.metric, curves.unit, curves.better), limits=(low, high)
            ),
        )
    )


def mean_curve(seeds: Sequence[SeedCurve], *, of_shares: bool = False) -> dict[float, Estimate]:
    """Step -> mean over all seeds, at the steps that every seed reached."""
    at_step = [dict(zip(seed.steps, seed.scores, strict=True)) for seed in seeds]
    return {
        step: (share_interval if of_shares else mean_interval)([scores[step] for scores in at_step])
        for step in (seeds[0].steps if seeds else ())
        if all(step in scores for scores in at_step)
    }


def _line(about: About, curves: Curves, variant: str) -> ChartLine:
    """Each seed, and their mean over the steps that every seed reached."""
    index, name = about.variants.index(variant), shown_name(about, variant)
    look, is_baseline = line_look(index), variant == about.baseline
    seeds = curves.seeds[variant]
    mean = mean_curve(seeds, of_shares=is_share(curves.metric, curves.unit))
    # One stroke with gaps: a thousand strokes would take matplotlib half a minute.
    thin = Stroke(
        x=[x for seed in seeds for x in (*seed.steps, math.nan)],
        y=[y for seed in seeds for y in (*seed.scores, math.nan)],
        look={**look, "linewidth": 0.8, "alpha": 0.45},
    )
    line = ChartLine(name=name, index=index, is_baseline=is_baseline, estimates=mean, below=[thin])
    if line.points:
        last, score = line.ends[1]
        dot = {"marker": "o", "markersize": 4.5, "color": look["color"]}
        end = Stroke(x=[last], y=[score], look=dot)
    else:  # the seeds share no step: the name stands where the first one ends
        last, width = 0.0, _STYLE.baseline if is_baseline else _STYLE.line
        end = Stroke(
            x=seeds[0].steps[-1:], y=seeds[0].scores[-1:], look={**look, **width}, name=name
        )
    ends_early = last < max(seed.steps[-1] for seed in seeds)
    return replace(line, above=[end], mark=" †" if ends_early else "")


def _limits(drawn: Sequence[Sequence[SeedCurve]]) -> tuple[float, float]:
    """Frame the plot by where the lines end up.

    The first steps are alike for all, and a diverging seed is alike to nothing: neither may
    squeeze the differences that the figure is looked at for. Of each line what it did late in its
    own training counts.
    """
    late = []
    for seeds in drawn:
        start = _SETTLED * max(seed.steps[-1] for seed in seeds)
        late += [
            y for seed in seeds for x, y in zip(seed.steps, seed.scores, strict=True) if x >= start
        ]
    values = np.array(late)
    low, high = np.quantile(values, [0.25, 0.75])
    reach = _FAR * (high - low)
    near = values[(values >= low - reach) & (values <= high + reach)]
    margin = 0.06 * (near.max() - near.min()) or 0.05 * abs(near.max()) or 0.05
    return near.min() - margin, near.max() + margin


def _describe(about: About, lines: Sequence[ChartLine], curves: Curves) -> str:
    """Where each line starts and ends, in words."""
    parts = [
        f"{about.variants[line.index]}: from {line.ends[0][1]:.4g} to {line.ends[1][1]:.4g}"
        for line in lines
        if line.points
    ]
    return f"Mean {readable(curves.metric)}, first point to last: {'; '.join(parts)}."


def _caption(about: About, lines: Sequence[ChartLine], curves: Curves, *, is_cut: bool) -> str:
    has_bands = any(line.intervals for line in lines)
    num_all = sum(belongs(about, variant, curves.task) for variant in about.variants)
    num_missing = num_all - len(curves.seeds)
    return caption(
        {
            "Thin lines are seeds, thick ones their mean.": not has_bands,
            "Thin lines are seeds, thick ones their mean, bands its 95 % interval. Variants share "
            "the luck of a seed, so a difference can be sure where bands overlap.": has_bands,
            f"{num_missing} of {num_all} variants have no such points.": num_missing > 0,
            f"Drawn are the first {len(lines)} of {num_all} variants.": len(lines)
            < len(curves.seeds),
            "† A mean ends where the first of its seeds ends.": any(line.mark for line in lines),
            "The frame is that of the later training; some points lie beyond.": is_cut,
        }
    )
