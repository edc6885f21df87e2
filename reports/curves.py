"""How did the variants learn? A validation metric against steps, and against training FLOPs.

Two views of the same points: at equal steps, and at equal FLOPs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from reports.baseline import shown_name
from reports.figures import Drawing, axis_title, sentence, words
from reports.lines import MAX_LINES, LineName, look, write_names
from reports.notation import for_quantities
from reports.series import Series, belongs
from reports.svg import drawing_style, label, to_svg
from reports.text import slug
from suite.schema import About

Against = Literal["step", "flops"]
_SETTLED = 0.45  # of the training, from where on the values set the frame
_FAR = 5.0  # interquartile ranges beyond which a value leaves the frame


@dataclass(frozen=True, kw_only=True)
class _Line:
    """One seed, or a mean over seeds: x ascending, y finite."""

    steps: tuple[float, ...]
    x: tuple[float, ...]
    y: tuple[float, ...]


def curve_figure(
    about: About, curves: pd.DataFrame, judged: Series, against: Against
) -> Drawing | None:
    """Learning curves on the task of `judged`: each seed thin, the mean over all seeds thick.

    The mean ends where the first seed ends, so that it is never one of survivors. None where
    there are no points.
    """
    chosen = _points(curves, judged)
    lines = _lines(about, chosen, judged.task, against)
    if not lines:
        return None
    metric, unit, better = (chosen.iloc[0][name] for name in ("metric", "unit", "better"))
    with drawing_style():
        figure = Figure(figsize=(7.2, 3.9), layout="constrained")
        axes = figure.add_subplot()
        is_cut = _set_limits(axes, lines)
        for index, (variant, seeds) in enumerate(lines.items()):
            _draw(axes, index, seeds, is_baseline=variant == about.baseline)
        _name_lines(axes, about, lines)
        _dress(axes, lines, axis_title(metric, unit, better), against)
        name = f"{slug(judged.task)}-{slug(metric)}-by-{against}"
        view = "training steps" if against == "step" else "training FLOPs"
        title = f"{words(metric)} against {view} on {judged.task}"
        svg = to_svg(figure, name=name, title=sentence(title), description=_describe(lines, metric))
    caption = _caption(about, lines, judged.task, is_cut=is_cut)
    return Drawing(name=name, title=sentence(title), caption=caption, svg=svg)


def _points(curves: pd.DataFrame, judged: Series) -> pd.DataFrame:
    """The points of the metric that says most about the task's score."""
    here = curves[curves["task"] == judged.task]
    wanted = [f"validation_{judged.metric}", judged.metric]
    present = sorted(set(here["metric"]), key=lambda m: (not m.startswith("validation"), m))
    metric = next((m for m in [*wanted, *present] if m in present), None)
    chosen = here[here["metric"] == metric] if metric else here.iloc[:0]
    finite: pd.DataFrame = chosen[np.isfinite(chosen["value"].to_numpy())]
    return finite


def _lines(
    about: About, points: pd.DataFrame, task: str, against: Against
) -> dict[str, tuple[_Line, ...]]:
    """Variant -> one line a seed, of the first variants of the table."""
    drawn = points[np.isfinite(points[against].to_numpy(dtype="float64"))]
    by_variant = {str(name): group for name, group in drawn.groupby("variant", sort=False)}
    shown = [v for v in about.variants if v in by_variant and belongs(v, task)][:MAX_LINES]
    return {variant: _seed_lines(by_variant[variant], against) for variant in shown}


def _seed_lines(points: pd.DataFrame, against: Against) -> tuple[_Line, ...]:
    ordered = points.sort_values(["seed", "environment_id", "trial_id", "step"])
    lines = []
    for _, group in ordered.groupby("seed"):
        once = group.drop_duplicates("step")  # a seed trained in two environments: the first
        steps, x, y = (once[name].astype(float).tolist() for name in ("step", against, "value"))
        lines.append(_Line(steps=tuple(steps), x=tuple(x), y=tuple(y)))
    return tuple(lines)


def _mean(seeds: Sequence[_Line]) -> _Line:
    """Over the steps that every seed reached."""
    at_step = [dict(zip(line.steps, line.y, strict=True)) for line in seeds]
    x_of = dict(zip(seeds[0].steps, seeds[0].x, strict=True))
    steps = [step for step in seeds[0].steps if all(step in values for values in at_step)]
    y = [math.fsum(values[step] for values in at_step) / len(seeds) for step in steps]
    return _Line(steps=tuple(steps), x=tuple(x_of[s] for s in steps), y=tuple(y))


def _draw(axes: Axes, index: int, seeds: Sequence[_Line], *, is_baseline: bool) -> None:
    shown = look(index)
    for line in seeds:
        axes.plot(line.x, line.y, linewidth=0.8, alpha=0.45, **shown)
    mean = _mean(seeds)
    width = 2.8 if is_baseline else 1.9
    axes.plot(mean.x, mean.y, linewidth=width, **shown)
    axes.plot(mean.x[-1:], mean.y[-1:], marker="o", markersize=4.5, color=shown["color"])


def _set_limits(axes: Axes, lines: Mapping[str, Sequence[_Line]]) -> bool:
    """Frame the plot by where the lines end up; whether some point lies outside.

    The first steps are alike for all, and a diverging seed is alike to nothing: neither may
    squeeze the differences that the figure is looked at for.
    """
    every = [line for seeds in lines.values() for line in seeds]
    points = [pair for line in every for pair in zip(line.x, line.y, strict=True)]
    settled = _SETTLED * max(x for x, _ in points)
    values = np.array([y for x, y in points if x >= settled])
    low, high = np.quantile(values, [0.25, 0.75])
    reach = _FAR * (high - low)
    near = values[(values >= low - reach) & (values <= high + reach)]
    margin = 0.06 * (near.max() - near.min()) or 0.05 * abs(near.max()) or 0.05
    bottom, top = near.min() - margin, near.max() + margin
    axes.set_ylim(bottom, top)
    return not all(bottom <= y <= top for _, y in points)


def _name_lines(axes: Axes, about: About, lines: Mapping[str, Sequence[_Line]]) -> None:
    low, high = axes.get_ylim()
    early = _early(lines)
    names = []
    for index, (variant, seeds) in enumerate(lines.items()):
        last = (_mean(seeds).y or seeds[0].y)[-1]
        width = 2.8 if variant == about.baseline else 1.9
        names.append(
            LineName(
                height=(last - low) / (high - low),
                text=shown_name(about, variant),
                mark=" †" if variant in early else "",
                look={**look(index), "linewidth": width},
            )
        )
    write_names(axes, names)


def _early(lines: Mapping[str, Sequence[_Line]]) -> set[str]:
    """Variants whose mean ends before the longest one."""
    ends = {variant: max((0.0, *_mean(seeds).steps)) for variant, seeds in lines.items()}
    return {variant for variant, end in ends.items() if end < max(ends.values())}


def _dress(
    axes: Axes, lines: Mapping[str, Sequence[_Line]], y_title: str, against: Against
) -> None:
    axes.grid(axis="y")
    axes.set_ylabel(label(y_title, length=72))
    axes.xaxis.set_major_locator(MaxNLocator(6))
    axes.yaxis.set_major_locator(MaxNLocator(6))
    axes.set_xlim(left=0)
    if against == "step":
        axes.set_xlabel("training steps")
        return
    ends = [line.x[-1] for seeds in lines.values() for line in seeds]
    notation = for_quantities("FLOP", ends)
    axes.set_xlabel(f"training FLOPs ({notation.unit})")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x / notation.factor:g}"))


def _describe(lines: Mapping[str, Sequence[_Line]], metric: str) -> str:
    """Where each line starts and ends, in words."""
    parts = []
    for variant, seeds in lines.items():
        mean = _mean(seeds)
        if mean.y:
            parts.append(f"{variant}: from {mean.y[0]:.4g} to {mean.y[-1]:.4g}")
    return f"Mean {words(metric)}, first point to last: {'; '.join(parts)}."


def _caption(about: About, lines: Mapping[str, Sequence[_Line]], task: str, *, is_cut: bool) -> str:
    parts = ["Thin lines are seeds, thick ones their mean."]
    num_met = sum(belongs(variant, task) for variant in about.variants)
    if len(lines) < min(num_met, MAX_LINES):
        parts.append(f"{num_met - len(lines)} of {num_met} variants have no points.")
    if num_met > MAX_LINES:
        parts.append(f"Drawn are the first {len(lines)} of {num_met} variants.")
    if _early(lines):
        parts.append("† A mean ends where the first of its seeds ends.")
    if is_cut:
        parts.append("The frame is that of the later training; some points lie beyond.")
    return " ".join(parts)
