"""Make the columns of effective speedups, beside the scores of a task."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

from bakeoff.reports.analysis.speedup import (
    BUDGET,
    STEP_TIME,
    NoCurve,
    Reach,
    Speedup,
    curve_of,
    speedup_of,
)
from bakeoff.reports.document import NO_ENTRY, Column, Entry
from bakeoff.reports.results.series import Series
from bakeoff.reports.stats.intervals import as_ratio
from bakeoff.suite.schema import About

_UNITS = {"flops": ("flops", "FLOPs"), STEP_TIME: ("seconds", "time")}  # key and title, by probe
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
    if BUDGET not in about.axes or score.better == "none":
        return
    along = curve_of(about, about.baseline)
    for counted_by in _UNITS:
        entries: dict[str, Speedup] = {}
        for variant in variants:
            if variant not in along and score.values(variant):
                pair = variant, about.baseline
                with suppress(NoCurve):
                    entries[variant] = speedup_of(about, measured, score, pair, counted_by)
        if entries:
            yield _column(counted_by, entries, variants, num_budgets=len(along))


def _column(
    counted_by: str, found: Mapping[str, Speedup], variants: Sequence[str], *, num_budgets: int
) -> Column:
    key, title = _UNITS[counted_by]
    return Column(
        key=f"speedup_in_{key}",
        title=f"effective speedup in {title}",
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
    is_told_apart = found.log_ratio.excludes_zero
    tone = ("better" if ratio.point > 1 else "worse") if is_told_apart else ""
    return Entry(text=text, estimate=ratio, interval=f"[{low}, {high}]", tone=tone)
