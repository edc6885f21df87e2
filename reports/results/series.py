"""Reads series of measurements from a results frame.

A series holds the rows that may stand in one column, of one metric, task and machine. Floors are
simple predictors that need no architecture: each has one reading and no seed, and is shown beside
the score of its task only.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import pandas as pd

from reports.results.reading import Reading, first_of_seeds, reading_of, resolution_of
from reports.stats.intervals import CONFIDENCE, Estimate, mean_interval, share_interval
from suite.schema import (
    BASELINE_AGAIN,
    CONTROLS,
    FLOORS,
    LEARNING_RATE,
    MIXER_ALONE,
    NUM_SENTENCES,
    WRITTEN_SCORES,
    About,
    Better,
    Status,
    metric_bounds,
)

QUALITY = "quality"  # the probe whose metrics are a task's score
STATE_BYTES = "state_bytes"  # by formula: the only bytes that no machine changes
MOST_COLUMNS = 3  # coordinates of a metric that stand side by side in a comparison
_BOUND_UNITS = frozenset({"s", "B", "bytes", "% of peak"})
FLOOR_NOTE = "floor"  # of its row
FLOORS_FOOTNOTE = (
    "Floors need no architecture: they are computed once, without seeds, from the same training "
    "data, and scored on the same test split. Their differences are plain numbers."
)


def timings_of(series: Series, variant: str) -> tuple[Reading, ...]:
    """The times of a variant that have a number; none of what follows from times, as rates."""
    return tuple(r for r in series.of(variant) if r.has_number) if series.unit == "s" else ()


_Key = tuple[str, str, str, str, Better]  # task, probe, metric, unit, better
_Place = tuple[str, str, str, str]  # task, probe, environment, coordinate
_Readings = Mapping[str, tuple[Reading, ...]]


@dataclass(frozen=True, kw_only=True)
class Series:
    """All readings of one metric on one task, by variant; one reading a seed.

    Attributes:
        at: The coordinate; empty where there is none, or where the variants differ in it.
        environment_id: Where it was measured, if that moves the number; else empty.
        resolution: Of times: what the baseline showed against itself there, see `resolution_of`.
    """

    task: str
    probe: str
    metric: str
    unit: str
    better: Better
    at: str = ""
    environment_id: str = ""
    resolution: float = 0.0
    readings: _Readings

    @property
    def is_score(self) -> bool:
        """Whether it says how good the model got."""
        return self.probe == QUALITY

    @property
    def is_whole_score(self) -> bool:
        """Whether it is the score that a task is judged by: of no part, at no other length."""
        return self.is_score and not self.at

    @property
    def is_share(self) -> bool:
        """Return True if its numbers cannot lie outside 0 to 1."""
        return is_share(self.metric, self.unit)

    def mean(self, variant: str, confidence: float = CONFIDENCE) -> Estimate:
        """Return the mean over the seeds of a variant, with its interval."""
        values = tuple(self.values(variant).values())
        return (share_interval if self.is_share else mean_interval)(values, confidence)

    def mean_difference(
        self, differences: Sequence[float], confidence: float = CONFIDENCE
    ) -> Estimate:
        """Return the mean of paired differences; that of two shares lies between -1 and 1."""
        found = mean_interval(differences, confidence)
        return found.within(-1.0, 1.0) if self.is_share else found

    @property
    def is_bound_to_environment(self) -> bool:
        """Whether numbers of two machines must not be compared: times, rates, memory."""
        return is_bound(self.unit, self.metric)

    @property
    def is_timed(self) -> bool:
        """Whether it holds times, or rates that follow from them."""
        return self.unit == "s" or self.unit.endswith("/s")

    @cached_property
    def num_seen(self) -> int:
        """The most seeds that any variant has a reading of."""
        return max((len(some) for some in self.readings.values()), default=0)

    def of(self, variant: str) -> tuple[Reading, ...]:
        """The readings of a variant, in the order of seeds."""
        return self.readings.get(variant, ())

    def usable(self, variant: str) -> tuple[Reading, ...]:
        """The readings that are ok; of times and rates also the noisy ones.

        The interval between processes has paid for the noise inside them.
        """
        return self._usable.get(variant, ())

    def seeds_diverged(self, variant: str) -> list[int]:
        """The seeds of a variant whose training diverged."""
        return [r.seed for r in self.of(variant) if r.status is Status.DIVERGED]

    def values(self, variant: str) -> dict[int, float]:
        """Seed -> value, of the readings that are usable."""
        return dict(self._values.get(variant, {}))

    @cached_property
    def _usable(self) -> Mapping[str, tuple[Reading, ...]]:
        """Found once: with a thousand seeds, who asks for each seed would look a million times."""
        return {
            variant: tuple(r for r in some if r.is_ok or (self.is_timed and r.is_usable))
            for variant, some in self.readings.items()
        }

    @cached_property
    def _values(self) -> Mapping[str, Mapping[int, float]]:
        return {
            variant: {reading.seed: reading.value for reading in some}
            for variant, some in self._usable.items()
        }


def is_share(metric: str, unit: str) -> bool:
    """Return True if numbers of a metric cannot lie outside 0 to 1."""
    return unit == "1" and metric_bounds(metric) == (0.0, 1.0)


def is_bound(unit: str, metric: str = "") -> bool:
    """Whether a number of that unit depends on the machine: times, rates, memory."""
    if metric == STATE_BYTES:
        return False
    return unit in _BOUND_UNITS or unit.endswith(("/s", "_per_second"))


def all_series(about: About, results: pd.DataFrame) -> tuple[Series, ...]:
    """Every series of a sweep, in the order of `about`'s tasks, probes and metrics.

    Those of the mixers alone are among them, one per coordinate: they count towards coverage.
    So is what an instrument says of itself (`suite.schema.CONTROLS`), which does not.

    What depends on the machine has one series per environment. A metric that a variant has at
    several coordinates has one series per coordinate.
    """
    found: dict[_Key, dict[str, list[Reading]]] = {
        (task, probe, spec.name, spec.unit, spec.better): {}
        for task in about.tasks
        for probe in about.probes
        for spec in about.metrics.get(task, {}).get(probe, ())
    }
    again: dict[_Place, list[Reading]] = {}
    for row in results.to_dict("records"):
        key = (row["task"], row["probe"], row["metric"], row["unit"], row["better"])
        reading = reading_of(row)
        found.setdefault(key, {}).setdefault(row["variant"], []).append(reading)
        if row["metric"] == BASELINE_AGAIN:
            place = (row["task"], row["probe"], reading.environment_id, reading.at)
            again.setdefault(place, []).append(reading)
    resolutions = {place: resolution_of(some) for place, some in again.items()}
    every = (series for key, by_variant in found.items() for series in _split(key, by_variant))
    return tuple(_with_resolution(series, resolutions) for series in every)


def _with_resolution(series: Series, resolutions: Mapping[_Place, float]) -> Series:
    """Of times and rates, the coarsest of the coordinates that it holds."""
    if not series.is_timed or not resolutions:
        return series
    places = {r.at for some in series.readings.values() for r in some}
    named = ((series.task, series.probe, series.environment_id, at) for at in sorted(places))
    return replace(series, resolution=max((resolutions.get(n, 0.0) for n in named), default=0.0))


def compared(measured: Sequence[Series]) -> tuple[Series, ...]:
    """What stands in a comparison: of scores the whole ones, of the rest what has few coordinates.

    What is left out has a picture of its own (`reports.sections.axis_series`), and still counts as
    coverage; numbers of sentences stand there beside their parts. A task of which nothing would be
    left keeps each metric at its last coordinate.
    """
    left_out = {id(series) for series in left_out_of_comparison(measured)}
    kept = [s for s in measured if id(s) not in left_out and s.metric != NUM_SENTENCES]
    tasks = {series.task for series in kept}
    last = {_name(series): series for series in measured if series.task not in tasks}
    chosen = {id(series) for series in (*kept, *last.values())}
    return tuple(series for series in measured if id(series) in chosen)


def left_out_of_comparison(measured: Sequence[Series]) -> tuple[Series, ...]:
    """Scores of parts and at other lengths, and metrics at more than a few coordinates."""
    places = Counter(_name(series) for series in measured)
    return tuple(series for series in measured if _is_along(series, places[_name(series)]))


def _name(series: Series) -> tuple[str, str, str, str]:
    return series.task, series.probe, series.metric, series.environment_id


def _is_along(series: Series, num_places: int) -> bool:
    """Whether it is one of many along something, as scores at other lengths are."""
    if series.is_score or series.probe == WRITTEN_SCORES:
        return bool(series.at)
    is_alone = series.task == MIXER_ALONE or series.is_bound_to_environment
    return not is_alone and num_places > MOST_COLUMNS


def num_expected(series: Series, about: About) -> int:
    """Readings that each variant should have: the seeds for a score, else as many as any has.

    A search tries each rate only as long as scores get better: none of these is expected.
    """
    if series.probe == LEARNING_RATE and series.metric != LEARNING_RATE:
        return 0
    return max(about.num_seeds, series.num_seen) if series.is_score else max(1, series.num_seen)


def never_searched(measured: Iterable[Series]) -> set[tuple[str, str, str]]:
    """Task, probe and variant of the searches for a learning rate that nothing waits for."""
    return {
        (series.task, LEARNING_RATE, variant)
        for series in measured
        if series.is_score
        for variant, readings in series.readings.items()
        if readings and all(reading.status is Status.SKIPPED for reading in readings)
    }


def advantages(series: Series, a: str, b: str) -> tuple[float, ...]:
    """How much better `a` is than `b`, seed by seed; a diverged seed is worse than any score.

    So infinite where one of the two diverged, and zero where both did.
    """
    sign = -1.0 if series.better == "lower" else 1.0
    mine, theirs = (
        {seed: sign * value for seed, value in series.values(variant).items()}
        | dict.fromkeys(series.seeds_diverged(variant), -math.inf)
        for variant in (a, b)
    )
    both = sorted(mine.keys() & theirs.keys())
    return tuple(0.0 if mine[seed] == theirs[seed] else mine[seed] - theirs[seed] for seed in both)


def _split(key: _Key, by_variant: Mapping[str, Sequence[Reading]]) -> Iterator[Series]:
    task, probe, metric, unit, better = key
    readings = {variant: tuple(some) for variant, some in by_variant.items()}
    whole = Series(
        task=task, probe=probe, metric=metric, unit=unit, better=better, readings=readings
    )
    for series in _by_environment(whole):
        yield from _by_coordinate(series)


def _by_environment(whole: Series) -> Iterator[Series]:
    """One series per machine; a reading without a number belongs where its variant has no other."""
    places = {r.environment_id for some in whole.readings.values() for r in some if r.has_number}
    if not whole.is_bound_to_environment or not places:
        yield whole
        return
    for place in sorted(places):
        readings = {
            variant: tuple(r for r in some if r.environment_id == place)
            or tuple(r for r in some if not r.has_number)
            for variant, some in whole.readings.items()
        }
        yield replace(whole, environment_id=place, readings=readings)


def _by_coordinate(series: Series) -> Iterator[Series]:
    coordinates = list(dict.fromkeys(r.at for some in series.readings.values() for r in some))
    one_each = all(len({r.at for r in some}) <= 1 for some in series.readings.values())
    if one_each:
        at = coordinates[0] if len(coordinates) == 1 else ""
        yield _one_a_seed(replace(series, at=at))
        return
    for at in sorted(coordinates, key=lambda text: (len(text), text)):  # length=64 before =128
        there = {
            variant: tuple(r for r in some if r.at == at)
            for variant, some in series.readings.items()
        }
        yield _one_a_seed(replace(series, at=at, readings=there))


def _one_a_seed(series: Series) -> Series:
    """The ok reading where a seed has several, then the first by environment."""
    readings = {v: first_of_seeds(r, lambda r: not r.is_ok) for v, r in series.readings.items()}
    return replace(series, readings=readings)


def floors_of(about: About, series: Series) -> tuple[str, ...]:
    """The labels that stand beside a series: none but beside the whole score of a task.

    What a curve says at some step is no such score, though a table may show it as one.
    """
    scored = {spec.name for spec in about.metrics.get(series.task, {}).get(FLOORS, ())}
    is_theirs = series.is_whole_score and series.metric in scored
    return about.floors.get(series.task, ()) if is_theirs else ()


def beside_scores(measured: Iterable[Series]) -> tuple[Series, ...]:
    """The same, with the readings of floors in the score of their task, under their labels."""
    every = tuple(measured)
    floors = {(s.task, s.metric): s.readings for s in every if s.probe == FLOORS}
    return tuple(
        replace(s, readings={**s.readings, **floors.get((s.task, s.metric), {})})
        if s.is_whole_score
        else s
        for s in every
        if s.probe != FLOORS
    )


def without_controls(measured: Iterable[Series]) -> tuple[Series, ...]:
    """Return the series of variants, with floors beside scores; none that control an instrument."""
    return beside_scores(series for series in measured if series.metric not in CONTROLS)
