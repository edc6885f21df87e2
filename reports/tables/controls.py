"""Tabulate the controls, which show how far the timing instruments can be trusted.

An instrument should find no difference if it times the baseline against itself, and should find one
if the baseline is slowed down by 5 % on purpose. Kernels with a known cost should grow accordingly.
The table also shows the load of other programs on the machine.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import pandas as pd

from bakeoff.reports.analysis.exponent import exponent, which_growth
from bakeoff.reports.analysis.time_comparison import (
    Share,
    TimeComparison,
    false_alarms,
    found,
    judge_ratio,
    smallest_detectable_effect,
)
from bakeoff.reports.document import NO_ENTRY, Column, Entry, ReportTable, column_rows
from bakeoff.reports.results.length_sweep import Growth, find
from bakeoff.reports.results.reading import Reading
from bakeoff.reports.results.series import Series, all_series, timings_of
from bakeoff.reports.results.spoken_names import shown_names
from bakeoff.reports.stats.intervals import Estimate, as_interval, as_percent, as_quantity
from bakeoff.reports.tables.comparison import machine_in_words
from bakeoff.suite.schema import (
    BASELINE_AGAIN,
    BASELINE_SLOWED,
    CONTROLS,
    INJECTED,
    MIXER_ALONE,
    About,
    Status,
    launched,
)

NAME = "controls"
KERNELS = {
    "linear_kernel_seconds": "a kernel known to grow with n: exponent found",
    "linearithmic_kernel_seconds": "a kernel known to grow with n log n: exponent found",
    "quadratic_kernel_seconds": "a kernel known to grow with n²: exponent found",
}
_SLOWED = f"{INJECTED - 1:.0%}".replace("%", " %")
_MAX_NAMED = 3


@dataclass(frozen=True, kw_only=True)
class Instrument:
    """A timing probe on one task, or on the mixers alone, in one environment.

    Attributes:
        environment_id: The environment in which it measured.
        series: All its series: controls and times of variants.
    """

    task: str
    probe: str
    environment_id: str
    series: tuple[Series, ...]

    @property
    def title(self) -> str:
        """The title of a column."""
        if self.task == MIXER_ALONE:
            return "mixers alone"
        return f"{self.probe} on {self.task}".replace("_", " ")

    def of(self, metric: str) -> list[tuple[Reading, ...]]:
        """Return the readings of a metric, one group for each coordinate and variant."""
        named = [series for series in self.series if series.metric == metric]
        return [some for series in named for some in series.readings.values() if some]

    def numbers(self, metric: str) -> list[float]:
        """Return every number of the metric."""
        return [r.value for some in self.of(metric) for r in some if r.has_number]

    def judged(self, metric: str) -> list[TimeComparison]:
        """Return the verdict on a ratio at each coordinate, over processes."""
        return [judge_ratio(some) for some in self.of(metric) if any(r.has_number for r in some)]

    @property
    def timed(self) -> list[tuple[str, str, Reading]]:
        """The variant, metric and reading of every time that has a number."""
        return [
            (variant, series.metric, reading)
            for series in self.series
            if series.metric not in CONTROLS
            for variant in series.readings
            for reading in timings_of(series, variant)
        ]


def instruments(about: About, results: pd.DataFrame, environment_id: str) -> list[Instrument]:
    """Return the instruments with controls, mixers alone first.

    An instrument on a task is shown in the environment with most of its controls.

    Args:
        about: The sweep, which gives the order of tasks and probes.
        results: Results with the columns `bakeoff.suite.schema.RESULT_COLUMNS`.
        environment_id: The environment of the mixers alone.
    """
    rows = results[(results["metric"] == BASELINE_AGAIN) & results["value"].notna()]
    order = list(dict.fromkeys([MIXER_ALONE, *about.tasks]))
    made = []
    for (task, probe), some in rows.groupby(["task", "probe"], sort=True):
        ids = list(some["environment_id"])
        place = environment_id
        if task != MIXER_ALONE:
            place = max(sorted(set(ids)), key=ids.count)
        elif environment_id not in ids:
            continue
        is_there = (results["task"] == task) & (results["probe"] == probe)
        here = results[is_there & (results["environment_id"] == place)]
        series = tuple(series for series in all_series(about, here) if series.num_seen)
        one = Instrument(task=str(task), probe=str(probe), environment_id=place, series=series)
        made.append(one)
    return sorted(made, key=lambda one: (order.index(one.task), one.probe))


def controls_table(
    about: About, kept: Sequence[Instrument], growths: Sequence[Growth]
) -> ReportTable:
    """Return a table of the controls, with a row for each check and a column for each instrument.

    Args:
        about: The sweep, which identifies the machines if there are several.
        kept: At least one instrument.
        growths: The growths of the same sweep, which include the synthetic kernels.
    """
    is_one_place = len({one.environment_id for one in kept}) == 1
    checks = [_checks(one, growths) for one in kept]
    names = [name for name in checks[0] if any(of[name] != NO_ENTRY for of in checks)]
    columns = tuple(
        Column(
            key=f"{one.probe}_{one.task}",
            title=one.title,
            measured_unit="unit of the row",
            note="" if is_one_place else machine_in_words(about, one.environment_id),
            entries={name: of[name] for name in names},
        )
        for one, of in zip(kept, checks, strict=True)
    )
    return ReportTable(
        name=NAME,
        title="Controls",
        task=MIXER_ALONE if kept[0].task == MIXER_ALONE else "",
        row_title="check",
        columns=columns,
        footnotes=tuple(_noise_footnotes(about, kept)),
        rows=column_rows(columns, names),
    )


def describe_controls(kept: Sequence[Instrument]) -> tuple[str, str]:
    """Return two sentences for newcomers: the results of the checks, and what the checks are."""
    again = [verdict for one in kept for verdict in one.judged(BASELINE_AGAIN)]
    slowed = [verdict for one in kept for verdict in one.judged(BASELINE_SLOWED)]
    effect = smallest_detectable_effect(again)
    wrong, right = false_alarms(again), found(slowed)
    words = "; the smallest slow-down that would be detected in four of five cases is"
    least = f"{words} {as_percent(effect)}" if effect else ""
    alarms = "No control pair was quiet enough to be evaluated"
    if wrong.num_total:
        alarms = f"A false difference was reported in {wrong} pairs"
    missed = right.num_total - right.num
    caution = f" Do not trust differences near {_SLOWED}." if 2 * missed > right.num_total else ""
    return (
        f"{alarms}; the slow-down was detected in {right}{least}.{caution}",
        "A reliable measurement shows no difference between two timings of the baseline, and "
        f"shows one if the baseline is deliberately made {_SLOWED} slower.",
    )


def _checks(one: Instrument, growths: Sequence[Growth]) -> dict[str, Entry]:
    """Return every check by the name of its row, with a dash if the check was not made."""
    again, rounds = one.judged(BASELINE_AGAIN), one.numbers("num_disturbed")
    is_noisy = [reading.status is Status.NOISY for _, _, reading in one.timed]
    effect = smallest_detectable_effect(again)
    return {
        "the baseline against itself: reported as different": _share(false_alarms(again)),
        f"the baseline made {_SLOWED} slower: detected": _share(found(one.judged(BASELINE_SLOWED))),
        **{
            f"{name}, launched by Python": _share(share(one.judged(launched(metric))))
            for name, metric, share in (
                ("the baseline against itself", BASELINE_AGAIN, false_alarms),
                (f"the baseline made {_SLOWED} slower", BASELINE_SLOWED, found),
            )
        },
        "smallest difference detected in four of five cases": _entry(
            as_percent(effect or 0.0), len(again), effect
        ),
        "noisy timings": _share(Share(num=sum(is_noisy), num_total=len(is_noisy))),
        "load of other programs on the machine: median": _median(
            one.numbers("other_load"), as_percent
        ),
        "rounds repeated because of other load": _entry(
            f"{sum(rounds):,.0f}", len(rounds), sum(rounds) if rounds else None
        ),
        "outliers among the samples (kept)": _outliers(one),
        "first call, compilation included: median": _median(
            one.numbers("first_call_seconds"), partial(as_quantity, "s")
        ),
    } | {name: _kernel(growths, metric, one) for metric, name in KERNELS.items()}


def _entry(text: str, n: int, point: float | None, note: str = "") -> Entry:
    """Return an entry, which is a dash if there is no number."""
    if point is None:
        return NO_ENTRY
    return Entry(estimate=Estimate(n=n, point=point), text=text, note=note)


def _share(share: Share) -> Entry:
    point = float(share.num) if share.num_total else None
    return _entry(str(share), share.num_total, point)


def _median(values: Sequence[float], write: Callable[[float], str]) -> Entry:
    if not values:
        return NO_ENTRY
    middle = statistics.median(values)
    return _entry(write(middle), len(values), middle, f"at most {write(max(values))}")


def _outliers(one: Instrument) -> Entry:
    samples = sum(one.numbers("num_samples"))
    if not samples:
        return NO_ENTRY
    mild, severe = (sum(one.numbers(f"{kind}_outliers")) / samples for kind in ("mild", "severe"))
    text = f"{as_percent(mild)} mild, {as_percent(severe)} severe"
    return _entry(text, round(samples), mild + severe)


def _kernel(growths: Sequence[Growth], metric: str, one: Instrument) -> Entry:
    """Return the exponent of a synthetic kernel, which is only timed with the mixers alone."""
    growth = find(growths, metric, "length", one.environment_id)
    timed = [variant for variant in growth.variants if growth.measured(variant)] if growth else []
    if one.task != MIXER_ALONE or growth is None or not timed:
        return NO_ENTRY
    estimate = exponent(growth, timed[0]).estimate
    if estimate.point is None:
        return NO_ENTRY
    law = which_growth(growth, timed[0]).replace("n^2", "n²")
    note = f"classified as {law}" if law else ""
    return Entry(
        estimate=estimate,
        text=f"{estimate.point:.2f}",
        interval=as_interval(estimate, "{:.2f}".format),
        note=note,
    )


def _noise_footnotes(about: About, kept: Iterable[Instrument]) -> Iterator[str]:
    """Yield which timings stayed noisy and why, limited to the first few."""
    metrics: dict[tuple[str, str, int, str], list[str]] = {}
    names = shown_names(about)
    for one in kept:
        for variant, metric, reading in one.timed:
            if reading.status is Status.NOISY:
                key = (names.get(variant, variant), reading.at, reading.seed, reading.reason)
                words = metric.removesuffix("_seconds").replace("_", " ")
                metrics.setdefault(key, []).append(words)
    named = [
        f"{' at '.join(filter(None, (variant, at)))} in process {seed} ({', '.join(names)}): {why}"
        for (variant, at, seed, why), names in metrics.items()
    ]
    if named:
        more = len(named) - _MAX_NAMED
        rest = f"; and {more} more, in results.csv" if more > 0 else ""
        yield f"Noisy: {'; '.join(named[:_MAX_NAMED])}{rest}."
