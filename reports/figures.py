"""What does a comparison look like? Every seed a dot, every mean with its interval."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from reports.document import Drawing
from reports.escape import slug
from reports.floor_lines import FLOORS_CAPTION, draw_floors
from reports.results.floors import floors_of
from reports.results.readings import coverage
from reports.results.series import Series, belongs, num_expected
from reports.results.variant_labels import shown_name
from reports.stats.intervals import mean_interval
from reports.svg import drawing_style, label, to_svg
from suite.schema import About

MAX_ROWS = 60  # of the figure of scores; beyond, the table is the better picture
_BLUE = "#0072B2"
_CAPTION = (
    "Dots are seeds; diamonds are means with 95 % intervals; the dashed line is the mean of the "
    "baseline."
)
_SEEDS_BELOW = 0.22  # of a row, so that dots do not hide the mean
_INK = "#30343a"


def score_figure(about: About, series: Series) -> Drawing | None:
    """Each variant's score: every seed a dot, the mean a diamond with its 95 % interval.

    None where there is no number, or there are too many variants to see anything.
    """
    variants = [variant for variant in about.variants if belongs(variant, series.task)]
    if len(variants) > MAX_ROWS or not any(series.values(v) for v in variants):
        return None
    with drawing_style():
        figure = Figure(figsize=(7.2, 1.1 + 0.36 * len(variants)), layout="constrained")
        axes = figure.add_subplot()
        _draw_baseline(axes, series, about.baseline)
        for row, variant in enumerate(variants):
            _draw_scores(axes, row, series, variant, num_expected(series, about))
        _dress_scores(axes, series, [shown_name(about, variant) for variant in variants])
        floors = floors_of(about, series)
        draw_floors(axes, series, floors)
        name = f"{slug(series.task)}-{slug(series.metric)}"
        title = f"{words(series.metric)} of each variant on {series.task}"
        svg = to_svg(
            figure, name=name, title=sentence(title),
            description=_describe(series, (*variants, *floors)),
        )  # fmt: skip
    caption = f"{_CAPTION} {FLOORS_CAPTION}" if floors else _CAPTION
    return Drawing(name=name, title=sentence(title), caption=caption, svg=svg)


def _draw_baseline(axes: Axes, series: Series, baseline: str) -> None:
    mean = mean_interval(tuple(series.values(baseline).values())).point
    if mean is not None:
        axes.axvline(mean, color="#9aa0a6", linestyle=(0, (5, 4)), linewidth=1.2, zorder=1)


def _draw_scores(axes: Axes, row: int, series: Series, variant: str, expected: int) -> None:
    values = tuple(series.values(variant).values())
    estimate = mean_interval(values)
    cover = coverage(series.of(variant), expected)
    if not cover.is_complete:
        axes.annotate(
            label(str(cover)), (1.0, row), xycoords=("axes fraction", "data"), va="bottom",
            ha="right", fontsize=8, color="#8a4b00", xytext=(0, 3), textcoords="offset points",
        )  # fmt: skip
    if estimate.low is not None and estimate.high is not None:
        axes.plot([estimate.low, estimate.high], [row, row], color=_BLUE, linewidth=2.2)
    if estimate.point is not None and estimate.n > 1:
        axes.plot(estimate.point, row, marker="D", markersize=6, color=_BLUE, zorder=3)
    axes.plot(
        values, [row + _SEEDS_BELOW] * len(values), linestyle="none", marker="o", markersize=5,
        markerfacecolor="white", markeredgecolor=_INK, markeredgewidth=1, alpha=0.9, zorder=4,
    )  # fmt: skip


def _dress_scores(axes: Axes, series: Series, names: Sequence[str]) -> None:
    axes.set_yticks(range(len(names)), [label(name) for name in names])
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x")
    axes.set_xlabel(label(axis_title(series.metric, series.unit, series.better), length=72))
    axes.xaxis.set_major_locator(MaxNLocator(6))


def _describe(series: Series, variants: Sequence[str]) -> str:
    """The same numbers in words, for those who cannot see the figure."""
    unit = "" if series.unit == "1" else f" {series.unit}"
    parts = []
    for variant in variants:
        estimate = mean_interval(tuple(series.values(variant).values()))
        if estimate.point is None:
            parts.append(f"{variant}: no result")
        elif estimate.half_width is None:
            parts.append(f"{variant}: {estimate.point:.4g}{unit}")
        else:
            parts.append(f"{variant}: {estimate.point:.4g} ± {estimate.half_width:.2g}{unit}")
    return "; ".join(parts) + "."


def words(metric: str) -> str:
    """A metric's name, as it is read."""
    return metric.replace("_", " ")


def sentence(text: str) -> str:
    """The text with a capital first."""
    return text[:1].upper() + text[1:]


def axis_title(metric: str, unit: str, better: str) -> str:
    """Name, unit and direction of an axis."""
    shown = "" if unit == "1" else f" ({unit})"
    side = "" if better == "none" else f", {better} is better"
    return f"{words(metric)}{shown}{side}"
