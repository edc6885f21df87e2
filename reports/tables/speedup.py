"""Make the columns of effective speedups, beside the scores of a task."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import suppress

from bakeoff.reports.analysis.cost import timed_steps
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
from bakeoff.reports.results.reading import is_noisy
from bakeoff.reports.results.series import Series, num_expected
from bakeoff.reports.stats.intervals import as_ratio
from bakeoff.reports.tables.marks import PARTIAL, UNTOLD
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
    others = [v for v in variants if v not in along and score.values(v)]
    expected, lost = num_expected(score, about), {v for v in along if score.seeds_diverged(v)}
    for counted_by in _UNITS:
        entries, sizes = {}, set()
        timed = timed_steps(measured, score.task) if counted_by == STEP_TIME else None
        for variant in others:
            with suppress(NoCurve):
                pair = variant, about.baseline
                found = speedup_of(about, measured, score, pair, counted_by)
                entries[variant] = _entry(
                    found,
                    is_partial=found.ratio.n < expected,
                    is_biased=bool(lost or score.seeds_diverged(variant)),
                    is_untold=_is_unresolved(found, timed, pair),
                )
                sizes.add(int(found.comparison.logs.size))
        if entries:
            yield _column(counted_by, entries, variants, _budgets(sizes, len(along)))


def _is_unresolved(found: Speedup, timed: Series | None, pair: tuple[str, str]) -> bool:
    """Return True if the times of a step are too noisy, or too much alike, to be told apart."""
    if timed is None:
        return False
    is_small = abs(found.log_ratio.point or 0.0) <= timed.resolution
    return is_small or any(is_noisy(timed.of(variant)) for variant in pair)


def _budgets(sizes: Set[int], planned: int) -> str:
    """Return how many budgets of the baseline were used, as ``3 of 4``."""
    used = f"{min(sizes)} to {max(sizes)}" if len(sizes) > 1 else str(min(sizes))
    return used if sizes == {planned} else f"{used} of {planned}"


def _column(
    counted_by: str, entries: Mapping[str, Entry], variants: Sequence[str], budgets: str
) -> Column:
    key, title = _UNITS[counted_by]
    return Column(
        key=f"speedup_in_{key}",
        title=f"effective speedup in {title}",
        measured_unit="1",
        unit="",
        arrow="↑",
        note=f"budget that the baseline needs for this score, over the variant's own; from "
        f"{budgets} budgets of the baseline",
        entries={v: entries.get(v, NO_ENTRY) for v in variants},
    )


def _entry(found: Speedup, *, is_partial: bool, is_biased: bool, is_untold: bool) -> Entry:
    marks = (*([PARTIAL] if is_partial else []), *([UNTOLD] if is_untold else []))
    ratio = found.ratio
    assert ratio.point is not None, "a speedup has a number"
    text = f"{_SIGNS[found.reach]}{as_ratio(ratio.point)} ×"
    if ratio.low is None or ratio.high is None:
        return Entry(text=text, estimate=ratio, marks=marks)
    low = "≤ " * found.is_open_below + as_ratio(ratio.low)
    high = "≥ " * found.is_open_above + as_ratio(ratio.high)
    is_toned = not (is_biased or is_untold) and found.log_ratio.excludes_zero
    tone = ("better" if ratio.point > 1 else "worse") if is_toned else ""
    return Entry(text=text, estimate=ratio, interval=f"[{low}, {high}]", tone=tone, marks=marks)
