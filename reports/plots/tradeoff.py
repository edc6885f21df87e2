"""Draw the score of each variant against its state size and its training time, FLOPs and memory.

Every seed is shown, and so is the Pareto front: the variants that no other variant beats in both.
Against state size, variants with the same mixer share a colour and are joined by a line, since
the comparison is how much each mixer recalls for the state that it keeps.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass

from matplotlib.ticker import FixedLocator, Locator, LogLocator, MaxNLocator

from bakeoff.reports.analysis.cost import STATE, VariantCost, variant_costs
from bakeoff.reports.document import Drawing, Exhibit, View, capitalized, listed, readable
from bakeoff.reports.escape import slug
from bakeoff.reports.plots.line_chart import LineChart, PlotAxis, Stroke, draw
from bakeoff.reports.plots.style import (
    GREY,
    MAX_LINES,
    axis_title,
    caption,
    line_look,
    marker,
    with_unit,
)
from bakeoff.reports.results.axis_values import belongs
from bakeoff.reports.results.series import Series
from bakeoff.reports.results.spoken_names import proper_name, shown_names
from bakeoff.reports.stats.intervals import for_quantities
from bakeoff.suite.schema import About

_WIDE = 8.0  # ratio of the largest to the smallest cost above which the axis is logarithmic
_WIDE_STATE = 2.0  # the same for state sizes, which are doubled rather than added to
_EXPLORATORY = (
    "Points further left are cheaper, and the label of the vertical axis gives the better "
    "direction. This comparison is exploratory: the verdict depends only on the one claim."
)
_ABOVE = "The figure at the top of the page shows the {}."
_SAME = 1e-9  # costs with a smaller relative difference are considered equal


@dataclass(frozen=True, kw_only=True)
class _Scored:
    """A variant whose score and cost are both known.

    Attributes:
        name: The name in figures.
        family: Its mixer if variants are grouped by mixer, otherwise its name.
        index: The position of the family in the ablation.
        amount: The cost.
        scores: One score for each seed.
    """

    variant: str
    name: str
    family: str
    index: int
    amount: float
    scores: tuple[float, ...]

    @property
    def mean(self) -> float:
        """The mean of the scores."""
        return statistics.fmean(self.scores)


def tradeoff_exhibit(
    about: About, measured: Sequence[Series], judged: Series, above: Container[str] = ()
) -> Exhibit | None:
    """Plot a score against each cost in which variants differ.

    Args:
        about: The sweep.
        measured: All series of the sweep, including the costs.
        judged: The score.
        above: The names of the figures at the top of the page, which are not repeated.

    Returns:
        The exhibit, or None if no cost has at least two variants and differs between them.
    """
    views = tuple(_views(about, measured, judged))
    if not views:
        return None
    kinds = listed([view.title for view in views])
    shown = [view for view in views if view.drawings[0].name in above]
    words = [text for view in shown for text in (_ABOVE.format(view.title), *view.sentences)]
    return Exhibit(
        title=capitalized(f"{readable(judged.metric)} against {kinds}"),
        sentences=(_EXPLORATORY, *words),
        views=tuple(view for view in views if view not in shown),
    )


def state_figure(about: About, measured: Sequence[Series], judged: Series) -> Drawing | None:
    """Plot a score against the bytes of state; return None if the variants have equal sizes.

    Zoology (arXiv:2312.04927) and Based (arXiv:2402.18668) compare mixers by recall against the
    size of the state.
    """
    kept = (cost for cost in variant_costs(about, measured, judged.task) if cost.key == STATE)
    view = next((_view(about, judged, cost, _families(about)) for cost in kept), None)
    return view.drawings[0] if view else None


def pareto_front(places: Mapping[str, tuple[float, float]], judged: Series) -> list[str]:
    """Return the variants that no other beats in both cost and score, starting with the cheapest.

    Args:
        places: Variant -> cost, mean score.
        judged: The score, which determines whether higher or lower is better.
    """
    sign = -1.0 if judged.better == "lower" else 1.0
    best, front = -float("inf"), []
    for variant, (_, score) in sorted(places.items(), key=lambda p: (p[1][0], -sign * p[1][1])):
        if sign * score > best:
            best = sign * score
            front.append(variant)
    return front


def _views(about: About, measured: Sequence[Series], judged: Series) -> Iterator[View]:
    costs = list(variant_costs(about, measured, judged.task))
    has_state = any(cost.key == STATE for cost in costs)
    families = _families(about) if has_state else {}
    yield from filter(None, (_view(about, judged, cost, families) for cost in costs))


def _families(about: About) -> dict[str, str]:
    """Return variant -> mixer; empty unless there are several mixers and two variants share one."""
    found = {variant: facts.mixer for variant, facts in about.subjects.items() if facts.mixer}
    sizes = Counter(found.values())
    is_told = len(sizes) > 1 and max(sizes.values()) > 1 and found.keys() >= set(about.variants)
    return found if is_told else {}


def _view(
    about: About, judged: Series, cost: VariantCost, families: Mapping[str, str]
) -> View | None:
    every = _scored(about, judged, cost, families)
    amounts = [one.amount for one in every]
    if len(every) < 2 or max(amounts) - min(amounts) <= _SAME * max(amounts):
        return None
    whole = [one for one in every if not judged.seeds_diverged(one.variant)]
    front = pareto_front({one.variant: (one.amount, one.mean) for one in whole}, judged)
    lost = [one.variant for one in every if one not in whole]
    sentence = f"Pareto-optimal by their means alone: {_joined(about, front)}."
    if lost:
        sentence += f" Seeds of {_joined(about, lost)} diverged: not ranked."
    drawing = _drawn(about, judged, cost, every, front)
    return View(title=cost.title, sentences=(sentence, cost.how), drawings=(drawing,))


def _joined(about: About, front: Sequence[str]) -> str:
    shown = shown_names(about)
    names = [shown[variant] for variant in front[:MAX_LINES]]
    rest = len(front) - len(names)
    return f"{'; '.join(names)}{f'; and {rest} more' if rest else ''}"


def _scored(
    about: About, judged: Series, cost: VariantCost, families: Mapping[str, str]
) -> list[_Scored]:
    """Return every variant that has both a score and a cost, in the order of the ablation."""
    found = []
    sizes = Counter(families.values())
    shown = shown_names(about)
    named = {**shown} | {
        v: proper_name(family) for v, family in families.items() if sizes[family] > 1
    }
    places = {family: place for place, family in enumerate(dict.fromkeys(named.values()))}
    for variant in about.variants:
        amount, scores = cost.amounts.get(variant, 0.0), tuple(judged.values(variant).values())
        if scores and amount > 0 and belongs(about, variant, judged.task):
            found.append(
                _Scored(
                    variant=variant,
                    name=shown[variant],
                    family=named[variant],
                    index=places[named[variant]],
                    amount=amount,
                    scores=scores,
                )
            )
    return found


def _drawn(
    about: About, judged: Series, cost: VariantCost, every: Sequence[_Scored], front: Sequence[str]
) -> Drawing:
    families: dict[str, list[_Scored]] = {}
    for one in every:
        families.setdefault(one.family, []).append(one)
    shown = [one for some in [*families.values()][:MAX_LINES] for one in some]
    scored = {one.variant: one for one in every}
    dashed = Stroke(
        x=[scored[variant].amount for variant in front],
        y=[scored[variant].mean for variant in front],
        look={"color": GREY, "linestyle": (0, (5, 4)), "linewidth": 1.2, "zorder": 1},
    )
    title = f"{readable(judged.metric)} against {cost.title} on {judged.task}"
    strokes = [stroke for some in [*families.values()][:MAX_LINES] for stroke in _marks(some)]
    return draw(
        LineChart(
            name=f"{slug(judged.task)}-{slug(judged.metric)}-for-{cost.key}",
            title=capitalized(title),
            caption=_caption(about, judged, every, len(families)),
            description=_describe(shown, judged, cost, _joined(about, front)),
            height=3.9,
            x=_cost_axis(cost, [one.amount for one in every]),
            y=PlotAxis(title=axis_title(judged.metric, judged.unit, judged.better)),
            strokes=[dashed, *strokes],
        )
    )


def _marks(family: Sequence[_Scored]) -> Iterator[Stroke]:
    """Yield the seeds of every variant, then the means, joined by a line if there are several."""
    index = family[0].index
    colour, shape = line_look(index)["color"], {"marker": marker(index)}
    hollow = {"linestyle": "none", "markerfacecolor": "white", "markeredgecolor": colour}
    for one in family:
        yield Stroke(
            x=[one.amount] * len(one.scores),
            y=one.scores,
            look={**shape, **hollow, "markersize": 5, "zorder": 2},
        )
    ordered = sorted(family, key=lambda one: one.amount)
    filled = {**shape, "color": colour}
    joined = {"linewidth": 1.2} if len(family) > 1 else {}
    yield Stroke(
        x=[one.amount for one in ordered],
        y=[one.mean for one in ordered],
        look={**filled, **joined, "markersize": 8, "zorder": 3},
        name=family[0].family,
        name_look={**filled, "linestyle": "none", "markersize": 6, "markevery": (0, 2)},
    )


def _cost_axis(cost: VariantCost, amounts: Sequence[float]) -> PlotAxis:
    notation = for_quantities(cost.unit, amounts)
    wide = _WIDE_STATE if cost.key == STATE else _WIDE
    is_log = max(amounts) > wide * min(amounts)
    right = 1.06 * max(amounts)
    ticks: Locator
    if is_log and cost.unit == "B":
        ticks = LogLocator(base=2, numticks=9)
    elif is_log:
        ticks = LogLocator(subs=(1.0, 2.0, 5.0), numticks=9)
    else:  # round numbers in the displayed unit, since round MiB are not round in bytes
        round_ones = MaxNLocator(6).tick_values(0, right / notation.factor)
        ticks = FixedLocator([notation.factor * tick for tick in round_ones])
    return PlotAxis(
        title=f"{cost.title} ({notation.unit}, lower is better)",
        is_log=is_log,
        ticks=ticks,
        limits=(None, None) if is_log else (0, right),
        write=lambda x: f"{x / notation.factor:g}",
    )


def _describe(shown: Sequence[_Scored], judged: Series, cost: VariantCost, front: str) -> str:
    """Return the same numbers in words, for readers who cannot see the figure."""
    unit = "" if judged.unit == "1" else f" {judged.unit}"
    parts = [
        f"{one.name}: {one.mean:.4g}{unit} for {with_unit(cost.unit, one.amount)}" for one in shown
    ]
    return f"{'; '.join(parts)}. Pareto-optimal: {front}."


def _caption(about: About, judged: Series, every: Sequence[_Scored], num_families: int) -> str:
    num_all = sum(belongs(about, variant, judged.task) for variant in about.variants)
    are_joined = num_families < len(every)
    of = num_families if are_joined else len(every)
    return caption(
        {
            "Small open markers are seeds, large markers are means; a dashed line joins the "
            "Pareto-optimal variants if there are several.": True,
            "Variants of one mixer share a colour and are joined by a line.": are_joined,
            f"{num_all - len(every)} of {num_all} variants lack one of the two values.": len(every)
            < num_all,
            f"The first {MAX_LINES} of {of}{' mixers' if are_joined else ''} are drawn.": of
            > MAX_LINES,
        }
    )
