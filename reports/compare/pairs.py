"""Pair the numbers of two selections by metric, seed and environment.

Times, rates and memory depend on the machine and are paired environment by environment. Only where
the selections share no environment does a pair hold numbers of two machines; its
`environment_id` then differs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import pandas as pd

from reports.results.reading import Reading, reading_of
from reports.results.series import is_bound
from suite.schema import CONTROLS, About, Better

_Row = Mapping[Any, Any]  # a row of results: columns as `suite.schema.RESULT_COLUMNS`


@dataclass(frozen=True, eq=False)
class Selection:
    """Rows of one ablation at one scale: A or B of a comparison.

    Attributes:
        name: As in commands and file names: a folder, a commit, an environment's id.
        title: As on a page: ``commit 423dc0fcabaf``.
        about: Describes the rows of its store, also those not selected.
        results: The selected rows; columns as `suite.schema.RESULT_COLUMNS`.
        source: Place -> text of the user's files that they were made from; empty is unknown.
    """

    name: str
    title: str
    about: About
    results: pd.DataFrame
    source: Mapping[str, str] = field(default_factory=dict)


class MetricKey(NamedTuple):
    """One metric of one variant on one task, at one coordinate."""

    task: str
    variant: str
    probe: str
    metric: str
    at: str
    unit: str
    better: Better


@dataclass(frozen=True)
class MetricRows:
    """What one selection has of a metric.

    Attributes:
        by_seed: One row a seed, in the order of seeds.
        environment_id: Of a metric that depends on the machine; else empty.
    """

    by_seed: Mapping[int, _Row]
    environment_id: str = ""

    @cached_property
    def readings(self) -> tuple[Reading, ...]:
        """The measurements, those without a number too."""
        return tuple(map(reading_of, self.by_seed.values()))

    @cached_property
    def values(self) -> dict[int, float]:
        """Seed -> value, of the readings that are ok or noisy and have a number."""
        return {r.seed: r.value for r in self.readings if r.is_usable}

    @property
    def fates(self) -> str:
        """What became of the measurements, each fate once."""
        return ", ".join(dict.fromkeys(reading.fate for reading in self.readings))

    @property
    def device(self) -> str:
        """Of a metric that depends on the machine; else empty."""
        return min(self.distinct("device"), default="") if self.environment_id else ""

    def distinct(self, column: str) -> frozenset[str]:
        """The values of a column of text."""
        return frozenset(row[column] for row in self.by_seed.values()) - {""}


@dataclass(frozen=True)
class MetricPair:
    """What both selections have of a metric."""

    key: MetricKey
    a: MetricRows
    b: MetricRows

    @property
    def is_identical(self) -> bool:
        """Whether all seeds that have a number in both agree to the last digit."""
        a, b = self.a.values, self.b.values
        common = a.keys() & b.keys()
        return bool(common) and all(a[seed] == b[seed] for seed in common)

    @property
    def differs(self) -> tuple[str, ...]:
        """What is recorded and differs: ``trial``, ``commit``, ``environment``."""
        a, b = self.a.by_seed, self.b.by_seed
        is_different = {
            "trial": any(a[s]["trial_id"] != b[s]["trial_id"] for s in a.keys() & b.keys()),
            "commit": self.a.distinct("commit") != self.b.distinct("commit"),
            "environment": self.a.distinct("environment_id") != self.b.distinct("environment_id"),
        }
        return tuple(name for name, differs in is_different.items() if differs)


@dataclass(frozen=True)
class UnpairedMetric:
    """A metric, or one environment of it, that only one selection has.

    Attributes:
        selection: ``A`` or ``B``.
        device: The device that only this selection was measured on; empty where the other lacks the
            metric altogether.
    """

    key: MetricKey
    selection: str
    device: str = ""


def pair_metrics(a: Selection, b: Selection) -> Iterator[MetricPair | UnpairedMetric]:
    """Every metric of both selections once, without the instrument's controls.

    The order is that of A's tasks and variants, whatever the order of the rows.
    """
    of_a, of_b = _by_key(a.results), _by_key(b.results)
    for key in sorted({*of_a, *of_b}, key=_order(a.about, b.about)):
        if key not in of_a or key not in of_b:
            yield UnpairedMetric(key, "A" if key in of_a else "B")
        elif is_bound(key.unit, key.metric):
            yield from _pair_by_environment(key, of_a[key], of_b[key])
        else:
            shared = _environments(of_a[key]) & _environments(of_b[key])
            one, other = (MetricRows(_one_a_seed(rows[key], shared)) for rows in (of_a, of_b))
            yield MetricPair(key, one, other)


def _by_key(results: pd.DataFrame) -> dict[MetricKey, list[_Row]]:
    found: dict[MetricKey, list[_Row]] = {}
    for row in results[~results["metric"].isin(list(CONTROLS))].to_dict("records"):
        found.setdefault(MetricKey(*(row[name] for name in MetricKey._fields)), []).append(row)
    return found


def _order(a: About, b: About) -> Callable[[MetricKey], tuple[Any, ...]]:
    tasks = {name: i for i, name in enumerate(dict.fromkeys((*a.tasks, *b.tasks)))}
    variants = {name: i for i, name in enumerate(dict.fromkeys((*a.labels, *b.labels)))}

    def rank(key: MetricKey) -> tuple[Any, ...]:
        where = tasks[key.task], variants[key.variant]
        # length=64 before length=128
        return *where, key.probe, key.metric, key.unit, key.better, len(key.at), key.at

    return rank


def _pair_by_environment(
    key: MetricKey, a: Sequence[_Row], b: Sequence[_Row]
) -> Iterator[MetricPair | UnpairedMetric]:
    """A pair for each common environment, else one of the main ones; the others are unpaired."""
    in_a, in_b = _num_numbers(a), _num_numbers(b)
    common = sorted(in_a.keys() & in_b.keys())
    pairs = [(name, name) for name in common] or [(_main(in_a), _main(in_b))]
    for one, other in pairs:
        yield MetricPair(key, _measured_in(one, a), _measured_in(other, b))
    for selection, rows, names, index in (("A", a, in_a, 0), ("B", b, in_b, 1)):
        for name in sorted(names.keys() - {pair[index] for pair in pairs}):
            yield UnpairedMetric(key, selection, _measured_in(name, rows).device)


def _environments(rows: Iterable[_Row]) -> frozenset[str]:
    return frozenset(row["environment_id"] for row in rows) - {""}


def _num_numbers(rows: Iterable[_Row]) -> Counter[str]:
    """environment_id -> how many readings have a number there."""
    return Counter(row["environment_id"] for row in rows if reading_of(row).has_number)


def _main(num_numbers: Mapping[str, int]) -> str:
    """The environment with most numbers, then the first by its id; empty without any."""
    return min(num_numbers, key=lambda name: (-num_numbers[name], name), default="")


def _measured_in(environment_id: str, rows: Sequence[_Row]) -> MetricRows:
    """The rows of an environment; all, for their failures, where none of them has a number."""
    here = [row for row in rows if row["environment_id"] == environment_id]
    return MetricRows(_one_a_seed(here or rows), environment_id)


def _one_a_seed(rows: Iterable[_Row], shared: frozenset[str] = frozenset()) -> dict[int, _Row]:
    """For each seed a row that is ok, if possible of an environment that both selections have."""

    def rank(row: _Row) -> tuple[Any, ...]:
        own = row["environment_id"]
        return row["seed"], not reading_of(row).is_ok, own not in shared, own, row["trial_id"]

    found: dict[int, _Row] = {}
    for row in sorted(rows, key=rank):
        found.setdefault(row["seed"], row)
    return found
