"""Draws the score of each variant against the time, FLOPs and memory of its training.

Every seed is visible, and so is the Pareto front: the variants that no other beats in both.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from matplotlib.ticker import FixedLocator, Locator, LogLocator, MaxNLocator

from reports.analysis.cost import VariantCost, variant_costs
from reports.document import Drawing, Exhibit, View, capitalized, listed, readable
from reports.escape import slug
from reports.plots.line_chart import LineChart, PlotAxis, Stroke, draw
from reports.plots.style import GREY, MAX_LINES, axis_title, caption, line_look, marker, with_unit
from reports.results.series import Series, belongs
from reports.results.variant_labels import shown_name
from reports.stats.intervals import for_quantities
from suite.schema import About

_WIDE = 8.0  # times between the least and the most from where on the axis is logarithmic
_EXPLORATORY = (
    "Further left is cheaper, and the vertical axis says which way is better. All of this is "
    "exploratory: the verdict rests on the one claim alone."
)
_SAME = 1e-9  # costs that differ by less, relative to the largest, are one


@dataclass(frozen=True, kw_only=True)
class _Scored:
    """A variant of which both score and cost are known.

    Attributes:
        name: As figures show it.
        index: Its place in the ablation.
        amount: Of the cost.
        scores: One a seed.
    """

    variant: str
    name: str
    index: int
    amount: float
    scores: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Of the scores."""
        return statistics.fmean(self.scores)


def tradeoff_exhibit(about: About, measured: Sequence[Series], judged: Series) -> Exhibit | None:
    """A score against each cost in which variants differ; None where fewer than two have both."""
    costs = variant_costs(about, measured, judged.task)
    views = tuple(view for cost in costs if (view := _view(about, judged, cost)))
    if not views:
        return None
    kinds = listed([view.title for view in views])
    return Exhibit(
        title=capitalized(f"{readable(judged.metric)} against {kinds}"),
        sentences=(_EXPLORATORY,),
        views=views,
    )


def pareto_front(places: Mapping[str, tuple[float, float]], judged: Series) -> list[str]:
    """The variants that no other beats in both cost and score, from the cheapest on.

    Args:
        places: Variant -> cost, mean score.
        judged: Says which direction of the score is good.
    """
    sign = -1.0 if judged.better == "lower" else 1.0
    best, front = -float("inf"), []
    for variant, (_, score) in sorted(places.items(), key=lambda p: (p[1][0], -sign * p[1][1])):
        if sign * score > best:
            best = sign * score
            front.append(variant)
    return front


def _view(about: About, judged: Series, cost: VariantCost) -> View | None:
    every = _scored(about, judged, cost)
    amounts = [one.amount for one in every]
    if len(every) < 2 or max(amounts) - min(amounts) <= _SAME * max(amounts):
        return None
    front = pareto_front({one.variant: (one.amount, one.mean) for one in every}, judged)
    sentence = f"Not beaten in both, by their means alone: {_joined(about, front)}."
    drawing = _drawn(about, judged, cost, every, front)
    return View(title=cost.title, sentences=(sentence, cost.how), drawings=(drawing,))


def _joined(about: About, front: Sequence[str]) -> str:
    names = [shown_name(about, variant) for variant in front[:MAX_LINES]]
    rest = len(front) - len(names)
    return f"{'; '.join(names)}{f'; and {rest} more' if rest else ''}"


def _scored(about: About, judged: Series, cost: VariantCost) -> list[_Scored]:
    """Every variant that has both, in the order of the ablation."""
    found = []
    for index, variant in enumerate(about.variants):
        amount, scores = cost.amounts.get(variant, 0.0), tuple(judged.values(variant).values())
        if scores and amount > 0 and belongs(variant, judged.task):
            name = shown_name(about, variant)
            found.append(
                _Scored(variant=variant, name=name, index=index, amount=amount, scores=scores)
            )
    return found


def _drawn(
    about: About, judged: Series, cost: VariantCost, every: Sequence[_Scored], front: Sequence[str]
) -> Drawing:
    shown = every[:MAX_LINES]
    scored = {one.variant: one for one in every}
    dashed = Stroke(
        x=[scored[variant].amount for variant in front],
        y=[scored[variant].mean for variant in front],
        look={"color": GREY, "linestyle": (0, (5, 4)), "linewidth": 1.2, "zorder": 1},
    )
    title = f"{readable(judged.metric)} against {cost.title} on {judged.task}"
    return draw(
        LineChart(
            name=f"{slug(judged.task)}-{slug(judged.metric)}-for-{cost.key}",
            title=capitalized(title), caption=_caption(about, judged, every),
            description=_describe(shown, judged, cost, _joined(about, front)), height=3.9,
            x=_cost_axis(cost, [one.amount for one in every]),
            y=PlotAxis(title=axis_title(judged.metric, judged.unit, judged.better)),
            strokes=[dashed, *(stroke for one in shown for stroke in _marks(one))],
        )
    )  # fmt: skip


def _marks(one: _Scored) -> Iterator[Stroke]:
    """Every seed, and the mean."""
    colour, shape = line_look(one.index)["color"], {"marker": marker(one.index)}
    hollow = {"linestyle": "none", "markerfacecolor": "white", "markeredgecolor": colour}
    yield Stroke(
        x=[one.amount] * len(one.scores), y=one.scores,
        look={**shape, **hollow, "markersize": 5, "zorder": 2},
    )  # fmt: skip
    filled = {**shape, "color": colour}
    yield Stroke(
        x=[one.amount], y=[one.mean], look={**filled, "markersize": 8, "zorder": 3}, name=one.name,
        name_look={**filled, "linestyle": "none", "markersize": 6, "markevery": (0, 2)},
    )  # fmt: skip


def _cost_axis(cost: VariantCost, amounts: Sequence[float]) -> PlotAxis:
    notation = for_quantities(cost.unit, amounts)
    is_log = max(amounts) > _WIDE * min(amounts)
    right = 1.06 * max(amounts)
    ticks: Locator
    if is_log and cost.unit == "B":
        ticks = LogLocator(base=2, numticks=9)
    elif is_log:
        ticks = LogLocator(subs=(1.0, 2.0, 5.0), numticks=9)
    else:  # round numbers of the displayed unit: round in MiB is not round in bytes
        round_ones = MaxNLocator(6).tick_values(0, right / notation.factor)
        ticks = FixedLocator([notation.factor * tick for tick in round_ones])
    return PlotAxis(
        title=f"{cost.title} ({notation.unit}, lower is better)", is_log=is_log, ticks=ticks,
        limits=(None, None) if is_log else (0, right),
        write=lambda x: f"{x / notation.factor:g}",
    )  # fmt: skip


def _describe(shown: Sequence[_Scored], judged: Series, cost: VariantCost, front: str) -> str:
    """The same numbers in words, for those who cannot see the figure."""
    unit = "" if judged.unit == "1" else f" {judged.unit}"
    parts = [
        f"{one.name}: {one.mean:.4g}{unit} for {with_unit(cost.unit, one.amount)}" for one in shown
    ]
    return f"{'; '.join(parts)}. Not beaten in both: {front}."


def _caption(about: About, judged: Series, every: Sequence[_Scored]) -> str:
    num_all = sum(belongs(variant, judged.task) for variant in about.variants)
    return caption({
        "Small open marks are seeds, large ones means; a dashed line joins the variants that "
        "no other beats in both, where there are several.": True,
        f"{num_all - len(every)} of {num_all} variants lack one of the two.":
            len(every) < num_all,
        f"Drawn are the first {MAX_LINES} of {len(every)}.": len(every) > MAX_LINES,
    })  # fmt: skip
