"""Which numbers of two selections belong side by side? Same place, same seed, same environment.

A place is one entry of one table: a metric of a variant, on a task, at a coordinate. What depends
on the machine is put side by side environment by environment; only where the two have none in
common do numbers of two machines meet, and then whoever judges them must say so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pandas as pd

from reports.results.readings import Reading
from reports.results.series import is_bound, reading_of
from suite.schema import CONTROLS, About, Better

_Row = Mapping[Any, Any]  # a row of results: columns as `suite.schema.RESULT_COLUMNS`


@dataclass(frozen=True, eq=False)
class Side:
    """One of the two selections: rows of one ablation at one scale.

    Attributes:
        name: As in commands and file names: a folder, a commit, an environment's id.
        title: As a reader is told: ``commit 423dc0fcabaf``.
        about: What is said of all rows of its store.
        results: The rows that are selected; columns as `suite.schema.RESULT_COLUMNS`.
    """

    name: str
    title: str
    about: About
    results: pd.DataFrame


@dataclass(frozen=True, kw_only=True)
class Place:
    """What a number is of."""

    task: str
    variant: str
    probe: str
    metric: str
    at: str
    unit: str
    better: Better

    @property
    def is_bound_to_environment(self) -> bool:
        """Whether it depends on the machine: times, rates, memory."""
        return is_bound(self.unit)


@dataclass(frozen=True, kw_only=True)
class Held:
    """What one side has at a place: one reading a seed, in the order of seeds.

    Attributes:
        environment_id: Of numbers that depend on it; else empty.
        device: Likewise.
        trial_ids: Seed -> the trial that the reading comes from.
        commits: That the readings were made at.
        environments: That they were made in, also where that moves no number.
    """

    readings: tuple[Reading, ...]
    environment_id: str = ""
    device: str = ""
    trial_ids: Mapping[int, str]
    commits: frozenset[str]
    environments: frozenset[str]

    @cached_property
    def values(self) -> dict[int, float]:
        """Seed -> value, of the readings that are ok or noisy and have a number."""
        return {r.seed: r.value for r in self.readings if r.is_ok or r.is_noisy_number}

    @property
    def seeds(self) -> frozenset[int]:
        """Of all readings, those without a number too."""
        return frozenset(reading.seed for reading in self.readings)


@dataclass(frozen=True, kw_only=True)
class Pair:
    """The two sides of one place."""

    place: Place
    a: Held
    b: Held


@dataclass(frozen=True, kw_only=True)
class OneSided:
    """What only one side has.

    Attributes:
        is_a: Whether that is A.
        device: The device that only this side was measured on; empty where all of the place is
            missing from the other.
    """

    place: Place
    is_a: bool
    device: str = ""


@dataclass(frozen=True, kw_only=True)
class Pairing:
    """Everything of both sides, each number once."""

    pairs: tuple[Pair, ...]
    one_sided: tuple[OneSided, ...]


def paired(a: Side, b: Side) -> Pairing:
    """Put two selections side by side; what an instrument says of itself is left out.

    The order is that of A's tasks and variants, whatever the order of the rows.
    """
    of_a, of_b = _by_place(a.results), _by_place(b.results)
    pairs: list[Pair] = []
    one_sided: list[OneSided] = []
    for place in sorted({*of_a, *of_b}, key=_order(a.about, b.about)):
        rows_a, rows_b = of_a.get(place, []), of_b.get(place, [])
        if not rows_a or not rows_b:
            one_sided.append(OneSided(place=place, is_a=bool(rows_a)))
            continue
        pairs.extend(_pairs(place, rows_a, rows_b))
        one_sided.extend(_elsewhere(place, rows_a, rows_b))
    return Pairing(pairs=tuple(pairs), one_sided=tuple(one_sided))


def _by_place(results: pd.DataFrame) -> dict[Place, list[_Row]]:
    found: dict[Place, list[_Row]] = {}
    for row in results[~results["metric"].isin(list(CONTROLS))].to_dict("records"):
        place = Place(
            task=row["task"], variant=row["variant"], probe=row["probe"], metric=row["metric"],
            at=row["at"], unit=row["unit"], better=row["better"],
        )  # fmt: skip
        found.setdefault(place, []).append(row)
    return found


def _order(a: About, b: About) -> Any:
    tasks = {name: index for index, name in enumerate(dict.fromkeys((*a.tasks, *b.tasks)))}
    variants = {name: i for i, name in enumerate(dict.fromkeys((*a.labels, *b.labels)))}

    def key(place: Place) -> tuple[Any, ...]:
        coordinate = (len(place.at), place.at)  # length=64 before length=128
        kind = (place.probe, place.metric, place.unit, place.better)
        return tasks[place.task], variants[place.variant], *kind, coordinate

    return key


def _pairs(place: Place, a: Sequence[_Row], b: Sequence[_Row]) -> Iterator[Pair]:
    if not place.is_bound_to_environment:
        shared = _environments(a) & _environments(b)
        yield Pair(place=place, a=_held(a, shared), b=_held(b, shared))
        return
    common = sorted(_measured_in(a) & _measured_in(b))
    for one, other in [(name, name) for name in common] or [(_main(a), _main(b))]:
        yield Pair(place=place, a=_held_in(a, one), b=_held_in(b, other))


def _elsewhere(place: Place, a: Sequence[_Row], b: Sequence[_Row]) -> Iterator[OneSided]:
    """Environments that only one side has, where they stand beside nothing."""
    if not place.is_bound_to_environment:
        return
    common = _measured_in(a) & _measured_in(b)
    for rows, is_a in ((a, True), (b, False)):
        for name in sorted(_measured_in(rows) - (common or {_main(rows)})):
            yield OneSided(place=place, is_a=is_a, device=_device(rows, name))


def _environments(rows: Iterable[_Row]) -> frozenset[str]:
    return frozenset(row["environment_id"] for row in rows) - {""}


def _measured_in(rows: Iterable[_Row]) -> frozenset[str]:
    return _environments(row for row in rows if reading_of(row).has_number)


def _main(rows: Sequence[_Row]) -> str:
    """The environment with most numbers, then the first by its id; empty without any."""
    counts = Counter(row["environment_id"] for row in rows if reading_of(row).has_number)
    return min(counts, key=lambda name: (-counts[name], name), default="")


def _device(rows: Iterable[_Row], environment_id: str) -> str:
    names = {row["device"] for row in rows if row["environment_id"] == environment_id}
    return min(names - {""}, default="")


def _held_in(rows: Sequence[_Row], environment_id: str) -> Held:
    """Of that environment; what never got a number tells its story where nothing else does."""
    here = [row for row in rows if row["environment_id"] == environment_id]
    device = _device(rows, environment_id)
    return _held(here or rows, frozenset(), environment_id=environment_id, device=device)


def _held(rows: Iterable[_Row], preferred: frozenset[str], **where: str) -> Held:
    """One row a seed: one that is ok, of an environment that the other side has too."""

    def rank(row: _Row) -> tuple[Any, ...]:
        own = row["environment_id"]
        return row["seed"], not reading_of(row).is_ok, own not in preferred, own, row["trial_id"]

    by_seed: dict[int, _Row] = {}
    for row in sorted(rows, key=rank):
        by_seed.setdefault(row["seed"], row)
    return Held(
        readings=tuple(map(reading_of, by_seed.values())),
        trial_ids={seed: row["trial_id"] for seed, row in by_seed.items()},
        commits=frozenset(row["commit"] for row in by_seed.values()) - {""},
        environments=_environments(by_seed.values()),
        **where,
    )
