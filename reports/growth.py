"""How does one metric of the mixers alone grow along one axis, in one environment?

Times, rates and memory are split by environment, and so is all that an instrument says of itself;
counts (FLOPs, path lengths) are the same everywhere and stand once.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, get_args

import pandas as pd

from reports.results.readings import Reading, is_noisy
from reports.results.series import is_bound, reading_of
from suite.schema import CONTROLS, MIXER_ALONE, About, Status

Axis = Literal["length", "dim"]
_AXES: tuple[Axis, ...] = get_args(Axis)
_COORDINATE = re.compile(rf"({'|'.join(_AXES)})=([0-9]+)")
_RANK = {Status.OK: 0, Status.NOISY: 1}

_At = Mapping[str, Mapping[int, tuple[Reading, ...]]]
_Key = tuple[str, str, Axis]  # metric, unit, axis


@dataclass(frozen=True, kw_only=True)
class Growth:
    """One metric of every variant, at every place of one axis.

    Attributes:
        metric: Its name, as ``forward_seconds``.
        unit: Of the values.
        axis: ``length`` in tokens, or ``dim``, the width.
        environment_id: Where it was measured, if that moves the number; else empty.
        readings: Variant -> place -> one reading a process; a single one for counts and memory.
        places: Every coordinate at which any variant has a reading, ascending.
    """

    metric: str
    unit: str
    axis: Axis
    environment_id: str
    readings: _At
    places: tuple[int, ...]

    @property
    def variants(self) -> tuple[str, ...]:
        """Those with a reading, in the order of the ablation."""
        return tuple(self.readings)

    def of(self, variant: str, place: int) -> tuple[Reading, ...]:
        """The readings there, in the order of processes; empty where there are none."""
        return self.readings.get(variant, {}).get(place, ())

    def values(self, variant: str, place: int) -> dict[int, float]:
        """Seed -> value, of the readings that are ok or noisy and have a number."""
        return {r.seed: r.value for r in self.of(variant, place) if _is_usable(r)}

    def is_noisy(self, variant: str, place: int) -> bool:
        """Whether most processes there did not meet their stopping criterion."""
        return is_noisy(self.of(variant, place))

    def point(self, variant: str, place: int) -> float | None:
        """Median over processes; None where there is no number."""
        values = self.values(variant, place).values()
        return statistics.median(values) if values else None

    def measured(self, variant: str) -> tuple[int, ...]:
        """Places at which the variant has a number, ascending."""
        return tuple(place for place in self.places if self.values(variant, place))


def growths(about: About, results: pd.DataFrame) -> tuple[Growth, ...]:
    """Every growth of the mixers alone, controls included; by metric in the order of the rows.

    Args:
        about: Gives the order of the variants.
        results: Columns as `suite.schema.RESULT_COLUMNS`; rows of tasks are left out.
    """
    found: dict[_Key, dict[str, dict[int, list[Reading]]]] = {}
    alone = results[results["task"] == MIXER_ALONE]
    for row in alone.to_dict("records"):
        where = _COORDINATE.fullmatch(str(row["at"]))
        if where is None:
            continue
        axis, place = _axis(where[1]), int(where[2])
        by_variant = found.setdefault((row["metric"], row["unit"], axis), {})
        by_variant.setdefault(row["variant"], {}).setdefault(place, []).append(reading_of(row))
    return tuple(
        growth for key, by_variant in found.items() for growth in _split(about, key, by_variant)
    )


def find(
    among: Iterable[Growth], metric: str, axis: Axis = "length", environment_id: str = ""
) -> Growth | None:
    """The growth of that name; None where there is none.

    Args:
        among: As `growths` gives them.
        metric: Its name.
        axis: Along lengths, or along widths.
        environment_id: Where measured; empty takes the first. Counts belong to every environment.
    """
    for growth in among:
        is_there = not environment_id or growth.environment_id in ("", environment_id)
        if (growth.metric, growth.axis) == (metric, axis) and is_there:
            return growth
    return None


def environments(among: Iterable[Growth]) -> tuple[str, ...]:
    """The ids of all environments that something was measured in, sorted."""
    return tuple(sorted({growth.environment_id for growth in among} - {""}))


def _axis(name: str) -> Axis:
    return next(axis for axis in _AXES if axis == name)


def _is_usable(reading: Reading) -> bool:
    return reading.has_number and reading.status in _RANK


def _split(
    about: About, key: _Key, by_variant: Mapping[str, Mapping[int, list[Reading]]]
) -> Iterator[Growth]:
    """One growth per environment where that moves the number; else one."""
    metric, unit, axis = key
    every = [r for at in by_variant.values() for some in at.values() for r in some]
    is_local = is_bound(unit) or metric in CONTROLS
    ids = sorted({r.environment_id for r in every if r.has_number}) if is_local else []
    order = [v for v in about.variants if v in by_variant]
    for environment_id in ids or [""]:
        readings = {
            variant: {
                place: _one_a_seed(_there(some, environment_id))
                for place, some in sorted(by_variant[variant].items())
            }
            for variant in order
        }
        yield Growth(
            metric=metric,
            unit=unit,
            axis=axis,
            environment_id=environment_id,
            readings=readings,
            places=tuple(sorted({place for at in readings.values() for place in at})),
        )


def _there(some: list[Reading], environment_id: str) -> list[Reading]:
    """Those of the environment; what never got a number tells its story where nothing else does."""
    if not environment_id:
        return some
    here = [reading for reading in some if reading.environment_id == environment_id]
    return here or [reading for reading in some if not reading.has_number]


def _one_a_seed(some: Iterable[Reading]) -> tuple[Reading, ...]:
    """The best reading where a seed has several, then the first by environment."""
    by_seed: dict[int, Reading] = {}
    for reading in sorted(some, key=lambda r: (r.seed, _RANK.get(r.status, 2), r.environment_id)):
        by_seed.setdefault(reading.seed, reading)
    return tuple(by_seed.values())
