"""What is recorded of two selections, besides their numbers, and is not the same?"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from reports.sides import Side
from suite.schema import Provenance

_NOTHING = "none"


@dataclass(frozen=True, kw_only=True)
class Fact:
    """One thing, on either side, as it is printed."""

    name: str
    a: str
    b: str


def differing_facts(a: Side, b: Side) -> tuple[Fact, ...]:
    """Commits, environments, settings, model, data, claim and seeds, where the two differ."""
    of_a, of_b = dict(_facts(a)), dict(_facts(b))
    return tuple(
        Fact(name=name, a=of_a.get(name, _NOTHING), b=of_b.get(name, _NOTHING))
        for name in dict.fromkeys((*of_a, *of_b))
        if of_a.get(name, _NOTHING) != of_b.get(name, _NOTHING)
    )


def _facts(side: Side) -> Iterator[tuple[str, str]]:
    about = side.about
    yield "commit", _joined(set(side.results["commit"]))
    yield from _of_environments(side)
    yield "seeds planned", str(about.num_seeds)
    yield from _of_mapping("setting", about.settings)
    yield from _of_mapping("baseline model", about.model)
    yield "baseline", about.baseline
    yield from _of_mapping("data", {task: data.sha256 for task, data in about.data_sets.items()})
    claim = dataclasses.asdict(about.claim) if about.claim else {}
    yield from _of_mapping("claim", claim)


def _of_environments(side: Side) -> Iterator[tuple[str, str]]:
    """Of those in which the selected rows were measured, and of no others."""
    ids = sorted(set(side.results["environment_id"]) - {""})
    yield "environment", _joined(ids)
    yield "device", _joined(set(side.results["device"]))
    made = [p for name in ids if (p := side.about.provenances.get(name)) is not None]
    yield "threads", _joined(str(provenance.num_threads) for provenance in made)
    for kind in ("versions", "conditions"):
        names = sorted({name for provenance in made for name in _mapping(provenance, kind)})
        for name in names:
            values = (_mapping(provenance, kind).get(name, _NOTHING) for provenance in made)
            yield (f"{name} version" if kind == "versions" else name), _joined(values)


def _mapping(provenance: Provenance, kind: str) -> Mapping[str, str]:
    return provenance.versions if kind == "versions" else provenance.conditions


def _of_mapping(kind: str, mapping: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    for name, value in mapping.items():
        yield f"{kind}: {name}", str(value)


def _joined(values: Iterable[str]) -> str:
    return ", ".join(sorted(set(values) - {""})) or _NOTHING
