"""Draws losses against training FLOPs with the fitted laws, and against size at equal FLOPs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
from matplotlib.ticker import FixedLocator, LogLocator

from reports.analysis.iso_flops import FlopsBudget, frontier
from reports.analysis.scaling_data import LawGroup, LawPrediction
from reports.document import Drawing, capitalized, readable
from reports.escape import slug
from reports.plots.line_chart import LineChart, PlotAxis, Stroke, draw
from reports.plots.style import MAX_LINES, axis_title, caption, line_look, marker, with_unit
from reports.results.series import Series

_HEIGHT = 4.4
_NUM_PLACES = 60  # of a fitted curve
_TICKS = 6
_BAR = {"linewidth": 5.0, "alpha": 0.45, "solid_capstyle": "butt", "zorder": 3}


def law_figure(judged: Series, groups: Sequence[LawGroup]) -> Drawing | None:
    """Every training and the lowest loss by each law; None without a law and FLOPs.

    Args:
        judged: The loss.
        groups: The first `MAX_LINES` are drawn.
    """
    shown = [group for group in groups if frontier(group, [1.0])][:MAX_LINES]
    if not shown:
        return None
    strokes = [stroke for group in shown for stroke in _of_group(group)]
    title = f"{readable(judged.metric)} against training FLOPs on {judged.task}"
    return draw(
        LineChart(
            name=f"{slug(judged.task)}-scaling-law",
            title=capitalized(title),
            caption=_caption(shown, len(groups)),
            description=_describe(judged, shown),
            height=_HEIGHT,
            strokes=strokes,
            x=PlotAxis(
                title="training FLOPs (lower is cheaper)",
                is_log=True,
                ticks=LogLocator(base=10, numticks=9),
                write=lambda x: with_unit("FLOP", x),
            ),
            y=_loss_axis(judged, strokes),
        )
    )


def iso_flops_figure(
    judged: Series, group: LawGroup, budgets: Sequence[FlopsBudget]
) -> Drawing | None:
    """Loss against parameters, a line a budget; None without budgets."""
    if not budgets:
        return None
    strokes = [stroke for i, one in enumerate(budgets) for stroke in _of_budget(one, i)]
    strokes += _valley(budgets)
    title = f"{readable(judged.metric)} by size at equal training FLOPs, {group.name}"
    return draw(
        LineChart(
            name=slug(f"{judged.task}-iso-flops-{group.name.replace('=', '-')}"),
            title=capitalized(title),
            caption="Lines are the fitted law where all FLOPs of a budget are spent; points are "
            "read off between trainings of one size. Crosses are the lowest points of the lines, "
            "where these lie in the picture.",
            description=_describe_budgets(judged, budgets),
            height=_HEIGHT,
            strokes=strokes,
            x=PlotAxis(
                title="parameters",
                is_log=True,
                ticks=LogLocator(subs=(1.0, 2.0, 5.0), numticks=9),
                write=lambda x: f"{x:,.0f}",
            ),
            y=_loss_axis(judged, strokes),
        )
    )


def _of_group(group: LawGroup) -> Iterator[Stroke]:
    """Trainings of a size joined thinly, the law's lowest losses, what was held out."""
    colour, shape = line_look(group.index)["color"], marker(group.index)
    sizes: dict[float, list[tuple[float, float]]] = {}
    for one in group.seen:
        if one.flops:
            sizes.setdefault(one.point.num_parameters, []).append((one.flops, one.mean))
    for places in sizes.values():
        x, y = zip(*sorted(places), strict=True)
        yield Stroke(
            x=x,
            y=y,
            look={
                "color": colour,
                "linewidth": 0.7,
                "alpha": 0.6,
                "zorder": 2,
                "marker": shape,
                "markersize": 3.5,
            },
        )
    seen = [one.flops for one in group.seen if one.flops]
    ahead = [one.larger.flops for one in group.predictions if one.larger.flops]
    yield _curve(group, min(seen), max(seen), "-", group.short_name)
    if ahead and max(ahead) > max(seen):
        yield _curve(group, max(seen), max(ahead), (0, (4, 2)), "")
    for prediction in group.predictions:
        yield from _held_out(prediction, colour, shape)


def _curve(group: LawGroup, low: float, high: float, dashes: object, name: str) -> Stroke:
    places = [float(x) for x in np.geomspace(low, high, _NUM_PLACES)]
    found = frontier(group, places)
    look = {
        "color": line_look(group.index)["color"],
        "linewidth": 2.0,
        "linestyle": dashes,
        "zorder": 3,
    }
    return Stroke(x=list(found), y=list(found.values()), look=look, name=name)


def _held_out(one: LawPrediction, colour: str, shape: str) -> Iterator[Stroke]:
    """The interval as a bar, the measured mean as a large open point."""
    (low, high), flops = one.ends, one.larger.flops
    if flops is None:
        return
    yield Stroke(x=[flops, flops], y=[low, high], look={"color": colour, **_BAR})
    yield Stroke(
        x=[flops],
        y=[one.larger.mean],
        look={
            "marker": shape,
            "markersize": 8,
            "markerfacecolor": "white",
            "linestyle": "none",
            "markeredgecolor": colour,
            "markeredgewidth": 1.8,
            "zorder": 5,
        },
    )


def _of_budget(budget: FlopsBudget, index: int) -> Iterator[Stroke]:
    look = line_look(index)
    plain = {
        "color": look["color"],
        "linestyle": "none",
        "marker": "o",
        "markersize": 5,
        "zorder": 4,
    }
    yield Stroke(
        x=list(budget.curve),
        y=list(budget.curve.values()),
        look={**look, "linewidth": 1.6, "zorder": 2},
        name=with_unit("FLOP", budget.flops),
    )
    yield Stroke(x=list(budget.measured), y=list(budget.measured.values()), look=plain)


def _valley(budgets: Sequence[FlopsBudget]) -> Iterator[Stroke]:
    for index, one in enumerate(budgets):
        size = one.best_size.point
        if size is not None and min(one.curve) <= size <= max(one.curve):
            look = {
                "color": line_look(index)["color"],
                "linestyle": "none",
                "marker": "x",
                "markersize": 8,
                "markeredgewidth": 2.0,
                "zorder": 5,
            }
            yield Stroke(x=[size], y=[one.best_loss], look=look)


def _loss_axis(judged: Series, strokes: Sequence[Stroke]) -> PlotAxis:
    """Logarithmic, with round numbers, since a decade would be too wide for ticks of its own."""
    values = [y for stroke in strokes for y in stroke.y]
    low, high = min(values), max(values)
    step = _round_step((high - low) / _TICKS)
    first = math.ceil(low / step)
    ticks = [step * k for k in range(first, math.floor(high / step) + 1)]
    return PlotAxis(
        title=axis_title(judged.metric, judged.unit, judged.better),
        is_log=True,
        limits=(0.99 * low, 1.01 * high),
        ticks=FixedLocator(ticks),
        write=lambda y: f"{y:.4g}",
    )


def _round_step(least: float) -> float:
    """1, 2 or 5 times a power of ten, at least so large."""
    power = 10.0 ** math.floor(math.log10(max(least, 1e-12)))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= least)


def _describe(judged: Series, groups: Sequence[LawGroup]) -> str:
    parts = []
    for group in groups:
        means = [one.mean for one in group.seen]
        said = f"{group.name}: {max(means):.4g} to {min(means):.4g} {judged.unit} as measured"
        for one in group.predictions:
            low, high = one.ends
            said += (
                f", {one.larger.mean:.4g} in the held-out training, predicted "
                f"{one.predicted.point:.4g}, between {low:.4g} and {high:.4g}"
            )
        parts.append(said)
    return f"{'; '.join(parts)}."


def _describe_budgets(judged: Series, budgets: Sequence[FlopsBudget]) -> str:
    parts = []
    for one in budgets:
        size, where = one.best_size.point, "none in range"
        if size is not None:
            where = f"{size:,.0f} parameters with {one.best_loss:.4g} {judged.unit}"
        parts.append(f"{with_unit('FLOP', one.flops)}: best size {where}")
    return f"{'; '.join(parts)}."


def _caption(shown: Sequence[LawGroup], num_groups: int) -> str:
    has_predictions = any(group.predictions for group in shown)
    return caption(
        {
            "Small points are trainings, means over seeds; thin lines join those of one size. A "
            "thick line is the lowest loss that the law has for so many FLOPs, at any size between "
            "the smallest and the largest.": True,
            "It is dashed where nothing was fitted. Large open points were held out; the bar is "
            "the interval in which the law predicts them.": has_predictions,
            f"Drawn are {len(shown)} of {num_groups} laws.": len(shown) < num_groups,
        }
    )
