"""Make the columns of effective speedups, beside the scores of a task."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from bakeoff.reports.analysis.cost import VariantCost, variant_costs
from bakeoff.reports.analysis.speedup import NoCurve, Reach, Speedup, effective_speedup
from bakeoff.reports.document import NO_ENTRY, Column, Entry
from bakeoff.reports.results.axis_values import all_values_of
from bakeoff.reports.results.series import Series
from bakeoff.reports.stats.intervals import as_ratio
from bakeoff.suite.schema import About

_BUDGET = "steps"  # the axis along which the baseline is trained to several budgets
_UNITS = {"flops": "FLOPs", "seconds": "time"}
_SIGNS = {Reach.BETWEEN: "", Reach.BEYOND: "≥ ", Reach.BELOW: "≤ "}


def speedup_columns(
    about: About, measured: Sequence[Series], score: Series, variants: Sequence[str]
) -> Iterator[Column]:
    """Yield the effective speedup in FLOPs, and that in time, if they can be computed.

    The baseline's curve consists of the variants that differ from it in the number of steps only.
    Each other variant is compared with that curve.

    Args:
        about: The sweep.
        measured: The series of the task.
        score: The series that the task is judged by.
        variants: The variants of the table.
    """
    if _BUDGET not in about.axes or score.better == "none":
        return
    along = [v for v in about.variants if _others(about, v) == _others(about, about.baseline)]
    for cost in variant_costs(about, measured, score.task):
        if cost.key in _UNITS:
            entries = _entries(cost, score, along, variants)
            if entries:
                yield _column(cost, entries, variants, num_budgets=len(along))


def _others(about: About, variant: str) -> Mapping[str, object]:
    return {k: v for k, v in all_values_of(about, variant).items() if k != _BUDGET}


def _entries(
    cost: VariantCost, score: Series, along: Sequence[str], variants: Sequence[str]
) -> dict[str, Speedup]:
    budgets = {cost.amounts[v]: score.values(v) for v in along if v in cost.amounts}
    found: dict[str, Speedup] = {}
    for variant in variants:
        if variant in along or variant not in cost.amounts or not score.values(variant):
            continue
        try:
            found[variant] = effective_speedup(
                {budget: scores for budget, scores in budgets.items() if scores},
                score.values(variant),
                cost.amounts[variant],
                score.better,
            )
        except NoCurve:
            return {}
    return found


def _column(
    cost: VariantCost, found: Mapping[str, Speedup], variants: Sequence[str], *, num_budgets: int
) -> Column:
    return Column(
        key=f"speedup_in_{cost.key}",
        title=f"effective speedup in {_UNITS[cost.key]}",
        measured_unit="1",
        unit="",
        arrow="↑",
        note=f"budget that the baseline needs for this score, over the variant's own; from "
        f"{num_budgets} budgets of the baseline",
        entries={v: _entry(found[v]) if v in found else NO_ENTRY for v in variants},
    )


def _entry(found: Speedup) -> Entry:
    ratio = found.ratio
    assert ratio.point is not None, "a speedup has a number"
    text = f"{_SIGNS[found.reach]}{as_ratio(ratio.point)} ×"
    if ratio.low is None or ratio.high is None:
        return Entry(text=text, estimate=ratio)
    low = "≤ " * found.is_open_below + as_ratio(ratio.low)
    high = "≥ " * found.is_open_above + as_ratio(ratio.high)
    tone = "better" if ratio.low > 1 else "worse" if ratio.high < 1 else ""
    return Entry(text=text, estimate=ratio, interval=f"[{low}, {high}]", tone=tone)
