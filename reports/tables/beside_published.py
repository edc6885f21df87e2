"""Tabulate scores of several tasks, speed and memory, each beside the published figure.

The table follows the Long Range Arena (arXiv:2011.04006, Tables 1 and 2). It exists if
`literature/published/counterparts.csv` has printed scores of the ablation for at least two tasks,
all of one metric that is also the metric measured here. Speed and memory are ratios to the
baseline at the longest measured sequences, since absolute values depend on the machine.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from bakeoff.reports.analysis.cost import TRAINING_STEP
from bakeoff.reports.analysis.time_comparison import TimeComparison, compare
from bakeoff.reports.document import (
    NO_ENTRY,
    Column,
    Entry,
    Exhibit,
    ReportTable,
    capitalized,
    column_rows,
    readable,
)
from bakeoff.reports.literature.scores import Counterpart, PrintedScore, counterparts
from bakeoff.reports.literature.speed import Printed, printed
from bakeoff.reports.results.axis_values import belongs
from bakeoff.reports.results.reading import is_noisy
from bakeoff.reports.results.series import Series, num_expected
from bakeoff.reports.results.spoken_names import shown_names
from bakeoff.reports.stats.intervals import (
    Estimate,
    Notation,
    as_interval,
    as_ratio,
    for_estimates,
    mean_interval,
    paired_ratio,
    share_interval,
)
from bakeoff.reports.tables.comparison import ARROWS, no_number, time_marks
from bakeoff.reports.tables.marks import PARTIAL
from bakeoff.suite.schema import About

_TITLE = "Measured and published scores, speed and memory"
_INTRODUCTION = (
    "Each measured number is followed by the published number of the same method. The published "
    "numbers are for other data, longer sequences, larger models and much longer training, so only "
    "the order of the methods and the distances between them are comparable. All of this is "
    "exploratory."
)
_TIMES = (TRAINING_STEP, "forward_backward_seconds")  # for a model, else for the mixer alone
_MEMORY = ("peak_memory_bytes", "forward_backward_peak_bytes")
_OF = {
    TRAINING_STEP: "a training step",
    "forward_backward_seconds": "forward and backward, one layer",
    "peak_memory_bytes": "a training step",
    "forward_backward_peak_bytes": "forward and backward, one layer",
}
_LENGTH = re.compile(r"length=([0-9]+)")
_BASELINE = Entry(text="baseline")


@dataclass(frozen=True, kw_only=True)
class _Arena:
    """The scores to tabulate and the published comparisons.

    Attributes:
        about: The sweep.
        scores: One series for each task, all of one metric.
        known: The published comparisons on these tasks.
    """

    about: About
    scores: tuple[Series, ...]
    known: tuple[Counterpart, ...]

    @property
    def variants(self) -> tuple[str, ...]:
        """The variants that take part in every task."""
        met = (
            v
            for v in self.about.variants
            if all(belongs(self.about, v, s.task) for s in self.scores)
        )
        return tuple(met)

    def printed(self, variant: str, task: str) -> PrintedScore | None:
        """Return the published score of a variant, which may be either side of a comparison."""
        for one in self.known:
            against = self.about.baseline if one.against == "baseline" else one.against
            if one.task == task and variant in (one.variant, against):
                return one.mine if variant == one.variant else one.theirs
        return None

    def system(self, variant: str) -> str:
        """Return the name of a variant in papers, or an empty string if it is unknown."""
        found = (self.printed(variant, series.task) for series in self.scores)
        return next((one.system for one in found if one), "")

    @property
    def written(self) -> Notation:
        """The notation of the scores; shares are in percent, as in papers."""
        first = self.scores[0]
        if first.unit == "1":
            return Notation(factor=0.01, unit="%", decimals=1)
        every = (_mean(series, v) for series in self.scores for v in self.variants)
        return for_estimates(first.unit, every)


def beside_published_exhibit(about: About, measured: Sequence[Series]) -> Exhibit | None:
    """Return one table with everything, or None with published scores of fewer than two tasks."""
    arena = _arena(about, measured)
    if arena is None:
        return None
    columns = tuple(_columns(arena, measured))
    notes = {v: arena.system(v) for v in arena.variants}
    notes[about.baseline] = ", ".join(filter(None, ("baseline", notes[about.baseline])))
    table = ReportTable(
        name="beside-published",
        title=_TITLE,
        task="all tasks",
        columns=columns,
        rows=column_rows(columns, arena.variants, notes, about.baseline, shown_names(about)),
        footnotes=tuple(_footnotes(arena)),
    )
    return Exhibit(title=_TITLE, sentences=(_INTRODUCTION,), tables=(table,))


def _arena(about: About, measured: Sequence[Series]) -> _Arena | None:
    """Return the first published metric that was measured on at least two tasks, if any."""
    together: dict[str, list[Counterpart]] = {}
    for one in counterparts():
        is_same = one.published_metric == one.metric and not one.is_share
        if one.ablation == about.ablation and one.task in about.tasks and is_same:
            together.setdefault(one.metric, []).append(one)
    for metric, known in together.items():
        tasks = {one.task for one in known}
        found = tuple(
            s for s in measured if s.is_whole_score and s.metric == metric and s.task in tasks
        )
        arena = _Arena(about=about, scores=found, known=tuple(known))
        if len(found) > 1 and about.baseline in arena.variants:
            return arena
    return None


def _columns(arena: _Arena, measured: Sequence[Series]) -> Iterator[Column]:
    for series in arena.scores:
        yield _scores(arena, series)
    yield _averages(arena)
    systems = {v: arena.system(v) for v in arena.variants}
    times = _longest(arena, measured, _TIMES)
    if times is not None:
        yield _ratios(arena, times, "speed", "times as fast", systems, _faster)
    peaks = _longest(arena, measured, _MEMORY)
    if peaks is not None:
        yield _ratios(arena, peaks, "memory", "times less memory", systems, _smaller)


def _scores(arena: _Arena, series: Series) -> Column:
    """Return the mean over seeds with its interval, and the published score."""
    expected = num_expected(series, arena.about)
    entries = {}
    for variant in arena.variants:
        one, theirs = _mean(series, variant), arena.printed(variant, series.task)
        if one.point is None:
            entries[variant] = no_number(series.of(variant))
            continue
        marks = (PARTIAL,) if one.n < expected else ()
        entries[variant] = Entry(
            estimate=one,
            text=arena.written.write(one.point),
            marks=marks,
            interval=as_interval(one, arena.written.write),
            note=f"published {theirs.text}" if theirs else "",
        )
    names = dict.fromkeys(
        one.mine.task for one in arena.known if one.mine and one.task == series.task
    )
    return Column(
        key=f"{series.task}_{series.metric}",
        title=readable(series.task),
        measured_unit=series.unit,
        unit=arena.written.unit,
        arrow=ARROWS[series.better],
        note=f"mean [95 % interval]; published: {', '.join(names)}",
        entries=entries,
    )


def _averages(arena: _Arena) -> Column:
    """Average over tasks with equal weights, seed by seed, so that there is an interval."""
    first = arena.scores[0]
    entries = {}
    for variant in arena.variants:
        missing = [readable(s.task) for s in arena.scores if not s.values(variant)]
        if missing:
            entries[variant] = Entry(text=f"no result on {', '.join(missing)}", tone="none")
            continue
        values = _by_seed(arena, variant)
        one = (share_interval if first.is_share else mean_interval)(values)
        if one.point is None:
            entries[variant] = NO_ENTRY
            continue
        entries[variant] = Entry(
            estimate=one,
            text=arena.written.write(one.point),
            interval=as_interval(one, arena.written.write),
            note=_printed_average(arena, variant),
        )
    return Column(
        key=f"average_{first.metric}",
        title="average",
        measured_unit=first.unit,
        unit=arena.written.unit,
        arrow=ARROWS[first.better],
        entries=entries,
        note="over the tasks, for seeds that succeeded on all tasks [95 % interval]",
    )


def _by_seed(arena: _Arena, variant: str) -> list[float]:
    values = [series.values(variant) for series in arena.scores]
    shared = set.intersection(*(set(some) for some in values))
    return [statistics.fmean(some[seed] for some in values) for seed in sorted(shared)]


def _printed_average(arena: _Arena, variant: str) -> str:
    """Return the published average over the same tasks; empty if one of them is not published.

    Two tasks of the ablation may correspond to one published task, which then counts once.
    """
    found = [arena.printed(variant, series.task) for series in arena.scores]
    scores = {one.task: one.score for one in found if one is not None}
    if not scores or None in found:
        return ""
    return f"published {arena.written.write(statistics.fmean(scores.values()))}"


def _longest(arena: _Arena, measured: Sequence[Series], metrics: Sequence[str]) -> Series | None:
    """Return the first metric that the baseline has, at its longest length, in one environment."""
    for metric in metrics:
        found = [
            s
            for s in measured
            if s.metric == metric and _length(s) and s.values(arena.about.baseline)
        ]
        if found:
            return max(
                found,
                key=lambda s: (_length(s), sum(map(len, s.readings.values())), s.environment_id),
            )
    return None


def _length(series: Series) -> int:
    """Return the length in tokens, or 0 if the series is at another coordinate."""
    where = _LENGTH.fullmatch(series.at)
    return int(where[1]) if where else 0


def _ratios(
    arena: _Arena,
    series: Series,
    key: str,
    title: str,
    systems: Mapping[str, str],
    ratio: Callable[[Series, str, str], Entry],
) -> Column:
    """Return the measured ratios, and those published for the longest sequences."""
    rows = {one.system: one for one in sorted(_printed_ratios(key), key=lambda one: one.length)}
    entries = {arena.about.baseline: _BASELINE}
    for variant in arena.variants:
        if variant == arena.about.baseline:
            continue
        entry, theirs = ratio(series, variant, arena.about.baseline), rows.get(systems[variant])
        said = f"published {as_ratio(theirs.ratio)}" if theirs else ""
        entries[variant] = Entry(
            text=entry.text,
            estimate=entry.estimate,
            interval=entry.interval,
            marks=entry.marks,
            tone=entry.tone,
            note=said,
        )
    of_theirs = {rows[s] for s in systems.values() if s in rows}
    theirs_said = [
        f"published: {one.length:,} tokens, {one.hardware or 'device not noted'}"
        for one in of_theirs
    ]
    ours_said = f"{_OF[series.metric]}, {_length(series):,} tokens"
    return Column(
        key=f"times_{key}",
        title=title,
        measured_unit="1",
        arrow="↑",
        note="; ".join((ours_said, *sorted(set(theirs_said)))),
        entries=entries,
    )


def _printed_ratios(key: str) -> Iterator[Printed]:
    """Yield the published ratios of memory or of speed in training."""
    yield from (one for one in printed() if one.is_training and one.is_memory == (key == "memory"))


def _faster(series: Series, variant: str, baseline: str) -> Entry:
    """Return the baseline's time divided by the variant's, paired by process."""
    ours, theirs = series.of(variant), series.of(baseline)
    if not series.usable(variant):
        return no_number(ours)
    found: TimeComparison = compare(theirs, ours, series.resolution)
    if found.ratio.point is None:
        return NO_ENTRY
    return Entry(
        estimate=found.ratio,
        text=as_ratio(found.ratio.point),
        interval=as_interval(found.ratio, as_ratio),
        marks=time_marks(found, is_noisy=is_noisy(ours)),
    )


def _smaller(series: Series, variant: str, baseline: str) -> Entry:
    """Return the baseline's bytes divided by the variant's."""
    ratio = paired_ratio(series.values(baseline), series.values(variant))
    if ratio is None:
        return no_number(series.of(variant))
    return Entry(estimate=Estimate(n=1, point=ratio), text=as_ratio(ratio))


def _mean(series: Series, variant: str) -> Estimate:
    return series.mean(variant)


def _footnotes(arena: _Arena) -> Iterator[str]:
    """Yield how the papers' tasks differ, and the sources of the published numbers."""
    for series in arena.scores:
        here = [one.differs for one in arena.known if one.task == series.task and one.differs]
        if here:
            yield f"{capitalized(readable(series.task))}: {min(here, key=len)}."
    systems = {arena.system(v) for v in arena.variants}
    sources = [one.source for one in arena.known if one.mine and one.mine.system in systems]
    sources += [one.source for one in printed() if one.is_training and one.system in systems]
    yield f"Published: {'; '.join(dict.fromkeys(sources))}."
