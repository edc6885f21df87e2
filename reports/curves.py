"""How did the variants learn? A validation metric against steps, training FLOPs, training time.

Three views of the same points: at equal steps, at equal FLOPs, at equal time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from reports.document import Drawing
from reports.escape import slug
from reports.figures import axis_title, sentence, words
from reports.learning_curves import (
    Against,
    Curves,
    SeedCurve,
    by_flops,
    by_seconds,
    learning_curves,
)
from reports.lines import MAX_LINES, LineName, look, numbered, write_names
from reports.results.series import Series, belongs
from reports.results.variant_labels import shown_name
from reports.stats.intervals import Estimate, mean_interval
from reports.stats.number_format import for_quantities
from reports.svg import drawing_style, label, to_svg
from suite.schema import About

X_TITLES: Mapping[Against, str] = {
    "step": "training steps", "flops": "training FLOPs", "seconds": "training time",
}  # fmt: skip
X_UNITS: Mapping[Against, str] = {"step": "1", "flops": "FLOP", "seconds": "s"}
_SETTLED = 0.45  # of the training, from where on the values set the frame
_FAR = 5.0  # interquartile ranges beyond which a value leaves the frame


@dataclass(frozen=True, kw_only=True)
class _Line:
    """One variant: its seeds, and their mean over the steps that every seed reached."""

    variant: str
    seeds: tuple[SeedCurve, ...]

    @cached_property
    def mean(self) -> tuple[tuple[float, Estimate], ...]:
        """What was spent, and the mean of the seeds there with its interval."""
        at_step = [dict(zip(seed.steps, seed.scores, strict=True)) for seed in self.seeds]
        spent = dict(zip(self.seeds[0].steps, self.seeds[0].spent, strict=True))
        return tuple(
            (spent[step], mean_interval([scores[step] for scores in at_step]))
            for step in self.seeds[0].steps
            if all(step in scores for scores in at_step)
        )

    @property
    def points(self) -> list[tuple[float, float]]:
        """Of the mean."""
        return [(x, one.point) for x, one in self.mean if one.point is not None]

    @property
    def end(self) -> float:
        """The last number of the mean, or where seeds share no step of the first seed."""
        return self.points[-1][1] if self.points else self.seeds[0].scores[-1]

    @property
    def ends_early(self) -> bool:
        """Whether some seed goes on where the mean ends."""
        last = max((x for x, _ in self.points), default=0.0)
        return last < max(seed.spent[-1] for seed in self.seeds)


def curve_figure(
    about: About,
    points: pd.DataFrame,
    judged: Series,
    against: Against,
    step_seconds: Mapping[str, float] | None = None,
) -> Drawing | None:
    """Learning curves on the task of `judged`; None where there are no points.

    Args:
        about: Gives names and order.
        points: Columns as `suite.schema.CURVE_COLUMNS`.
        judged: The task's score.
        against: What the curves are held against.
        step_seconds: Variant -> seconds of a training step; needed against seconds.
    """
    curves = learning_curves(about, points, judged)
    if curves is None:
        return None
    if against == "flops":
        curves = by_flops(curves)
    elif against == "seconds":
        curves = by_seconds(curves, step_seconds or {})
    return drawn_curves(about, curves)


def drawn_curves(about: About, curves: Curves, budget: float | None = None) -> Drawing | None:
    """Each seed thin, the mean over all seeds thick, in a band that is its 95 % interval.

    The mean ends where the first seed ends, so that it is never one of survivors.

    Args:
        about: Gives names and order.
        curves: What is drawn, of the first variants.
        budget: Where a dotted line stands; None draws none.

    Returns:
        None where there are no points.
    """
    kept = list(curves.seeds.items())[:MAX_LINES]
    lines = [_Line(variant=variant, seeds=seeds) for variant, seeds in kept]
    if not lines:
        return None
    with drawing_style():
        figure = Figure(figsize=(7.2, 3.9), layout="constrained")
        axes = figure.add_subplot()
        is_cut = _set_limits(axes, lines)
        if budget is not None:
            axes.axvline(budget, color="#5f6368", linestyle=(0, (1, 2)), linewidth=1.1, zorder=1)
        for index, line in numbered(about, lines):
            _draw(axes, index, line, is_baseline=line.variant == about.baseline)
        _name_lines(axes, about, lines)
        _dress(axes, lines, curves)
        name = f"{slug(curves.task)}-{slug(curves.metric)}-by-{curves.against}"
        title = f"{words(curves.metric)} against {X_TITLES[curves.against]} on {curves.task}"
        svg = to_svg(figure, name=name, title=sentence(title), description=_describe(lines, curves))
    caption = _caption(about, lines, curves, is_cut=is_cut, has_budget=budget is not None)
    return Drawing(name=name, title=sentence(title), caption=caption, svg=svg)


def _draw(axes: Axes, index: int, line: _Line, *, is_baseline: bool) -> None:
    shown = look(index)
    banded = [(x, e.low, e.high) for x, e in line.mean if e.low is not None and e.high is not None]
    if banded:
        x, low, high = zip(*banded, strict=True)
        axes.fill_between(x, low, high, color=shown["color"], alpha=0.11, linewidth=0, zorder=1.5)
    axes.plot(*_in_one(line.seeds), linewidth=0.8, alpha=0.45, **shown)
    if line.points:
        x, y = zip(*line.points, strict=True)
        axes.plot(x, y, linewidth=2.8 if is_baseline else 1.9, **shown)
        axes.plot(x[-1:], y[-1:], marker="o", markersize=4.5, color=shown["color"])


def _in_one(seeds: Sequence[SeedCurve]) -> tuple[list[float], list[float]]:
    """All seeds as one line with gaps: a thousand lines would take matplotlib half a minute."""
    gap = (np.nan,)
    return (
        [x for seed in seeds for x in (*seed.spent, *gap)],
        [y for seed in seeds for y in (*seed.scores, *gap)],
    )


def _set_limits(axes: Axes, lines: Sequence[_Line]) -> bool:
    """Frame the plot by where the lines end up; whether some point lies outside.

    The first steps are alike for all, and a diverging seed is alike to nothing: neither may
    squeeze the differences that the figure is looked at for. Of each line what it did late in its
    own training counts, since a cheap variant is done where a dear one has just begun.
    """
    every = [seed for line in lines for seed in line.seeds]
    longest = {line.variant: max(seed.spent[-1] for seed in line.seeds) for line in lines}
    values = np.array([
        y
        for line in lines
        for seed in line.seeds
        for x, y in zip(seed.spent, seed.scores, strict=True)
        if x >= _SETTLED * longest[line.variant]
    ])  # fmt: skip
    low, high = np.quantile(values, [0.25, 0.75])
    reach = _FAR * (high - low)
    near = values[(values >= low - reach) & (values <= high + reach)]
    margin = 0.06 * (near.max() - near.min()) or 0.05 * abs(near.max()) or 0.05
    bottom, top = near.min() - margin, near.max() + margin
    axes.set_ylim(bottom, top)
    return not all(bottom <= y <= top for seed in every for y in seed.scores)


def _name_lines(axes: Axes, about: About, lines: Sequence[_Line]) -> None:
    low, high = axes.get_ylim()
    names = []
    for index, line in numbered(about, lines):
        width = 2.8 if line.variant == about.baseline else 1.9
        names.append(
            LineName(
                height=(line.end - low) / (high - low),
                text=shown_name(about, line.variant),
                mark=" †" if line.ends_early else "",
                look={**look(index), "linewidth": width},
            )
        )
    write_names(axes, names)


def _dress(axes: Axes, lines: Sequence[_Line], curves: Curves) -> None:
    axes.grid(axis="y")
    axes.set_ylabel(label(axis_title(curves.metric, curves.unit, curves.better), length=72))
    axes.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 2.5, 5, 10]))
    axes.yaxis.set_major_locator(MaxNLocator(6))
    axes.set_xlim(left=0)
    if curves.against == "step":
        axes.set_xlabel(X_TITLES["step"])
        return
    ends = [seed.spent[-1] for line in lines for seed in line.seeds]
    notation = for_quantities(X_UNITS[curves.against], ends)
    axes.set_xlabel(f"{X_TITLES[curves.against]} ({notation.unit})")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x / notation.factor:g}"))


def _describe(lines: Sequence[_Line], curves: Curves) -> str:
    """Where each line starts and ends, in words."""
    parts = [
        f"{line.variant}: from {line.points[0][1]:.4g} to {line.points[-1][1]:.4g}"
        for line in lines
        if line.points
    ]
    return f"Mean {words(curves.metric)}, first point to last: {'; '.join(parts)}."


def _caption(
    about: About, lines: Sequence[_Line], curves: Curves, *, is_cut: bool, has_budget: bool
) -> str:
    parts = ["Thin lines are seeds, thick ones their mean."]
    if any(estimate.low is not None for line in lines for _, estimate in line.mean):
        parts = [
            "Thin lines are seeds, thick ones their mean, bands its 95 % interval. Variants share "
            "the luck of a seed, so a difference can be sure where bands overlap."
        ]
    if has_budget:
        parts.append("The dotted line is the budget of the table.")
    num_met = sum(belongs(variant, curves.task) for variant in about.variants)
    num_missing = num_met - len(curves.seeds)
    if num_missing:
        parts.append(f"{num_missing} of {num_met} variants have no such points.")
    if len(lines) < len(curves.seeds):
        parts.append(f"Drawn are the first {len(lines)} of {num_met} variants.")
    if any(line.ends_early for line in lines):
        parts.append("† A mean ends where the first of its seeds ends.")
    if is_cut:
        parts.append("The frame is that of the later training; some points lie beyond.")
    return " ".join(parts)
