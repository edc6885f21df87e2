"""What does quality cost in time? Each variant's score against the seconds that its training took.

Seconds are steps times the measured training step, never the clock of a training run: trials that
train share their machine, trials that time have it to themselves.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from reports.baseline import shown_name
from reports.figures import Drawing, axis_title, sentence, words
from reports.lines import MAX_LINES, LineName, look, marker, write_names
from reports.notation import for_quantities
from reports.series import Series, belongs
from reports.svg import drawing_style, label, to_svg
from reports.text import slug
from suite.schema import About, Status

TRAINING_STEP = "training_step_seconds"
_WIDE = 8.0  # times between the fastest and the slowest from where on the axis is logarithmic


@dataclass(frozen=True, kw_only=True)
class _Trained:
    """A variant that was both trained and timed.

    Attributes:
        seconds: Training steps times the median training step.
        scores: One a seed.
    """

    variant: str
    seconds: float
    scores: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Of the scores."""
        return statistics.fmean(self.scores)


def tradeoff_figure(about: About, measured: Sequence[Series], judged: Series) -> Drawing | None:
    """The score of `judged` against training seconds; None where fewer than two have both."""
    timed = _step_times(measured, judged.task)
    trained = _trained(about, judged, timed) if timed else []
    if timed is None or len(trained) < 2:
        return None
    with drawing_style():
        figure = Figure(figsize=(7.2, 3.9), layout="constrained")
        axes = figure.add_subplot()
        front = pareto_front({one.variant: (one.seconds, one.mean) for one in trained}, judged)
        _draw(axes, trained, front)
        _dress(axes, trained, judged)
        _name(axes, about, trained)
        name = f"{slug(judged.task)}-{slug(judged.metric)}-by-seconds"
        title = sentence(f"{words(judged.metric)} against training time on {judged.task}")
        svg = to_svg(
            figure, name=name, title=title, description=_describe(about, trained, front, judged)
        )
    caption = _caption(about, trained, judged, timed)
    return Drawing(name=name, title=title, caption=caption, svg=svg)


def pareto_front(places: Mapping[str, tuple[float, float]], judged: Series) -> list[str]:
    """The variants that no other beats in both seconds and score, from the fastest on.

    Args:
        places: Variant -> seconds, mean score.
        judged: Says which direction of the score is good.
    """
    sign = -1.0 if judged.better == "lower" else 1.0
    best, front = -float("inf"), []
    for variant, (_, score) in sorted(places.items(), key=lambda p: (p[1][0], -sign * p[1][1])):
        if sign * score > best:
            best = sign * score
            front.append(variant)
    return front


def _step_times(measured: Sequence[Series], task: str) -> Series | None:
    """Of one machine: the one that timed most."""
    found = [s for s in measured if (s.task, s.metric) == (task, TRAINING_STEP)]
    sizes = {s.environment_id: sum(len(some) for some in s.readings.values()) for s in found}
    return max(found, key=lambda s: (sizes[s.environment_id], s.environment_id), default=None)


def _trained(about: About, judged: Series, timed: Series) -> list[_Trained]:
    found = []
    for variant in about.variants:
        readings = [r for r in timed.of(variant) if r.has_number]
        seconds = [r.value for r in readings if r.status in (Status.OK, Status.NOISY)]
        scores = tuple(judged.values(variant).values())
        steps = _num_steps(about, variant)
        if seconds and scores and steps and belongs(variant, judged.task):
            total = steps * statistics.median(seconds)
            found.append(_Trained(variant=variant, seconds=total, scores=scores))
    return found[:MAX_LINES]


def _num_steps(about: About, variant: str) -> int:
    """The variant's own where steps are an axis, else the scale's; 0 where neither says."""
    named = dict(part.partition("=")[::2] for part in variant.split(", "))
    said = str(named.get("steps", about.settings.get("steps", "")))
    return int(said) if said.isascii() and said.isdigit() else 0


def _draw(axes: Axes, trained: Sequence[_Trained], front: Sequence[str]) -> None:
    by_variant = {one.variant: one for one in trained}
    on_front = [by_variant[variant] for variant in front]
    axes.plot(
        [one.seconds for one in on_front], [one.mean for one in on_front], color="#9aa0a6",
        linestyle=(0, (5, 4)), linewidth=1.2, zorder=1,
    )  # fmt: skip
    for index, one in enumerate(trained):
        colour = look(index)["color"]
        axes.plot(
            [one.seconds] * len(one.scores), one.scores, linestyle="none", marker=marker(index),
            markersize=5, markerfacecolor="white", markeredgecolor=colour, zorder=2,
        )  # fmt: skip
        axes.plot(one.seconds, one.mean, marker=marker(index), markersize=8, color=colour, zorder=3)


def _dress(axes: Axes, trained: Sequence[_Trained], judged: Series) -> None:
    seconds = [one.seconds for one in trained]
    notation = for_quantities("s", seconds)
    if max(seconds) > _WIDE * min(seconds):
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0), numticks=9))
        axes.xaxis.set_minor_locator(NullLocator())
    else:
        axes.set_xlim(left=0, right=1.06 * max(seconds))
        axes.xaxis.set_major_locator(MaxNLocator(6))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x / notation.factor:g}"))
    axes.set_xlabel(f"training time ({notation.unit}, lower is better)")
    axes.set_ylabel(label(axis_title(judged.metric, judged.unit, judged.better), length=72))
    axes.yaxis.set_major_locator(MaxNLocator(6))
    axes.grid()


def _name(axes: Axes, about: About, trained: Sequence[_Trained]) -> None:
    low, high = axes.get_ylim()
    write_names(axes, [
        LineName(
            height=(one.mean - low) / (high - low),
            text=shown_name(about, one.variant),
            look={"color": look(index)["color"], "linestyle": "none", "marker": marker(index),
                  "markersize": 6, "markevery": (0, 2)},
        )
        for index, one in enumerate(trained)
    ])  # fmt: skip


def _describe(
    about: About, trained: Sequence[_Trained], front: Sequence[str], judged: Series
) -> str:
    unit = "" if judged.unit == "1" else f" {judged.unit}"
    parts = [
        f"{shown_name(about, one.variant)}: {one.mean:.4g}{unit} after {one.seconds:.3g} s"
        for one in trained
    ]
    return f"{'; '.join(parts)}. Not beaten in both: {', '.join(front)}."


def _caption(about: About, trained: Sequence[_Trained], judged: Series, timed: Series) -> str:
    parts = [
        "Small open marks are seeds, large ones means; the dashed line joins the variants that "
        "no other beats in both time and score. Time is training steps times the median training "
        f"step{_where(about, timed)}."
    ]
    num_met = sum(belongs(variant, judged.task) for variant in about.variants)
    if len(trained) < num_met:
        parts.append(f"{num_met - len(trained)} of {num_met} variants lack one of the two.")
    return " ".join(parts)


def _where(about: About, timed: Series) -> str:
    made = about.provenances.get(timed.environment_id)
    if made is None:
        return ""
    threads = "1 thread" if made.num_threads == 1 else f"{made.num_threads} threads"
    return f" on {made.device} with {threads}"
