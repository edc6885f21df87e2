"""How far can the times be trusted? What the instruments said of themselves, in one table.

An instrument that times the baseline against itself must see no difference; against a baseline
that is made 5 % slower on purpose it must see one; kernels whose cost is known must grow as they
do. Beside that, what else the machine was busy with.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from reports.analysis.time_comparison import (
    Comparison,
    Share,
    false_alarms,
    found,
    judge_ratio,
    smallest_detectable_effect,
)
from reports.document import Column, Entry, Row, Table
from reports.growth import Growth, find
from reports.results.readings import Reading
from reports.results.series import Series, all_series
from reports.scaling import exponent, which_growth
from reports.stats.intervals import Estimate
from reports.stats.number_format import as_percent, for_quantities
from suite.schema import (
    BASELINE_AGAIN,
    BASELINE_SLOWED,
    CONTROLS,
    INJECTED,
    MIXER_ALONE,
    About,
    Status,
)

NAME = "controls"
_KERNELS = {
    "linear_kernel_seconds": "a kernel known to grow with n: exponent found",
    "linearithmic_kernel_seconds": "a kernel known to grow with n log n: exponent found",
    "quadratic_kernel_seconds": "a kernel known to grow with n²: exponent found",
}
_SLOWED = f"{INJECTED - 1:.0%}".replace("%", " %")
_MAX_STORIES = 3
_NOTHING = Entry(estimate=Estimate(n=0), text="–", tone="none")


@dataclass(frozen=True, kw_only=True)
class Instrument:
    """One timing probe on one task, or on the mixers alone, in one environment.

    Attributes:
        environment_id: Where it measured.
        series: All that it left, controls and times of variants.
    """

    task: str
    probe: str
    environment_id: str
    series: tuple[Series, ...]

    @property
    def title(self) -> str:
        """As a column is headed."""
        if self.task == MIXER_ALONE:
            return "mixers alone"
        return f"{self.probe} on {self.task}".replace("_", " ")

    def of(self, metric: str) -> list[tuple[Reading, ...]]:
        """The readings of a metric: one group a coordinate and variant."""
        named = [series for series in self.series if series.metric == metric]
        return [some for series in named for some in series.readings.values() if some]

    def numbers(self, metric: str) -> list[float]:
        """Every number of the metric."""
        return [r.value for some in self.of(metric) for r in some if r.has_number]

    def judged(self, metric: str) -> list[Comparison]:
        """The verdict on a ratio at each coordinate, over processes."""
        return [judge_ratio(some) for some in self.of(metric) if any(r.has_number for r in some)]

    @property
    def timed(self) -> list[tuple[str, str, Reading]]:
        """Variant, metric and reading of every time that has a number."""
        return [
            (variant, series.metric, reading)
            for series in self.series
            if series.metric not in CONTROLS
            for variant, some in series.readings.items()
            for reading in some
            if reading.has_number
        ]


def instruments(about: About, results: pd.DataFrame, environment_id: str) -> list[Instrument]:
    """Those that left controls, the mixers alone first; each where it measured most.

    Args:
        about: Gives the order of tasks and probes.
        results: Columns as `suite.schema.RESULT_COLUMNS`.
        environment_id: That of the mixers alone; the others need not have stood there.
    """
    rows = results[(results["metric"] == BASELINE_AGAIN) & results["value"].notna()]
    found_places = []
    for (task, probe), some in rows.groupby(["task", "probe"], sort=True):
        ids = list(some["environment_id"])
        most = max(sorted(set(ids)), key=ids.count)
        if task != MIXER_ALONE:
            found_places.append((str(task), str(probe), most))
        elif environment_id in ids:
            found_places.append((str(task), str(probe), environment_id))
    order = list(dict.fromkeys([MIXER_ALONE, *about.tasks]))
    found_places.sort(key=lambda place: (order.index(place[0]), place[1]))
    return [_instrument(about, results, *place) for place in found_places]


def _instrument(
    about: About, results: pd.DataFrame, task: str, probe: str, environment_id: str
) -> Instrument:
    is_there = (results["task"] == task) & (results["probe"] == probe)
    here = results[is_there & (results["environment_id"] == environment_id)]
    series = tuple(series for series in all_series(about, here) if series.num_seen)
    return Instrument(task=task, probe=probe, environment_id=environment_id, series=series)


def controls_table(about: About, kept: Sequence[Instrument], growths: Sequence[Growth]) -> Table:
    """What the instruments said of themselves: one row a check, one column an instrument.

    Args:
        about: Says which machine an instrument stood on, where there are several.
        kept: At least one.
        growths: Of the same sweep; the synthetic kernels are among them.
    """
    rows = {name: [check(one) for one in kept] for name, check in _CHECKS.items()}
    for metric, name in _KERNELS.items():
        rows[name] = [_kernel(growths, metric, one) for one in kept]
    said = {name: entries for name, entries in rows.items() if any(e != _NOTHING for e in entries)}
    columns = tuple(
        Column(
            key=f"{one.probe}_{one.task}", title=one.title, measured_unit="unit of the row",
            unit="", arrow="", note=_machine(about, one, kept),
            entries={name: entries[index] for name, entries in said.items()},
        )
        for index, one in enumerate(kept)
    )  # fmt: skip
    return Table(
        name=NAME, title="Controls", task=MIXER_ALONE if kept[0].task == MIXER_ALONE else "",
        row_title="check", columns=columns, footnotes=tuple(_noise_stories(kept)),
        rows=tuple(Row(name=name, entries=tuple(entries)) for name, entries in said.items()),
    )  # fmt: skip


def _machine(about: About, one: Instrument, kept: Sequence[Instrument]) -> str:
    """Where it stood, if not all stood there."""
    made = about.provenances.get(one.environment_id)
    if made is None or len({other.environment_id for other in kept}) == 1:
        return ""
    return f"{made.device}, {made.num_threads} threads"


def in_words(kept: Sequence[Instrument]) -> tuple[str, str]:
    """What the checks are, and what they came to; two sentences for someone who is new to it."""
    again = [verdict for one in kept for verdict in one.judged(BASELINE_AGAIN)]
    slowed = [verdict for one in kept for verdict in one.judged(BASELINE_SLOWED)]
    effect = smallest_detectable_effect(again)
    wrong, right = false_alarms(again), found(slowed)
    least = ""
    if effect:
        least = f"; the smallest that it would find four times in five is {as_percent(effect)}"
    if not wrong.num_total:
        alarms = "No pair of equals was quiet enough to be judged"
    else:
        alarms = f"Here it saw a difference that is none in {wrong} pairs"
    missed = right.num_total - right.num
    caution = f" Do not trust differences near {_SLOWED}." if 2 * missed > right.num_total else ""
    return (
        "An instrument that can be trusted sees no difference between the baseline and the "
        f"baseline timed again, and does see one where the baseline is made {_SLOWED} slower on "
        "purpose.",
        f"{alarms}; it found the slow-down in {right}{least}.{caution}",
    )


def _entry(text: str, estimate: Estimate, note: str = "") -> Entry:
    return Entry(estimate=estimate, text=text, note=note)


def _alarms(one: Instrument) -> Entry:
    return _share(false_alarms(one.judged(BASELINE_AGAIN)))


def _finds(one: Instrument) -> Entry:
    return _share(found(one.judged(BASELINE_SLOWED)))


def _share(share: Share) -> Entry:
    if not share.num_total:
        return _NOTHING
    return _entry(str(share), Estimate(n=share.num_total, point=float(share.num)))


def _effect(one: Instrument) -> Entry:
    again = one.judged(BASELINE_AGAIN)
    effect = smallest_detectable_effect(again)
    if effect is None:
        return _NOTHING
    return _entry(as_percent(effect), Estimate(n=len(again), point=effect))


def _load(one: Instrument) -> Entry:
    loads = one.numbers("other_load")
    if not loads:
        return _NOTHING
    estimate = Estimate(n=len(loads), point=statistics.median(loads))
    return _entry(
        as_percent(statistics.median(loads)), estimate, f"at most {as_percent(max(loads))}"
    )


def _repeated(one: Instrument) -> Entry:
    rounds = one.numbers("num_disturbed")
    total = sum(rounds)
    return _entry(f"{total:,.0f}", Estimate(n=len(rounds), point=total)) if rounds else _NOTHING


def _outliers(one: Instrument) -> Entry:
    samples = sum(one.numbers("num_samples"))
    if not samples:
        return _NOTHING
    mild, severe = (sum(one.numbers(f"{kind}_outliers")) / samples for kind in ("mild", "severe"))
    estimate = Estimate(n=round(samples), point=mild + severe)
    return _entry(f"{as_percent(mild)} mild, {as_percent(severe)} severe", estimate)


def _noisy(one: Instrument) -> Entry:
    timed = one.timed
    noisy = [reading for _, _, reading in timed if reading.status is Status.NOISY]
    return _share(Share(num=len(noisy), num_total=len(timed)))


def _first_call(one: Instrument) -> Entry:
    seconds = one.numbers("first_call_seconds")
    if not seconds:
        return _NOTHING
    middle = statistics.median(seconds)
    return _entry(
        _time(middle), Estimate(n=len(seconds), point=middle), f"at most {_time(max(seconds))}"
    )


_CHECKS: Mapping[str, Callable[[Instrument], Entry]] = {
    "the baseline against itself: called different": _alarms,
    f"the baseline made {_SLOWED} slower: found": _finds,
    "smallest difference found four times in five": _effect,
    "measurements that stayed noisy": _noisy,
    "load of other programs on the machine: median": _load,
    "rounds repeated because others were busy": _repeated,
    "outliers among the samples, kept all the same": _outliers,
    "first call, compilation included: median": _first_call,
}


def _kernel(growths: Sequence[Growth], metric: str, one: Instrument) -> Entry:
    growth = find(growths, metric, "length", one.environment_id)
    timed = [variant for variant in growth.variants if growth.measured(variant)] if growth else []
    if one.task != MIXER_ALONE or growth is None or not timed:
        return _NOTHING
    answer = exponent(growth, timed[0])
    point, low, high = answer.estimate.point, answer.estimate.low, answer.estimate.high
    if point is None:
        return _NOTHING
    interval = "" if low is None or high is None else f"[{low:.2f}, {high:.2f}]"
    told = which_growth(growth, timed[0])
    note = f"told as {told.text.replace('n^2', 'n²')}" if told else ""
    return Entry(estimate=answer.estimate, text=f"{point:.2f}", interval=interval, note=note)


def _noise_stories(kept: Iterable[Instrument]) -> Iterator[str]:
    """Where a stopping criterion was not met, and which; the first of many."""
    metrics: dict[tuple[str, str, int, str], list[str]] = {}
    for one in kept:
        for variant, metric, reading in one.timed:
            if reading.status is Status.NOISY:
                key = (variant, reading.at, reading.seed, reading.reason)
                metrics.setdefault(key, []).append(_words(metric))
    stories = [
        f"{' at '.join(filter(None, (variant, at)))} in process {seed} ({', '.join(names)}): {why}"
        for (variant, at, seed, why), names in metrics.items()
    ]
    if stories:
        more = len(stories) - _MAX_STORIES
        rest = f"; and {more} more, in results.csv" if more > 0 else ""
        yield f"Noisy: {'; '.join(stories[:_MAX_STORIES])}{rest}."


def _words(metric: str) -> str:
    return metric.removesuffix("_seconds").replace("_", " ")


def _time(seconds: float) -> str:
    notation = for_quantities("s", [seconds])
    return notation.with_unit(f"{seconds / notation.factor:.3g}")
