"""Draws learning curves: a validation metric against steps, training FLOPs or training time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from matplotlib.ticker import MaxNLocator

from reports.document import Drawing
from reports.escape import slug
from reports.plots.line_chart import (
    ChartLine,
    LineChart,
    LineStyle,
    PlotAxis,
    Stroke,
    draw,
)
from reports.plots.style import MAX_LINES, axis_title, capitalized, caption, line_look, readable
from reports.results.learning_curves import STEPS, Curves, SeedCurve
from reports.results.series import belongs
from reports.results.variant_labels import shown_name
from reports.stats.intervals import mean_interval
from reports.stats.number_format import for_quantities
from suite.schema import About

_SETTLED = 0.45  # of the training, from where on the values set the frame
_FAR = 5.0  # interquartile ranges beyond which a value leaves the frame


_STYLE = LineStyle(
    line={"linewidth": 1.9}, baseline={"linewidth": 2.8}, band={"alpha": 0.11, "zorder": 1.5}
)


def curves_figure(about: About, curves: Curves, budget: float | None = None) -> Drawing | None:
    """Each seed thin, the mean over all seeds thick, in a band that is its 95 % interval.

    The mean ends where the first seed ends, so that it is never one of survivors.

    Args:
        about: Gives names and order.
        curves: Of at least one variant, else there is no drawing.
        budget: Where a dotted line stands, in what the curves are held against.
    """
    lines = [_line(about, *some) for some in list(curves.seeds.items())[:MAX_LINES]]
    if not lines:
        return None
    drawn = [curves.seeds[about.variants[line.index]] for line in lines]
    low, high = _limits(drawn)
    is_cut = not all(low <= y <= high for seeds in drawn for seed in seeds for y in seed.scores)
    title = f"{readable(curves.metric)} against {curves.against.title} on {curves.task}"
    return draw(
        LineChart(
            name=f"{slug(curves.task)}-{slug(curves.metric)}-by-{curves.against.key}",
            title=capitalized(title), description=_describe(about, lines, curves),
            caption=_caption(about, lines, curves, is_cut=is_cut, has_budget=budget is not None),
            height=3.9, x=_x_axis(drawn, curves, budget), grid="y", style=_STYLE, lines=lines,
            y=PlotAxis(
                title=axis_title(curves.metric, curves.unit, curves.better), limits=(low, high)
            ),
        )
    )  # fmt: skip


def _line(about: About, variant: str, seeds: Sequence[SeedCurve]) -> ChartLine:
    """Each seed, and their mean over the steps that every seed reached."""
    index, name = about.variants.index(variant), shown_name(about, variant)
    look, is_baseline = line_look(index), variant == about.baseline
    at_step = [dict(zip(seed.steps, seed.scores, strict=True)) for seed in seeds]
    mean = {
        spent: mean_interval([scores[step] for scores in at_step])
        for step, spent in zip(seeds[0].steps, seeds[0].spent, strict=True)
        if all(step in scores for scores in at_step)
    }
    # One stroke with gaps: a thousand strokes would take matplotlib half a minute.
    thin = Stroke(
        x=[x for seed in seeds for x in (*seed.spent, math.nan)],
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
            x=seeds[0].spent[-1:], y=seeds[0].scores[-1:], look={**look, **width}, name=name
        )
    ends_early = last < max(seed.spent[-1] for seed in seeds)
    return replace(line, above=[end], mark=" †" if ends_early else "")


def _limits(drawn: Sequence[Sequence[SeedCurve]]) -> tuple[float, float]:
    """Frame the plot by where the lines end up.

    The first steps are alike for all, and a diverging seed is alike to nothing: neither may
    squeeze the differences that the figure is looked at for. Of each line what it did late in its
    own training counts, since a cheap variant is done where a dear one has just begun.
    """
    late = []
    for seeds in drawn:
        start = _SETTLED * max(seed.spent[-1] for seed in seeds)
        late += [
            y for seed in seeds for x, y in zip(seed.spent, seed.scores, strict=True) if x >= start
        ]
    values = np.array(late)
    low, high = np.quantile(values, [0.25, 0.75])
    reach = _FAR * (high - low)
    near = values[(values >= low - reach) & (values <= high + reach)]
    margin = 0.06 * (near.max() - near.min()) or 0.05 * abs(near.max()) or 0.05
    return near.min() - margin, near.max() + margin


def _x_axis(drawn: Sequence[Sequence[SeedCurve]], curves: Curves, budget: float | None) -> PlotAxis:
    dotted = {"color": "#5f6368", "linestyle": (0, (1, 2)), "linewidth": 1.1, "zorder": 1}
    axis = PlotAxis(
        title=curves.against.title, limits=(0, None),
        ticks=MaxNLocator(6, steps=[1, 2, 2.5, 5, 10]),
        rule=None if budget is None else (budget, dotted),
    )  # fmt: skip
    if curves.against is STEPS:
        return axis
    notation = for_quantities(
        curves.against.unit, [seed.spent[-1] for seeds in drawn for seed in seeds]
    )
    title = f"{axis.title} ({notation.unit})"
    return replace(axis, title=title, write=lambda x: f"{x / notation.factor:g}")


def _describe(about: About, lines: Sequence[ChartLine], curves: Curves) -> str:
    """Where each line starts and ends, in words."""
    parts = [
        f"{about.variants[line.index]}: from {line.ends[0][1]:.4g} to {line.ends[1][1]:.4g}"
        for line in lines
        if line.points
    ]
    return f"Mean {readable(curves.metric)}, first point to last: {'; '.join(parts)}."


def _caption(
    about: About, lines: Sequence[ChartLine], curves: Curves, *, is_cut: bool, has_budget: bool
) -> str:
    has_bands = any(line.intervals for line in lines)
    num_all = sum(belongs(variant, curves.task) for variant in about.variants)
    num_missing = num_all - len(curves.seeds)
    return caption({
        "Thin lines are seeds, thick ones their mean.": not has_bands,
        "Thin lines are seeds, thick ones their mean, bands its 95 % interval. Variants share "
        "the luck of a seed, so a difference can be sure where bands overlap.": has_bands,
        "The dotted line is the budget of the table.": has_budget,
        f"{num_missing} of {num_all} variants have no such points.": num_missing > 0,
        f"Drawn are the first {len(lines)} of {num_all} variants.": len(lines) < len(curves.seeds),
        "† A mean ends where the first of its seeds ends.": any(line.mark for line in lines),
        "The frame is that of the later training; some points lie beyond.": is_cut,
    })  # fmt: skip
