"""Registers claims: what fixes a test, hashed, whether results were seen before, and changes since.

A claim that is worded, or a seed that is added, after results were seen tells less than its
interval says: with enough looks some claim will hold (Simmons et al. 2011, "False-Positive
Psychology"; for seeds, optional stopping). It is not forbidden; the report says so.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from models.model_spec import canonical_json
from suite.schema import About, Cell, ClaimSpec, Plan, Registration

ALPHA = 0.05  # of the test: one false verdict in twenty, where there is nothing to find
_CITED = frozenset({"source", "published"})  # what others found is no part of the test
# Where a trial runs. Times of different machines and thread counts are never compared anyway.
_PLACE = frozenset({"cpus", "threads", "gpus", "gpu_model", "memory_gib"})


@dataclass(frozen=True, kw_only=True)
class Statement:
    """A test, as it was once stated for an ablation at a scale.

    Attributes:
        content: Canonical JSON of all that fixes it.
        num_pairs: Seeds of which a side of the claim had a result then; None is unknown. The name
            is that of the journal's file, where it once meant both sides.
        stated_seconds: Since 1970, by the clock of the machine where it was stated.
    """

    content: str
    num_pairs: int | None
    stated_seconds: float

    @property
    def sha256(self) -> str:
        """Of the content, 64 hexadecimal digits."""
        return hashlib.sha256(self.content.encode()).hexdigest()


def content_of(about: About) -> str | None:
    """All that fixes the test of the claim, as canonical JSON; None where there is no claim."""
    if about.claim is None:
        return None
    claim = {name: value for name, value in asdict(about.claim).items() if name not in _CITED}
    settings = {name: value for name, value in about.settings.items() if name not in _PLACE}
    return canonical_json(
        {"alpha": ALPHA, "claim": claim, "seeds": about.num_seeds, "settings": settings}
    )


def num_seeds_seen(plan: Plan, has_result: Callable[[str], bool]) -> int:
    """Seeds of which the claim's result is known on either side: one side is a hint already.

    Args:
        plan: With the claim.
        has_result: Whether a trial has one, whichever ablation it was run for.
    """
    claim = plan.about.claim
    cells = _cells_of(claim, plan.cells) if claim else ()
    return len({cell.seed for cell in cells if has_result(cell.trial_id)})


def _cells_of(claim: ClaimSpec, cells: Iterable[Cell]) -> Iterator[Cell]:
    """Both sides; of a claim that names no coordinate, at each."""
    for cell in cells:
        is_side = cell.task == claim.task and cell.variant in (claim.a, claim.b)
        is_there = not claim.at or cell.at == claim.at
        if is_side and is_there and any(metric.name == claim.metric for metric in cell.metrics):
            yield cell


def registration_of(about: About, statements: Sequence[Statement]) -> Registration | None:
    """Of the claim as it stands now.

    The first time that this very test was stated counts, whatever was stated in between.

    Args:
        about: What the report is about.
        statements: Every one that is known of this ablation and scale.

    Returns:
        None where there is no claim, or where it is unknown when it was stated.
    """
    content = content_of(about)
    in_order = sorted(statements, key=lambda each: each.stated_seconds)
    current = next((each for each in in_order if each.content == content), None)
    if current is None or current.num_pairs is None:
        return None
    return Registration(
        sha256=current.sha256,
        num_pairs_before=current.num_pairs,
        changes=tuple(_changes(in_order[0], current)),
    )


def _changes(first: Statement, current: Statement) -> Iterator[str]:
    """As ``by 0.02 -> 0.01``."""
    before, now = (_flat(json.loads(each.content)) for each in (first, current))
    for name in dict.fromkeys((*before, *now)):
        old, new = before.get(name), now.get(name)
        if old != new:
            is_late = name == "seeds" and current.num_pairs
            remark = ", after results were seen" if is_late else ""
            yield f"{name} {_shown(old)} -> {_shown(new)}{remark}"


def _flat(content: Mapping[str, Any]) -> dict[str, Any]:
    """The claim's fields first, then seeds and settings, by name."""
    named: dict[str, Any] = {name: content[name] for name in ("seeds", "alpha")}
    return {**content["claim"], **named, **content["settings"]}


def _shown(value: object) -> str:
    if value is None or value == "":
        return "none"
    return f'"{value}"' if isinstance(value, str) and " " in value else str(value)
