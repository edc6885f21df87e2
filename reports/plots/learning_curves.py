"""Read the learning curves of a sweep, and draw them against training steps."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.ticker import MaxNLocator

from bakeoff.reports.document import Drawing, capitalized, readable
from bakeoff.reports.escape import slug
from bakeoff.reports.plots.line_chart import ChartLine, LineChart, LineStyle, PlotAxis, Stroke, draw
from bakeoff.reports.plots.style import MAX_LINES, axis_title, caption, line_look
from bakeoff.reports.results.axis_values import belongs
from bakeoff.reports.results.series import Series, is_share
from bakeoff.reports.results.spoken_names import shown_names
from bakeoff.reports.stats.intervals import Estimate, mean_interval, share_interval
from bakeoff.suite.schema import About, Better

_LARGEST = 1e100  # the square of a larger number overflows; such a value is dropped
_COLUMNS = ("variant", "seed", "step", "value")
_SETTLED = 0.45  # values after this share of the training determine the frame
_FAR = 5.0  # values that are more interquartile ranges away are outside the frame
_STEPS = PlotAxis(
    title="training steps", limits=(0, None), ticks=MaxNLocator(6, steps=[1, 2, 2.5, 5, 10])
)
_STYLE = LineStyle(
    line={"linewidth": 1.9}, baseline={"linewidth": 2.8}, band={"alpha": 0.11, "zorder": 1.5}
)


@dataclass(frozen=True, kw_only=True)
class SeedCurve:
    """The learning curve of one seed; both tuples have one entry for each step, in order.

    Attributes:
        scores: Finite values whose squares do not overflow.
    """

    seed: int
    steps: tuple[float, ...]
    scores: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class Curves:
    """The learning curves of one metric on one task.

    Attributes:
        seeds: Variant -> its curves, in the order of the ablation; only variants with points.
    """

    task: str
    metric: str
    unit: str
    better: Better
    seeds: Mapping[str, tuple[SeedCurve, ...]]


def learning_curves(about: About, points: pd.DataFrame, judged: Series) -> Curves | None:
    """Return the curves of the metric closest to the task's score, or None without points.

    Args:
        about: The sweep, which gives the order of the variants.
        points: Points with the columns `bakeoff.suite.schema.CURVE_COLUMNS`.
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
    """Return the points of one metric by variant, seed and step, without duplicate steps."""
    here = points[points["task"] == judged.task]
    wanted = [f"validation_{judged.metric}", judged.metric]
    present = sorted(here["metric"].unique(), key=lambda m: (not m.startswith("validation"), m))
    metric = next((m for m in [*wanted, *present] if m in present), None)
    chosen = here[here["metric"] == metric] if metric else here.iloc[:0]
    finite = chosen[chosen["value"].abs() < _LARGEST]  # False for NaN
    # If a seed was trained in two environments, keep the first.
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
    """Draw each seed thin and the mean thick, with its 95 % interval as a band.

    The mean ends where the first seed ends, so it always includes all seeds. Return None if no
    variant has points.
    """
    names = shown_names(about)
    lines = [_line(about, curves, v, names[v]) for v in list(curves.seeds)[:MAX_LINES]]
    if not lines:
        return None
    drawn = [curves.seeds[about.variants[line.index]] for line in lines]
    low, high = _limits(drawn, of_shares=is_share(curves.metric, curves.unit))
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
    """Return step -> mean over all seeds, for the steps that every seed reached."""
    at_step = [dict(zip(seed.steps, seed.scores, strict=True)) for seed in seeds]
    return {
        step: (share_interval if of_shares else mean_interval)([scores[step] for scores in at_step])
        for step in (seeds[0].steps if seeds else ())
        if all(step in scores for scores in at_step)
    }


def _line(about: About, curves: Curves, variant: str, name: str) -> ChartLine:
    """Return the curves of all seeds, and their mean over the steps that every seed reached."""
    index, is_baseline = about.variants.index(variant), variant == about.baseline
    look = line_look(index)
    seeds = curves.seeds[variant]
    mean = mean_curve(seeds, of_shares=is_share(curves.metric, curves.unit))
    # Draw one stroke with gaps: matplotlib would need half a minute for a thousand strokes.
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
    else:  # the seeds share no step: write the name where the first one ends
        last, width = 0.0, _STYLE.baseline if is_baseline else _STYLE.line
        end = Stroke(
            x=seeds[0].steps[-1:], y=seeds[0].scores[-1:], look={**look, **width}, name=name
        )
    ends_early = last < max(seed.steps[-1] for seed in seeds)
    return replace(line, above=[end], mark=" †" if ends_early else "")


def _limits(drawn: Sequence[Sequence[SeedCurve]], *, of_shares: bool) -> tuple[float, float]:
    """Return limits of the vertical axis, based on the values late in training.

    The first steps look alike for all variants, and a diverging seed is far from everything;
    neither may squeeze the differences that the figure is meant to show. Late means late in the
    training of each line. A share hardly leaves 0 to 1.
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
    low, high = near.min() - margin, near.max() + margin
    return (max(low, -0.02), min(high, 1.02)) if of_shares else (low, high)


def _describe(about: About, lines: Sequence[ChartLine], curves: Curves) -> str:
    """Describe the first and the last point of each line in words."""
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
            "Thin lines are seeds, thick lines their means.": not has_bands,
            "Thin lines are seeds, thick lines their means, bands the 95 % intervals of the means. "
            "Variants share random seeds, so a paired difference can be significant even where "
            "bands overlap.": has_bands,
            f"{num_missing} of {num_all} variants have no such points.": num_missing > 0,
            f"The first {len(lines)} of {num_all} variants are drawn.": len(lines)
            < len(curves.seeds),
            "† A mean ends where the first of its seeds ends.": any(line.mark for line in lines),
            "The axes cover the later part of the training; some points lie outside.": is_cut,
        }
    )
