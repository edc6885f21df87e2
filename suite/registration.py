"""Was a claim stated before its results? What fixes a test, hashed; and what has changed since.

A claim that is worded, or a seed that is added, after the results were seen tells less than its
interval says: with enough looks some claim will hold (Simmons et al. 2011, "False-Positive
Psychology"; for seeds, optional stopping). Nobody is kept from it; the report says so.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

from suite.schema import About, Cell, ClaimSpec, Plan, Registration, canonical_json

ALPHA = 0.05  # of the test: one false verdict in twenty, where there is nothing to find
_CITED = frozenset({"source", "published"})  # what others found is no part of the test
# Where a trial runs. Times of different machines and thread counts are never compared anyway.
_PLACE = frozenset({"cpus", "threads", "gpus", "gpu_model", "memory_gib"})


@dataclass(frozen=True, kw_only=True)
class Statement:
    """A test, as it was once stated for an ablation at a scale.

    Attributes:
        content: Canonical JSON of all that fixes it.
        num_pairs: Seeds of which both sides of the claim had a result then; None is not known.
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


def num_pairs_known(plan: Plan, has_result: Callable[[str], bool]) -> int:
    """Seeds of which both sides of the claim have a result.

    Args:
        plan: With the claim.
        has_result: Whether a trial has an ok one, whichever ablation it was run for.
    """
    claim = plan.about.claim
    if claim is None:
        return 0
    of_a, of_b = (
        {cell.seed for cell in _side(plan, claim, variant) if has_result(cell.trial_id)}
        for variant in (claim.a, claim.b)
    )
    return len(of_a & of_b)


def _side(plan: Plan, claim: ClaimSpec, variant: str) -> Iterator[Cell]:
    for cell in plan.cells:
        is_there = (cell.variant, cell.task, cell.at) == (variant, claim.task, claim.at)
        if is_there and any(metric.name == claim.metric for metric in cell.metrics):
            yield cell


def registration_of(about: About, statements: Sequence[Statement]) -> Registration | None:
    """Of the claim as it stands now.

    The first time that this very test was stated counts, whatever was stated in between.

    Args:
        about: What the report is about.
        statements: Every one that is known of this ablation and scale.

    Returns:
        None where there is no claim, or where nobody knows when it was stated.
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
            yield f"{name} {_said(old)} -> {_said(new)}{_remark(name, current)}"


def _remark(name: str, current: Statement) -> str:
    return ", after results were seen" if name == "seeds" and current.num_pairs else ""


def _flat(content: Mapping[str, object]) -> dict[str, object]:
    """The claim's fields first, then seeds and settings, by name."""
    found: dict[str, object] = {}
    for name in ("claim", "seeds", "alpha", "settings"):
        value = content[name]
        found |= value if isinstance(value, dict) else {name: value}
    return found


def _said(value: object) -> str:
    if value is None or value == "":
        return "none"
    return f'"{value}"' if isinstance(value, str) and " " in value else str(value)
