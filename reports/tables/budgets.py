"""Tabulates each variant's score once all have spent the same: one row a variant, at one budget.

The budget is the least that a variant spent in all, so that every curve reaches it; scores there
lie on the straight line between two points of a curve, and nothing is extrapolated.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from reports.document import Column, Entry, Table
from reports.plots.style import readable
from reports.results.learning_curves import STEPS, Curves
from reports.results.readings import Reading
from reports.results.series import QUALITY, Series, belongs
from reports.stats.intervals import Estimate
from reports.stats.number_format import for_quantities
from reports.tables.columns import columns
from reports.tables.comparison import table_of_variants
from suite.schema import About, Status

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
    entries = {
        v: Entry(estimate=Estimate(n=1, point=spent[v]), text=written.write(spent[v]))
        if v in spent
        else Entry(estimate=Estimate(n=0), text="–", tone="none")
        for v in variants
    }
    yield Column(
        key=f"whole_training_{curves.against.key}", title="its whole training",
        measured_unit=curves.against.unit, unit=written.unit, arrow="", note="", entries=entries,
    )  # fmt: skip
