"""Read series of measurements from a results frame.

A series holds the rows that belong in one column: those of one metric, task and machine. Floors are
simple predictors without an architecture: each has one reading and no seed, and is shown only
beside the score of its task.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import pandas as pd

from bakeoff.reports.results.axis_values import number
from bakeoff.reports.results.reading import (
    Reading,
    coordinates,
    first_of_seeds,
    reading_of,
    resolution_of,
)
from bakeoff.reports.stats.intervals import (
    CONFIDENCE,
    Estimate,
    Notation,
    for_quantities,
    for_scores,
    mean_interval,
    share_interval,
)
from bakeoff.suite.schema import (
    BASELINE_AGAIN,
    CONTROLS,
    FLOORS,
    LEARNING_RATE,
    MIXER_ALONE,
    NUM_SENTENCES,
    TRAINING_STEPS,
    WRITTEN_SCORES,
    About,
    Better,
    Status,
    is_launched,
    launched,
    metric_bounds,
)

QUALITY = "quality"  # the probe whose metrics are the scores of a task
STATE_BYTES = "state_bytes"  # the only metric in bytes that does not depend on the machine
MOST_COLUMNS = 3  # coordinates of a metric that a comparison shows side by side
_BOUND_UNITS = frozenset({"s", "B", "bytes", "% of peak"})
FLOOR_NOTE = "floor"  # note in the row of a floor
FLOORS_FOOTNOTE = (
    "Floors need no architecture: they are computed once, without seeds, from the same training "
    "data, and evaluated on the same test set. Their differences have no intervals."
)


def timings_of(series: Series, variant: str) -> tuple[Reading, ...]:
    """Return the times of a variant that have a number; empty for metrics other than times."""
    return tuple(r for r in series.of(variant) if r.has_number) if series.unit == "s" else ()


_COUNTING = frozenset({"flops", "mixer_flops", "parameters", "path_length", "state_bytes"})

_Key = tuple[str, str, str, str, Better]  # task, probe, metric, unit, better
_Place = tuple[str, str, str, str, bool]  # task, probe, environment, coordinate, is launched
_Readings = Mapping[str, tuple[Reading, ...]]


@dataclass(frozen=True, kw_only=True)
class Series:
    """The readings of one metric on one task, by variant; one reading per seed.

    Attributes:
        at: The coordinate; empty if there is none, or if it differs between variants.
        environment_id: The environment of the measurements if the metric depends on it; else empty.
        resolution: For times and rates, the log ratio that the baseline showed against itself; see
            `resolution_of`.
        is_graph: Whether a time is that of a CUDA graph, beside which launches were timed.
        num_examples: For the score of a whole task, the size of its test split if that is known.
        readings: Variant -> one reading per seed.
    """

    task: str
    probe: str
    metric: str
    unit: str
    better: Better
    at: str = ""
    environment_id: str = ""
    resolution: float = 0.0
    is_graph: bool = False
    num_examples: int | None = None
    readings: _Readings

    @property
    def is_score(self) -> bool:
        """True if the metric measures the quality of a model."""
        return self.probe == QUALITY

    @property
    def is_whole_score(self) -> bool:
        """True if it is the score of a whole task, not of a part or at another length."""
        return self.is_score and not self.at

    @property
    def is_share(self) -> bool:
        """True if its numbers cannot lie outside 0 to 1."""
        return is_share(self.metric, self.unit)

    def mean(self, variant: str, confidence: float = CONFIDENCE) -> Estimate:
        """Return the mean over the seeds of a variant, with its interval in the metric's bounds."""
        values = tuple(self.values(variant).values())
        if self.is_share:
            return share_interval(values, confidence, self.num_examples)
        ends = metric_bounds(self.metric, self.unit)
        least, most = (
            sign * math.inf if end is None else end for end, sign in zip(ends, (-1, 1), strict=True)
        )
        found = mean_interval(values, confidence)
        return found.within(least, most) if all(least <= v <= most for v in values) else found

    def mean_difference(
        self, differences: Sequence[float], confidence: float = CONFIDENCE
    ) -> Estimate:
        """Return the mean of paired differences, with an interval; counts are exact.

        That of two shares lies between -1 and 1, unless a number is not a share in spite of its
        metric's name.
        """
        found = mean_interval(differences, confidence)
        if self.is_count:
            return Estimate(n=found.n, point=found.point, low=found.point, high=found.point)
        return within_shares(found, differences) if self.is_share else found

    @property
    def is_count(self) -> bool:
        """True if the numbers are counted, not measured: one reading is exact."""
        return self.probe in _COUNTING

    @property
    def is_bound_to_environment(self) -> bool:
        """True for times, rates and memory: numbers of two machines must not be compared."""
        return is_bound(self.unit, self.metric)

    @property
    def is_timed(self) -> bool:
        """True if the series holds times, or rates derived from them."""
        return self.unit == "s" or self.unit.endswith("/s")

    def notation(self, advantage: Estimate) -> Notation:
        """Return the notation of a difference of two variants with its interval."""
        sizes = [abs(x) for x in (advantage.point, advantage.low, advantage.high) if x is not None]
        width = advantage.half_width
        if self.unit.endswith("/s") and width and width >= 10:  # two digits of the interval
            shown = "a second" if self.unit == "1/s" else self.unit
            return Notation(unit=shown, decimals=1 - math.floor(math.log10(width)))
        if self.is_bound_to_environment or self.unit == "B":
            return for_quantities(self.unit, sizes)
        return for_scores(self.unit, [] if width is None else [width], sizes)

    @cached_property
    def num_seeds(self) -> int:
        """The number of different seeds of all variants."""
        return len({reading.seed for some in self.readings.values() for reading in some})

    @cached_property
    def num_seen(self) -> int:
        """The largest number of seeds for which a variant has a reading."""
        return max((len(some) for some in self.readings.values()), default=0)

    def of(self, variant: str) -> tuple[Reading, ...]:
        """Return the readings of a variant, in the order of seeds."""
        return self.readings.get(variant, ())

    def usable(self, variant: str) -> tuple[Reading, ...]:
        """Return the readings that are ok; for times and rates also the noisy ones.

        The between-process interval already includes within-process noise.
        """
        return self._usable.get(variant, ())

    def seeds_diverged(self, variant: str) -> list[int]:
        """Return the seeds of a variant whose training diverged."""
        return [r.seed for r in self.of(variant) if r.status is Status.DIVERGED]

    def values(self, variant: str) -> dict[int, float]:
        """Return seed -> value, for usable readings."""
        return dict(self._values.get(variant, {}))

    @cached_property
    def _usable(self) -> Mapping[str, tuple[Reading, ...]]:
        """The usable readings by variant; cached, since callers look up one seed at a time."""
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
    return metric_bounds(metric, unit) == (0.0, 1.0)


def within_shares(found: Estimate, differences: Iterable[float]) -> Estimate:
    """Return an estimate from differences of shares, with an interval between -1 and 1.

    It is unchanged if a number cannot be a share, in spite of the name of its metric.
    """
    return found.within(-1.0, 1.0) if all(abs(each) <= 1 for each in differences) else found


def is_bound(unit: str, metric: str = "") -> bool:
    """Return True if a number of that unit depends on the machine: times, rates, memory."""
    if metric == STATE_BYTES:
        return False
    return unit in _BOUND_UNITS or unit.endswith(("/s", "_per_second"))


def all_series(about: About, results: pd.DataFrame) -> tuple[Series, ...]:
    """Return every series of a sweep, in the order of `about`'s tasks, probes and metrics.

    Series of the mixers alone are included, one per coordinate, and count towards coverage.
    Controls of an instrument (`bakeoff.suite.schema.CONTROLS`) are included, too, but do not count.

    A metric that depends on the machine has one series per environment. A metric that a variant has
    at several coordinates has one series per coordinate.
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
        if row["metric"] in (BASELINE_AGAIN, launched(BASELINE_AGAIN)):
            form = is_launched(row["metric"])
            place = (row["task"], row["probe"], reading.environment_id, reading.at, form)
            again.setdefault(place, []).append(reading)
    resolutions = {place: resolution_of(some) for place, some in again.items()}
    every = (series for key, by_variant in found.items() for series in _split(key, by_variant))
    known = (
        replace(series, num_examples=about.num_test_examples.get(series.task))
        if series.is_whole_score
        else series
        for series in every
    )
    return _with_forms([_with_resolution(series, resolutions) for series in known])


def _with_forms(every: Sequence[Series]) -> tuple[Series, ...]:
    """Return the series; those with a launched form in the same environment are of graphs."""
    forms = {_name(series) for series in every if is_launched(series.metric)}

    def is_graph(series: Series) -> bool:
        task, probe, metric, environment_id = _name(series)
        return (task, probe, launched(metric), environment_id) in forms

    return tuple(replace(each, is_graph=True) if is_graph(each) else each for each in every)


def _with_resolution(series: Series, resolutions: Mapping[_Place, float]) -> Series:
    """Return a series with its resolution; for times and rates the coarsest of its coordinates."""
    if not series.is_timed or not resolutions:
        return series
    places = {r.at for some in series.readings.values() for r in some}
    form = is_launched(series.metric)
    named = ((series.task, series.probe, series.environment_id, at, form) for at in sorted(places))
    return replace(series, resolution=max((resolutions.get(n, 0.0) for n in named), default=0.0))


def compared(measured: Sequence[Series]) -> tuple[Series, ...]:
    """Return the series of a comparison: whole scores, and other metrics with few coordinates.

    The other series have figures of their own (`bakeoff.reports.sections.axis_series`), and still
    count as coverage; numbers of sentences are shown there, with the parts. A task that would have
    no series left keeps each metric at its last coordinate.
    """
    left_out = {id(series) for series in left_out_of_comparison(measured)}
    kept = [s for s in measured if id(s) not in left_out and s.metric != NUM_SENTENCES]
    tasks = {series.task for series in kept}
    last = {_name(series): series for series in measured if series.task not in tasks}
    chosen = {id(series) for series in (*kept, *last.values())}
    return tuple(series for series in measured if id(series) in chosen)


def left_out_of_comparison(measured: Sequence[Series]) -> tuple[Series, ...]:
    """Return scores of parts or at other lengths, and metrics at more than a few coordinates."""
    places = Counter(_name(series) for series in measured)
    return tuple(series for series in measured if _is_along(series, places[_name(series)]))


def _name(series: Series) -> tuple[str, str, str, str]:
    return series.task, series.probe, series.metric, series.environment_id


def _is_along(series: Series, num_places: int) -> bool:
    """Return True if a series is one of many along an axis, such as scores at other lengths."""
    if series.is_score or series.probe == WRITTEN_SCORES:
        return bool(series.at)
    is_alone = series.task == MIXER_ALONE or series.is_bound_to_environment
    return not is_alone and num_places > MOST_COLUMNS


def num_expected(series: Series, about: About) -> int:
    """Return how many readings each variant should have.

    For a metric of trained models it is the planned number of seeds, for other metrics the largest
    number of any variant; a variant with more readings raises it. A search for a learning rate
    stops when scores get worse, so its other metrics are not expected. Only variants that train for
    the seconds of the baseline have a number of steps that is found, so none is expected.
    """
    is_of_a_search = series.probe == LEARNING_RATE and series.metric != LEARNING_RATE
    if is_of_a_search or series.metric == TRAINING_STEPS:
        return 0
    is_of_seeds = series.is_score or (not series.is_timed and series.num_seeds > 1)
    return max(about.num_seeds if is_of_seeds else 1, series.num_seen)


def never_searched(measured: Iterable[Series]) -> set[tuple[str, str, str]]:
    """Return (task, probe, variant) of learning-rate searches whose scores were all skipped."""
    return {
        (series.task, LEARNING_RATE, variant)
        for series in measured
        if series.is_score
        for variant, readings in series.readings.items()
        if readings and all(reading.status is Status.SKIPPED for reading in readings)
    }


def advantages(series: Series, a: str, b: str) -> tuple[float, ...]:
    """Return how much better `a` is than `b`, seed by seed; a diverged seed ranks below any score.

    So an advantage is infinite if one of the two diverged, and zero if both did.
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
    """Yield one series per machine.

    Readings without a number are included for variants that have no other reading on the machine.
    """
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
    places = list(dict.fromkeys(r.at for some in series.readings.values() for r in some))
    one_each = all(len({r.at for r in some}) <= 1 for some in series.readings.values())
    if one_each:
        at = places[0] if len(places) == 1 else ""
        yield _one_a_seed(replace(series, at=at))
        return
    for at in sorted(places, key=_by_number):
        there = {
            variant: tuple(r for r in some if r.at == at)
            for variant, some in series.readings.items()
        }
        yield _one_a_seed(replace(series, at=at, readings=there))


def _by_number(at: str) -> tuple[int, str, float, str]:
    """Return a key that sorts coordinates by number: ``length=64`` before ``length=128``."""
    named = coordinates(at)
    numbers = (number(value) for value in named.values())
    first = next((value for value in numbers if value is not None), math.inf)
    return len(named), next(iter(named), ""), first, at


def _one_a_seed(series: Series) -> Series:
    """Keep one reading per seed: an ok one if there is any, then the first by environment."""
    readings = {v: first_of_seeds(r, lambda r: not r.is_ok) for v, r in series.readings.items()}
    return replace(series, readings=readings)


def floors_of(about: About, series: Series) -> tuple[str, ...]:
    """Return the labels of the floors of a series; only the whole score of a task has floors.

    A value of a curve at some step is not such a score, though a table may show it as one.
    """
    scored = {spec.name for spec in about.metrics.get(series.task, {}).get(FLOORS, ())}
    is_theirs = series.is_whole_score and series.metric in scored
    return about.floors.get(series.task, ()) if is_theirs else ()


def beside_scores(measured: Iterable[Series]) -> tuple[Series, ...]:
    """Return the series, with the readings of floors added to their task's score."""
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
    """Return the series of variants, with floors beside scores and without controls."""
    return beside_scores(series for series in measured if series.metric not in CONTROLS)
