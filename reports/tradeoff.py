"""What does quality cost? Each variant's score against the time, FLOPs and memory of a training.

Every seed is visible, and so is the Pareto front: the variants that no other beats in both.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullLocator

from reports.analysis.cost import Cost, training_costs
from reports.document import Drawing, Exhibit, View
from reports.escape import slug
from reports.figures import axis_title, sentence, words
from reports.lines import MAX_LINES, LineName, look, marker, numbered, write_names
from reports.results.series import Series, belongs
from reports.results.variant_labels import shown_name
from reports.stats.number_format import for_quantities
from reports.svg import drawing_style, label, to_svg
from suite.schema import About

_WIDE = 8.0  # times between the least and the most from where on the axis is logarithmic
_EXPLORATORY = (
    "Further left is cheaper, and the vertical axis says which way is better. All of this is "
    "exploratory: the verdict rests on the one claim alone."
)
_SAME = 1e-9  # costs that differ by less, relative to the largest, are one


@dataclass(frozen=True, kw_only=True)
class _Placed:
    """A variant of which both score and cost are known.

    Attributes:
        amount: Of the cost.
        scores: One a seed.
    """

    variant: str
    amount: float
    scores: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Of the scores."""
        return statistics.fmean(self.scores)


def tradeoff_exhibit(about: About, measured: Sequence[Series], judged: Series) -> Exhibit | None:
    """The score of `judged` against each cost; None where fewer than two variants have both."""
    if not judged.is_score:
        return None
    costs = training_costs(about, measured, judged.task)
    views = tuple(view for cost in costs if (view := _view(about, judged, cost)))
    if not views:
        return None
    kinds = [view.title for view in views]
    listed = " and ".join(filter(None, [", ".join(kinds[:-1]), kinds[-1]]))
    return Exhibit(
        title=sentence(f"{words(judged.metric)} against {listed}"),
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


def _view(about: About, judged: Series, cost: Cost) -> View | None:
    every = _placed(about, judged, cost)
    if len(every) < 2:
        return None
    front = pareto_front({one.variant: (one.amount, one.mean) for one in every}, judged)
    sentences = [f"Not beaten in both, by their means alone: {_joined(about, front)}."]
    amounts = [one.amount for one in every]
    if max(amounts) - min(amounts) <= _SAME * max(amounts):
        sentences = [f"All variants are alike in {cost.title}, so here only the score tells."]
    drawing = _drawn(about, judged, cost, every, front)
    return View(title=cost.title, sentences=(*sentences, cost.how), drawings=(drawing,))


def _joined(about: About, front: Sequence[str]) -> str:
    names = [shown_name(about, variant) for variant in front[:MAX_LINES]]
    rest = len(front) - len(names)
    return f"{'; '.join(names)}{f'; and {rest} more' if rest else ''}"


def _placed(about: About, judged: Series, cost: Cost) -> list[_Placed]:
    found = []
    for variant, amount in cost.amounts.items():
        scores = tuple(judged.values(variant).values())
        if scores and amount > 0 and belongs(variant, judged.task):
            found.append(_Placed(variant=variant, amount=amount, scores=scores))
    order = {variant: index for index, variant in enumerate(about.variants)}
    return sorted(found, key=lambda one: order[one.variant])


def _drawn(
    about: About, judged: Series, cost: Cost, every: Sequence[_Placed], front: Sequence[str]
) -> Drawing:
    shown = every[:MAX_LINES]
    with drawing_style():
        figure = Figure(figsize=(7.2, 3.9), layout="constrained")
        axes = figure.add_subplot()
        _draw(axes, about, shown, [one for one in every if one.variant in frozenset(front)])
        _dress(axes, every, judged, cost)
        _name(axes, about, shown)
        name = f"{slug(judged.task)}-{slug(judged.metric)}-for-{cost.key}"
        title = sentence(f"{words(judged.metric)} against {cost.title} on {judged.task}")
        svg = to_svg(
            figure, name=name, title=title,
            description=_describe(about, shown, front, judged, cost),
        )  # fmt: skip
    return Drawing(name=name, title=title, caption=_caption(about, judged, every), svg=svg)


def _draw(axes: Axes, about: About, shown: Sequence[_Placed], on_front: Sequence[_Placed]) -> None:
    ordered = sorted(on_front, key=lambda one: one.amount)
    axes.plot(
        [one.amount for one in ordered], [one.mean for one in ordered], color="#9aa0a6",
        linestyle=(0, (5, 4)), linewidth=1.2, zorder=1,
    )  # fmt: skip
    for index, one in numbered(about, shown):
        colour = look(index)["color"]
        axes.plot(
            [one.amount] * len(one.scores), one.scores, linestyle="none", marker=marker(index),
            markersize=5, markerfacecolor="white", markeredgecolor=colour, zorder=2,
        )  # fmt: skip
        axes.plot(one.amount, one.mean, marker=marker(index), markersize=8, color=colour, zorder=3)


def _dress(axes: Axes, every: Sequence[_Placed], judged: Series, cost: Cost) -> None:
    amounts = [one.amount for one in every]
    notation = for_quantities(cost.unit, amounts)
    if max(amounts) > _WIDE * min(amounts):
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(_log_ticks(cost))
        axes.xaxis.set_minor_locator(NullLocator())
    else:  # round numbers of the displayed unit, which of bytes are none of the bytes themselves
        right = 1.06 * max(amounts)
        axes.set_xlim(left=0, right=right)
        ticks = MaxNLocator(6).tick_values(0, right / notation.factor)
        axes.xaxis.set_major_locator(FixedLocator([notation.factor * tick for tick in ticks]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x / notation.factor:g}"))
    axes.set_xlabel(f"{cost.title} ({notation.unit}, lower is better)")
    axes.set_ylabel(label(axis_title(judged.metric, judged.unit, judged.better), length=72))
    axes.yaxis.set_major_locator(MaxNLocator(6))
    axes.grid()


def _log_ticks(cost: Cost) -> LogLocator:
    """Powers of two for bytes; else 1, 2, 5, 10."""
    if cost.unit == "B":
        return LogLocator(base=2, numticks=9)
    return LogLocator(subs=(1.0, 2.0, 5.0), numticks=9)


def _name(axes: Axes, about: About, shown: Sequence[_Placed]) -> None:
    low, high = axes.get_ylim()
    write_names(axes, [
        LineName(
            height=(one.mean - low) / (high - low),
            text=shown_name(about, one.variant),
            look={"color": look(index)["color"], "linestyle": "none", "marker": marker(index),
                  "markersize": 6, "markevery": (0, 2)},
        )
        for index, one in numbered(about, shown)
    ])  # fmt: skip


def _describe(
    about: About, shown: Sequence[_Placed], front: Sequence[str], judged: Series, cost: Cost
) -> str:
    """The same numbers in words, for those who cannot see the figure."""
    unit = "" if judged.unit == "1" else f" {judged.unit}"
    parts = []
    for one in shown:
        notation = for_quantities(cost.unit, [one.amount])
        amount = notation.with_unit(f"{one.amount / notation.factor:.3g}")
        parts.append(f"{shown_name(about, one.variant)}: {one.mean:.4g}{unit} for {amount}")
    return f"{'; '.join(parts)}. Not beaten in both: {_joined(about, front)}."


def _caption(about: About, judged: Series, every: Sequence[_Placed]) -> str:
    parts = [
        "Small open marks are seeds, large ones means; a dashed line joins the variants that "
        "no other beats in both, where there are several."
    ]
    num_met = sum(belongs(variant, judged.task) for variant in about.variants)
    if len(every) < num_met:
        parts.append(f"{num_met - len(every)} of {num_met} variants lack one of the two.")
    if len(every) > MAX_LINES:
        parts.append(f"Drawn are the first {MAX_LINES} of {len(every)}.")
    return " ".join(parts)
