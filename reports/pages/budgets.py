"""Compares learning curves at equal steps, at equal training FLOPs and at equal training time.

Three views of the same curves; each with its table and its figure. All exploratory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from reports.analysis.cost import StepTimes, step_times, where
from reports.document import Exhibit, View
from reports.plots.learning_curves import curves_figure
from reports.plots.style import listed, readable
from reports.results.frame import Sweep
from reports.results.learning_curves import (
    SECONDS,
    STEPS,
    Curves,
    by_flops,
    by_seconds,
    learning_curves,
)
from reports.results.series import Series
from reports.stats.number_format import for_quantities
from reports.tables.budgets import budget_table, common_budget
from reports.tables.comparison import primary
from suite.schema import About

EXPLORATORY = "All of this is exploratory: the verdict rests on the one claim alone."
_SAME = 1e-9  # relative difference of what a step takes, below which it is none
_UNFINISHED = "No seed has ended yet, so there is no budget that all have spent."
_STRAIGHT = (
    "A score between two points of a curve is read off the straight line between them; nothing is "
    "extrapolated."
)


def budgets_exhibit(sweep: Sweep, measured: Sequence[Series], task: str) -> Exhibit | None:
    """The views of one task; None where it has no learning curves.

    Args:
        sweep: Its curves are read.
        measured: Of the same sweep: the score, and the times of training steps.
        task: Its name.
    """
    judged = primary(measured, task)
    if judged is None or not judged.is_score:
        return None
    curves = learning_curves(sweep.about, sweep.curves, judged)
    if curves is None:
        return None
    times = step_times(measured, task)
    kinds = [curves, by_flops(curves), by_seconds(curves, times.seconds if times else {})]
    views = tuple(_view(sweep.about, one, judged, times) for one in kinds if one.seeds)
    return Exhibit(
        title=f"At {listed([view.title for view in views])}",
        sentences=tuple(_sentences(kinds)),
        views=views,
    )


def _sentences(kinds: Sequence[Curves]) -> Iterator[str]:
    yield (
        "Who is ahead depends on what is held equal. Scores are those of the validation split "
        f"while training, {_plain(kinds[0])}; the comparison above is of the test split after it."
    )
    missing = [curves.against for curves in kinds if not curves.seeds]
    if missing:
        reasons = [f"none at {one.view}, since {one.why_missing}" for one in missing]
        yield f"There is {listed(reasons)}."
    yield EXPLORATORY


def _view(about: About, curves: Curves, judged: Series, times: StepTimes | None) -> View:
    budget = common_budget(curves, judged)
    title = curves.against.view
    drawing = curves_figure(about, curves, None if curves.against is STEPS else budget)
    drawings = (drawing,) if drawing else ()
    if budget is None:
        return View(title=title, sentences=(_UNFINISHED,), drawings=drawings)
    sentences = (_budget(curves, budget), *_remarks(about, curves, times))
    return View(
        title=title, sentences=sentences, drawings=drawings,
        tables=(budget_table(about, curves, judged, budget),),
    )  # fmt: skip


def _budget(curves: Curves, budget: float) -> str:
    """The budget, and why it is this one."""
    if curves.against is STEPS:
        return f"At {budget:,.0f} training steps, the most that every variant reaches."
    notation = for_quantities(curves.against.unit, [budget])
    amount = notation.with_unit(notation.write(budget))
    return (
        f"After {amount} of training, which is the whole training of the cheapest variant, and so "
        "the most that every variant has spent."
    )


def _remarks(about: About, curves: Curves, times: StepTimes | None) -> Iterator[str]:
    """How the budget is counted, and how scores are read off."""
    if curves.against is STEPS:
        return
    if curves.against is SECONDS and times:
        place = where(about, times.environment_id)
        yield (
            f"Seconds are steps times the median training step{place}; intervals are over seeds, "
            "and how far a step time is uncertain is not in them."
        )
    every = (seed for some in curves.seeds.values() for seed in some)
    paces = [seed.spent[-1] / seed.steps[-1] for seed in every if seed.steps[-1]]
    if paces and max(paces) - min(paces) <= _SAME * max(paces):
        yield "Every variant spends as much at a step, so this is the view at equal steps again."
    else:
        yield _STRAIGHT


def _plain(curves: Curves) -> str:
    """The metric and its direction, in words."""
    metric = readable(curves.metric.removeprefix("validation_"))
    return metric if curves.better == "none" else f"{metric}, {curves.better} is better"
