"""Collect one metric of the mixers alone along lengths or widths, in one environment.

Times, rates, memory and the controls of an instrument are split by environment. Counts (FLOPs, path
lengths) are the same in every environment and appear once.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import pandas as pd

from bakeoff.reports.results.axis_values import values_of
from bakeoff.reports.results.reading import (
    Reading,
    coordinates,
    first_of_seeds,
    is_noisy,
    reading_of,
    resolution_of,
)
from bakeoff.reports.results.series import is_bound
from bakeoff.suite.schema import (
    BASELINE_AGAIN,
    CONTROLS,
    MIXER_ALONE,
    About,
    Status,
    is_launched,
    launched,
)

Axis = Literal["length", "dim", "batch", "threads"]
AXIS_SYMBOLS: Mapping[Axis, str] = {"length": "n", "dim": "d"}  # the axes of theory's formulas
_AXES: Mapping[str, Axis] = {
    "length": "length",
    "dim": "dim",
    "batch": "batch",
    "threads": "threads",
}


def is_written_out(about: About, variant: str) -> bool:
    """Return True if the variant is attention that materialises its matrix."""
    return values_of(about, variant).get("kernel") == "materialised"


_RANK = {Status.OK: 0, Status.NOISY: 1}

_Key = tuple[str, str, str]  # metric, unit, axis
_ByVariant = Mapping[str, Mapping[int, Sequence[Reading]]]


@dataclass(frozen=True, kw_only=True)
class Growth:
    """One metric of every variant, at every place of one axis.

    Attributes:
        metric: Its name, as ``forward_seconds``.
        unit: Unit of the values.
        axis: ``length`` in tokens, ``dim`` (width), ``batch`` (sequences at once) or ``threads``.
        environment_id: The environment of the measurements if the metric depends on it; else empty.
        readings: Variant -> place -> one reading per process; a single one for counts and memory.
        places: Every coordinate at which any variant has a reading, ascending.
        resolutions: For times, place -> the log ratio that the baseline showed against itself; see
            `bakeoff.reports.results.reading.resolution_of`.
    """

    metric: str
    unit: str
    axis: Axis
    environment_id: str
    readings: _ByVariant
    places: tuple[int, ...]
    resolutions: Mapping[int, float] = field(default_factory=dict)

    @property
    def variants(self) -> tuple[str, ...]:
        """The variants with a reading, in the order of the ablation."""
        return tuple(self.readings)

    def of(self, variant: str, place: int) -> Sequence[Reading]:
        """Return the readings at a place, in the order of processes; empty if there are none."""
        return self.readings.get(variant, {}).get(place, ())

    def values(self, variant: str, place: int) -> dict[int, float]:
        """Return seed -> value, for readings that are ok or noisy and have a number."""
        return {r.seed: r.value for r in self.of(variant, place) if r.is_usable}

    def is_noisy(self, variant: str, place: int) -> bool:
        """Return True if most processes at a place missed their stopping criterion."""
        return is_noisy(self.of(variant, place))

    def resolution(self, place: int) -> float:
        """Return the log of the smallest ratio resolved at a place; 0 if it is not known."""
        return self.resolutions.get(place, 0.0)

    def point(self, variant: str, place: int) -> float | None:
        """Return the median over processes, or None if there is no number."""
        values = self.values(variant, place).values()
        return statistics.median(values) if values else None

    def measured(self, variant: str) -> tuple[int, ...]:
        """Return the places at which the variant has a number, ascending."""
        return tuple(place for place in self.places if self.values(variant, place))


def growths(about: About, results: pd.DataFrame) -> tuple[Growth, ...]:
    """Return the growths of the mixers alone, with controls; metrics are in the order of the rows.

    Args:
        about: The description of the sweep; it gives the order of the variants.
        results: Columns as `bakeoff.suite.schema.RESULT_COLUMNS`; rows of tasks are left out.
    """
    found: dict[_Key, dict[str, dict[int, list[Reading]]]] = {}
    for row in results[results["task"] == MIXER_ALONE].to_dict("records"):
        match list(coordinates(row["at"]).items()):
            case [(axis, int(place))] if axis in _AXES:
                by_variant = found.setdefault((row["metric"], row["unit"], axis), {})
                by_place = by_variant.setdefault(row["variant"], {})
                by_place.setdefault(place, []).append(reading_of(row))
    every = [growth for key, some in found.items() for growth in _split(about, key, some)]
    return tuple(_with_resolutions(growth, every) for growth in every)


def _with_resolutions(growth: Growth, among: Iterable[Growth]) -> Growth:
    """Return the growth with its resolutions; growths other than times have none.

    They come from the baseline timed against itself, along the same axis in the same environment.
    """
    control = launched(BASELINE_AGAIN) if is_launched(growth.metric) else BASELINE_AGAIN
    again = find(among, control, growth.axis, growth.environment_id)
    if growth.unit != "s" or again is None:
        return growth
    of_place = {p: [r for v in again.variants for r in again.of(v, p)] for p in again.places}
    return replace(
        growth, resolutions={place: resolution_of(some) for place, some in of_place.items()}
    )


def find(
    among: Iterable[Growth], metric: str, axis: Axis = "length", environment_id: str = ""
) -> Growth | None:
    """Return the first growth of a metric, or None if there is none.

    Args:
        among: The growths, as returned by `growths`.
        metric: The name of the metric.
        axis: The axis of the growth.
        environment_id: The environment of the measurements; empty for any. Counts match every one.
    """
    there = measured_in(among, environment_id) if environment_id else among
    return next((g for g in there if (g.metric, g.axis) == (metric, axis)), None)


def measured_in(among: Iterable[Growth], environment_id: str) -> tuple[Growth, ...]:
    """Return the growths of one environment, including the counts, which belong to every one."""
    return tuple(growth for growth in among if growth.environment_id in ("", environment_id))


def place_label(axis: Axis, place: int) -> str:
    """Return a place with its unit: ``1,024 tokens``, ``width 64``, ``batch 8``, ``2 threads``."""
    words = {"length": "{:,} tokens", "dim": "width {:,}", "batch": "batch {:,}"}
    return words.get(axis, f"{{:,}} thread{'' if place == 1 else 's'}").format(place)


def _split(about: About, key: _Key, by_variant: _ByVariant) -> Iterator[Growth]:
    """Yield one growth per environment if the metric depends on it; else one."""
    metric, unit, name = key
    every = [r for at in by_variant.values() for some in at.values() for r in some]
    is_local = is_bound(unit) or metric in CONTROLS
    ids = sorted({r.environment_id for r in every if r.has_number}) if is_local else []
    for environment_id in ids or [""]:
        readings = {
            variant: {
                place: _one_per_seed(some, environment_id)
                for place, some in sorted(by_variant[variant].items())
            }
            for variant in about.variants
            if variant in by_variant
        }
        yield Growth(
            metric=metric,
            unit=unit,
            axis=_AXES[name],
            environment_id=environment_id,
            readings=readings,
            places=tuple(sorted({place for at in readings.values() for place in at})),
        )


def _one_per_seed(some: Sequence[Reading], environment_id: str) -> tuple[Reading, ...]:
    """Return the best reading of each seed in the environment, then the first by environment.

    If an environment has none, readings without a number are kept: they explain why there is none.
    """
    here = [r for r in some if environment_id in ("", r.environment_id)]
    kept = here or [r for r in some if not r.has_number]
    return first_of_seeds(kept, lambda reading: _RANK.get(reading.status, 2))
