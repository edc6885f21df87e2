"""Compares learning curves at equal steps, at equal training FLOPs and at equal training time.

Three views of the same curves; each with its table and its figure. All exploratory. The budget of a
table is the least that a variant spent in all, so that every curve reaches it; scores there lie on
the straight line between two points of a curve, and nothing is extrapolated.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from reports.analysis.cost import TRAINING_STEP, StepTimes, step_times, where
from reports.document import NO_ENTRY, Column, Entry, Exhibit, Table, View, listed, readable
from reports.plots.learning_curves import (
    SECONDS,
    STEPS,
    Curves,
    by_flops,
    by_seconds,
    curves_figure,
    learning_curves,
)
from reports.results.frame import Sweep
from reports.results.series import QUALITY, Reading, Series, belongs
from reports.stats.intervals import Estimate, for_quantities
from reports.tables.comparison import columns, table_of_variants
from suite.schema import About, Status

EXPLORATORY = "All of this is exploratory: the verdict rests on the one claim alone."
_SAME = 1e-9  # relative difference of what a step takes, below which it is none
_UNFINISHED = "No seed has ended yet, so there is no budget that all have spent."
_STRAIGHT = (
    "A score between two points of a curve is read off the straight line between them; nothing is "
    "extrapolated."
)


def budgets_exhibit(sweep: Sweep, measured: Sequence[Series], judged: Series) -> Exhibit | None:
    """The views of one task; None where it has no learning curves.

    Args:
        sweep: Its curves are read.
        measured: Of the same sweep: the times of training steps.
        judged: The score of the task.
    """
    curves = learning_curves(sweep.about, sweep.curves, judged)
    if curves is None:
        return None
    is_timed = any(series.metric == TRAINING_STEP for series in measured)
    times = step_times(measured, judged.task) if is_timed else None
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
    tables = (budget_table(about, curves, judged, budget),)
    return View(title=title, sentences=sentences, drawings=drawings, tables=tables)


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


_FOOTNOTE = "† Mean over the seeds that have a score there, not over all."


def common_budget(curves: Curves, judged: Series) -> float | None:
    """The largest that every variant reaches with every seed that ended well.

    A seed that diverged or still trains does not set it, else it would set it for all.

    Args:
        curves: Against what the budget is of.
        judged: The task's score: says which seeds ended well.

    Returns:
        None where no seed did.
    """
    ends = [
        seed.spent[-1]
        for variant, some in curves.seeds.items()
        for seed in some
        if seed.seed in judged.values(variant)
    ]
    return min((end for end in ends if end > 0), default=None)


def budget_table(about: About, curves: Curves, judged: Series, budget: float) -> Table:
    """Score and difference to the baseline at the budget; every variant that meets the task.

    Args:
        about: Gives names, order and the baseline.
        curves: Against what the budget is of.
        judged: The task's score: says what became of seeds without a point.
        budget: In the unit of what the curves are held against.
    """
    variants = [variant for variant in about.variants if belongs(variant, curves.task)]
    there = _at(curves, judged, budget, variants)
    filled = [
        *(_with_reasons(column, there, curves) for column in columns(about, there, variants)),
        *_whole(curves, variants),
    ]
    view = curves.against.view
    is_partial = any("†" in entry.text for entry in filled[0].entries.values())
    return table_of_variants(
        about, filled, name=f"{curves.task}-at-{view.replace(' ', '-').lower()}",
        title=f"{readable(curves.metric)} at {view}", task=curves.task,
        footnotes=(_FOOTNOTE,) if is_partial else (),
    )  # fmt: skip


def _at(curves: Curves, judged: Series, budget: float, variants: Sequence[str]) -> Series:
    """The scores there, one reading a seed, as if they had been measured so."""
    readings = {v: tuple(_readings(curves, judged, budget, v)) for v in variants}
    return Series(
        task=curves.task, probe=QUALITY, metric=curves.metric, unit=curves.unit,
        better=curves.better, readings=readings,
    )  # fmt: skip


def _readings(curves: Curves, judged: Series, budget: float, variant: str) -> Iterator[Reading]:
    """What the seeds have there; of a seed that has nothing, what became of it."""
    scores = {curve.seed: curve.score_at(budget) for curve in curves.seeds.get(variant, ())}
    fates = {reading.seed: reading for reading in judged.of(variant) if not reading.is_ok}
    for seed in sorted({*scores, *fates}):
        score = scores.get(seed)
        if score is not None:
            yield Reading(
                seed=seed, at="", environment_id="", value=score, spread_low=math.nan,
                spread_high=math.nan, status=Status.OK, reason="",
            )  # fmt: skip
        elif seed in fates:
            yield replace(fates[seed], value=math.nan)


def _with_reasons(column: Column, there: Series, curves: Curves) -> Column:
    """With the reason in the place of a number that a variant cannot have there."""
    if column.key != there.metric:
        return column
    entries = dict(column.entries)
    for variant, entry in column.entries.items():
        if not there.of(variant):
            text = "no point by then" if variant in curves.seeds else curves.against.missing
            entries[variant] = replace(entry, text=text)
    return replace(column, entries=entries)


def _whole(curves: Curves, variants: Sequence[str]) -> Iterator[Column]:
    """What each variant spent in all: says whose training is cut short by the budget."""
    if curves.against is STEPS:
        return
    spent = {v: max(seed.spent[-1] for seed in some) for v, some in curves.seeds.items()}
    written = for_quantities(curves.against.unit, list(spent.values()))
    entries = dict.fromkeys(variants, NO_ENTRY)
    for variant, amount in spent.items():
        estimate = Estimate(n=1, point=amount)
        entries[variant] = Entry(estimate=estimate, text=written.write(amount))
    yield Column(
        key=f"whole_training_{curves.against.key}", title="its whole training",
        measured_unit=curves.against.unit, unit=written.unit, entries=entries,
    )  # fmt: skip
