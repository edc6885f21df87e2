"""Tabulate scores over all tasks together, if several tasks have the same metric.

Tasks have equal weights. The interval of a pooled difference is a bootstrap over seeds, stratified
by task (`bakeoff.reports.stats.aggregate`); a variant that lacks a task is not pooled.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from bakeoff.reports.document import (
    NO_ENTRY,
    Column,
    Entry,
    Exhibit,
    Mark,
    ReportTable,
    capitalized,
    readable,
)
from bakeoff.reports.escape import slug
from bakeoff.reports.results.axis_values import belongs
from bakeoff.reports.results.series import Series, advantages, num_expected, within_shares
from bakeoff.reports.stats.aggregate import (
    MIN_TASKS_TO_TRIM,
    improvement,
    interquartile_mean,
    pooled_interval,
)
from bakeoff.reports.stats.intervals import (
    Estimate,
    Notation,
    as_interval,
    as_percent,
    for_estimates,
    paired_differences,
    with_digits,
)
from bakeoff.reports.tables.comparison import ARROWS, primary, table_of_variants, tone
from bakeoff.suite.schema import About, Better

_MOST_VARIANTS = 500  # each needs thousands of draws
_ALL_TASKS = "all tasks"
_Values = Mapping[str, tuple[float, ...]]  # task -> one number for each seed
_BASELINE = Entry(text="baseline")
_PARTIAL = Mark(
    sign="†",
    name="partial",
    meaning="Some seeds failed; the tables of the tasks show which.",
)


@dataclass(frozen=True, kw_only=True)
class _Pool:
    """The scores of several tasks that share a metric, a unit and a direction."""

    about: About
    scores: tuple[Series, ...]
    variants: tuple[str, ...]

    @property
    def first(self) -> Series:
        """A series with the metric, unit and direction of all."""
        return self.scores[0]

    @property
    def is_trimmed(self) -> bool:
        """True if there are enough tasks for an interquartile mean."""
        return len(self.scores) >= MIN_TASKS_TO_TRIM

    def values(self, variant: str) -> _Values:
        """Return one value for each seed and task; empty if a task has none."""
        found = {series.task: tuple(series.values(variant).values()) for series in self.scores}
        return found if all(found.values()) else {}

    def differences(self, variant: str) -> _Values:
        """Return paired differences to the baseline; empty if a task has none."""
        baseline = self.about.baseline
        found = {
            s.task: paired_differences(s.values(variant), s.values(baseline)) for s in self.scores
        }
        return found if all(found.values()) else {}

    def mean_difference(self, variant: str) -> Estimate:
        """Return the pooled difference to the baseline, with its interval."""
        differences = self.differences(variant)
        found = pooled_interval(differences)
        if not self.first.is_share:
            return found
        return within_shares(found, (each for some in differences.values() for each in some))

    def is_complete(self, variant: str) -> bool:
        """Return True if every planned seed of every task ended well."""
        return all(
            len(series.values(variant)) >= num_expected(series, self.about)
            for series in self.scores
        )


def pooled_exhibit(about: About, measured: Sequence[Series]) -> Exhibit | None:
    """Return a table for each metric that several tasks share, or None if there is none."""
    pools = list(_pools(about, measured))
    if not pools:
        return None
    tables = [_table(pool) for pool in pools if len(pool.variants) <= _MOST_VARIANTS]
    sentences = [_sentence(pool) for pool in pools]
    if len(tables) < len(pools):
        sentences.append(f"With more than {_MOST_VARIANTS} variants, results are not pooled.")
    return Exhibit(title="All tasks together", sentences=tuple(sentences), tables=tuple(tables))


def _pools(about: About, measured: Sequence[Series]) -> Iterator[_Pool]:
    together: dict[tuple[str, str, Better], list[Series]] = {}
    for task in about.tasks:
        judged = primary(measured, task)
        if judged is not None and judged.is_score:
            key = (judged.metric, judged.unit, judged.better)
            together.setdefault(key, []).append(judged)
    for scores in together.values():
        met = tuple(v for v in about.variants if all(belongs(about, v, s.task) for s in scores))
        if len(scores) > 1 and len(met) > 1 and about.baseline in met:
            yield _Pool(about=about, scores=tuple(scores), variants=met)


def _sentence(pool: _Pool) -> str:
    tasks = ", ".join(readable(series.task) for series in pool.scores)
    how = (
        "the interquartile mean, which leaves out the lowest and the highest quarter of all values"
        if pool.is_trimmed
        else "the mean, in which each task has the same weight"
    )
    return (
        f"{capitalized(readable(pool.first.metric))} over {len(pool.scores)} tasks ({tasks}). "
        f"Differences are paired by seed and pooled by {how}; their interval is a bootstrap over "
        "seeds, stratified by task, and does not apply to other tasks. All of this is exploratory."
    )


def _table(pool: _Pool) -> ReportTable:
    metric, note = pool.first.metric, "mean of the tasks’ means"

    def mean_of_means(values: _Values) -> float:
        return statistics.fmean(map(statistics.fmean, values.values()))

    filled = [_column(pool, metric, readable(metric), note, mean_of_means)]
    if pool.is_trimmed:
        key, note = f"{metric}_interquartile_mean", "of all seeds of all tasks"
        filled.append(_column(pool, key, "interquartile mean", note, interquartile_mean))
    filled += [_differences(pool), _improvements(pool)]
    return table_of_variants(
        pool.about,
        filled,
        name=f"pooled-{slug(metric)}",
        title=f"{readable(metric)} over all tasks",
        task=_ALL_TASKS,
    )


def _column(
    pool: _Pool, key: str, title: str, note: str, aggregate: Callable[[_Values], float]
) -> Column:
    """Return a column with one number for each variant, over all seeds of all tasks."""
    values = {variant: pool.values(variant) for variant in pool.variants}
    estimates = {
        variant: Estimate(n=sum(map(len, some.values())), point=aggregate(some) if some else None)
        for variant, some in values.items()
    }
    written = for_estimates(pool.first.unit, estimates.values())
    entries = {}
    for variant, one in estimates.items():
        if one.point is None:
            missing = [readable(s.task) for s in pool.scores if not s.values(variant)]
            text = f"no result on {', '.join(missing)}"
            entries[variant] = Entry(estimate=one, text=text, tone="none")
            continue
        marks = () if pool.is_complete(variant) else (_PARTIAL,)
        entries[variant] = Entry(estimate=one, text=written.write(one.point), marks=marks)
    return Column(
        key=key,
        title=title,
        measured_unit=pool.first.unit,
        unit=written.unit,
        arrow=ARROWS[pool.first.better],
        note=note,
        entries=entries,
    )


def _differences(pool: _Pool) -> Column:
    first = pool.first
    others = [variant for variant in pool.variants if variant != pool.about.baseline]
    estimates = {variant: pool.mean_difference(variant) for variant in others}
    written = for_estimates(first.unit, estimates.values())
    kind = "interquartile mean" if pool.is_trimmed else "mean"
    return Column(
        key=f"{first.metric}_difference",
        title="difference to baseline",
        measured_unit=first.unit,
        unit=written.unit,
        arrow=ARROWS[first.better],
        note=f"{kind} of paired differences [95 % bootstrap interval]",
        entries=dict.fromkeys(pool.variants, _BASELINE)
        | {variant: _difference(pool, one, written) for variant, one in estimates.items()},
    )


def _difference(pool: _Pool, one: Estimate, written: Notation) -> Entry:
    if one.point is None:
        return NO_ENTRY
    written = with_digits(written, one)
    text, interval = written.write_signed(one.point), as_interval(one, written.write_signed)
    verdict = tone(one, pool.first.better)
    return Entry(estimate=one, text=text, interval=interval, note=verdict, tone=verdict)


def _improvements(pool: _Pool) -> Column:
    """Return how often a variant beat the baseline on paired seeds; a diverged seed is a loss."""
    return Column(
        key="probability_of_improvement",
        title="beats the baseline",
        measured_unit="1",
        arrow="↑",
        note="share of paired seeds [95 % interval]",
        entries={
            variant: _BASELINE if variant == pool.about.baseline else _improvement(pool, variant)
            for variant in pool.variants
        },
    )


def _improvement(pool: _Pool, variant: str) -> Entry:
    baseline = pool.about.baseline
    if pool.first.better == "none":
        return NO_ENTRY
    pairs = [one for series in pool.scores for one in advantages(series, variant, baseline)]
    found = improvement(pairs).probability
    if found.point is None:
        return NO_ENTRY
    interval = as_interval(found, as_percent)
    return Entry(estimate=found, text=as_percent(found.point), interval=interval)
