"""What stands on a report's page, and in which order of importance?

Everything here is read off a sweep: no clock, no host, no address.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from reports.curves import curve_figure
from reports.exhibits import controls_section, mixers_section
from reports.figures import Drawing, score_figure
from reports.frame import FrameError, Sweep
from reports.readings import Coverage, Reading
from reports.section import Section
from reports.series import Series, all_series, belongs, num_expected
from reports.tables import (
    Table,
    comparison_table,
    primary,
    whole_coverage,
    without_controls,
)
from reports.tradeoff import tradeoff_figure
from reports.verdict import Verdict, verdict
from suite.schema import MIXER_ALONE, About, DataSet, Provenance, Status

SCALES = ("quick", "standard", "paper")
_MAX_NAMES = 12
NOISE = "a stopping criterion was not met; results.csv has each, with its figures"
DEFINITIONS = (
    "A mean is taken over seeds, and its interval is Student's t at 95 %, which supposes errors "
    "close to normal; one seed has no interval. A difference to the baseline is taken seed by "
    "seed, where both saw the same batches in the same order, and then averaged; ↑ and ↓ say "
    "which direction is good, and “better” or “worse” stands where the interval excludes zero. "
    "Nothing is corrected for the number of comparisons: the verdict rests on the one claim that "
    "the ablation states, the rest is for looking.",
    "FLOPs are counted by formula: 2 per multiply-add in matrix products, convolutions and "
    "attention, none for elementwise work; training counts the backward pass as twice the forward "
    "one. Times are medians with the spread of the samples, or of the processes where there are "
    "several, and are never compared across machines. Coverage counts what was planned: a seed "
    "that diverged or failed stays in the denominator.",
)


@dataclass(frozen=True, kw_only=True)
class Trouble:
    """What failed, was skipped or is missing, and why; the same story is told once."""

    task: str
    variants: tuple[str, ...]
    probe: str
    fate: str
    seeds: tuple[int, ...]
    reason: str

    @property
    def who(self) -> str:
        """The variants, or the first of many."""
        rest = len(self.variants) - _MAX_NAMES
        names = ", ".join(self.variants[:_MAX_NAMES])
        return f"{names} and {rest} more" if rest > 0 else names


@dataclass(frozen=True, kw_only=True)
class Page:
    """One report, ready to be printed as HTML or Markdown.

    Attributes:
        tables: The comparison on each task.
        drawings: Of each task.
        mixers: What was measured of mixers alone; stands before the tasks.
        controls: Of the timings, where no mixers stand alone; stands after the tasks.
    """

    about: About
    scales: tuple[str, ...]
    verdict: Verdict | None
    coverage: Coverage
    tables: tuple[Table, ...]
    drawings: Mapping[str, tuple[Drawing, ...]]
    mixers: Section | None
    controls: Section | None
    troubles: tuple[Trouble, ...]
    data_sets: tuple[tuple[str, DataSet], ...]
    environments: tuple[tuple[str, Provenance], ...]
    commits: tuple[str, ...]
    definitions: tuple[str, ...]

    @property
    def all_tables(self) -> tuple[Table, ...]:
        """In the order of the page."""
        before, after = (section.tables if section else () for section in self._sections)
        return (*before, *self.tables, *after)

    @property
    def all_drawings(self) -> tuple[Drawing, ...]:
        """In the order of the page."""
        before, after = (section.drawings if section else () for section in self._sections)
        return (*before, *(d for some in self.drawings.values() for d in some), *after)

    @property
    def _sections(self) -> tuple[Section | None, Section | None]:
        return self.mixers, self.controls


def ordered(sweeps: Sequence[Sweep]) -> list[Sweep]:
    """From the smallest scale to the largest."""
    return sorted(sweeps, key=lambda sweep: _size(sweep.about.scale))


def shown_sweep(sweeps: Sequence[Sweep], scale: str | None = None) -> Sweep:
    """The sweep that a page shows: the largest that has a result, or the one asked for.

    Raises:
        FrameError: if there is none at that scale.
    """
    by_scale = {sweep.about.scale: sweep for sweep in ordered(sweeps)}
    if scale is not None:
        if scale not in by_scale:
            known = ", ".join(by_scale) or "none"
            raise FrameError(f"no results at scale {scale!r}; scales with results: {known}.")
        return by_scale[scale]
    with_results = [s for s in by_scale.values() if (s.results["status"] == Status.OK).any()]
    with_rows = [s for s in by_scale.values() if len(s.results)]
    return (with_results or with_rows or list(by_scale.values()))[-1]


def page(sweep: Sweep, scales: Sequence[str]) -> Page:
    """The page of one sweep; `scales` are all those of the ablation that have results."""
    about = sweep.about
    measured = without_controls(all_series(about, sweep.results))
    tasks = [task for task in about.tasks if task != MIXER_ALONE]
    mixers = mixers_section(about, sweep.results)
    return Page(
        about=about,
        scales=tuple(scales),
        verdict=verdict(about, measured),
        coverage=whole_coverage(about, measured),
        tables=tuple(comparison_table(about, measured, task) for task in tasks),
        drawings={task: tuple(_drawings(sweep, measured, task)) for task in tasks},
        mixers=mixers,
        controls=None if mixers else controls_section(about, sweep.results),
        troubles=tuple(_troubles(about, measured)),
        data_sets=tuple(sorted(about.data_sets.items())),
        environments=tuple(sorted(about.provenances.items())),
        commits=tuple(sorted(set(sweep.results["commit"]) - {""})),
        definitions=(*DEFINITIONS, *([mixers.definition] if mixers else [])),
    )


def used(made: Provenance) -> str:
    """What one trial used: ``2 CPUs, 2 threads, 1 GPU``."""
    parts = [(made.num_cpus, "CPU"), (made.num_threads, "thread"), (made.num_gpus, "GPU")]
    return ", ".join(
        f"{number:g} {noun}{'' if number == 1 else 's'}" for number, noun in parts if number
    )


def _size(scale: str) -> tuple[int, str]:
    return (SCALES.index(scale) if scale in SCALES else -1, scale)


def _drawings(sweep: Sweep, measured: Sequence[Series], task: str) -> Iterator[Drawing]:
    judged = primary(measured, task)
    if judged is None:
        return
    scores = score_figure(sweep.about, judged)
    if scores:
        yield scores
    traded = tradeoff_figure(sweep.about, measured, judged)
    if traded:
        yield traded
    for against in ("step", "flops"):
        curves = curve_figure(sweep.about, sweep.curves, judged, against)
        if curves:
            yield curves


def _troubles(about: About, measured: Sequence[Series]) -> Iterator[Trouble]:
    variants_of: dict[Trouble, list[str]] = {}
    noisy_seeds: dict[Trouble, set[int]] = {}
    for series in measured:
        for variant in about.variants:
            if belongs(variant, series.task):
                for story in _stories(about, series, variant):
                    key = replace(story, seeds=()) if story.reason == NOISE else story
                    noisy_seeds.setdefault(key, set(story.seeds)).update(story.seeds)
                    variants_of.setdefault(key, []).append(variant)
    for story, variants in variants_of.items():
        seeds = tuple(sorted(noisy_seeds[story])) if story.reason == NOISE else story.seeds
        yield replace(story, variants=tuple(dict.fromkeys(variants)), seeds=seeds)


def _stories(about: About, series: Series, variant: str) -> Iterator[Trouble]:
    """What went wrong with one variant, without its name."""
    readings = series.of(variant)
    seeds_of: dict[tuple[str, str], list[int]] = {}
    for reading in readings:
        if not reading.is_ok:
            seeds_of.setdefault((reading.fate, _reason(reading)), []).append(reading.seed)
    num_missing = num_expected(series, about) - len(readings)
    if num_missing > 0:
        present = {reading.seed for reading in readings}
        absent = [seed for seed in range(num_missing + len(readings)) if seed not in present]
        seeds_of["missing", "not yet measured"] = absent[:num_missing]
    for (fate, reason), seeds in seeds_of.items():
        yield Trouble(
            task=series.task,
            variants=(),
            probe=series.probe,
            fate=fate,
            seeds=tuple(seeds),
            reason=reason,
        )


def _reason(reading: Reading) -> str:
    """As the row has it; noise by its rule, since each row of it has figures of its own."""
    return NOISE if reading.status is Status.NOISY else reading.reason
