"""Check that an ablation's claim compares two variants by what the ablation measures of both."""

from __future__ import annotations

from collections.abc import Sequence

from suite.errors import unknown_name
from suite.planning.variants import Baseline, Variant
from suite.schema import Cell, ClaimSpec
from suite.spec import Claim, SpecError


def refuse_foreign_claim(
    baseline: Baseline, reference: Variant, variants: tuple[Variant, ...], cells: list[Cell]
) -> None:
    """Refuse a claim that this plan cannot test.

    Raises:
        SpecError: for an unknown variant, metric, task or coordinate, or a side that cannot run.
    """
    claim = baseline.ablation.claim
    if claim is None:
        return
    _refuse_foreign_sides(claim, baseline, reference, [variant.label for variant in variants])
    metrics = {metric.name for cell in cells for metric in cell.metrics}
    if claim.metric not in metrics:
        raise SpecError(f"the claim: {unknown_name('metric', claim.metric, metrics)}")
    measuring = _measuring(claim, cells)
    tasks = {cell.task for cell in measuring}
    if claim.task is not None and claim.task not in tasks:
        raise SpecError(f"the claim: {unknown_name('task', claim.task, tasks)}")
    on_task = [cell for cell in measuring if cell.task == _task_of(claim, measuring)]
    _refuse_foreign_place(claim, on_task)
    _refuse_impossible_sides(claim, on_task)


def claim_spec(claim: Claim | None, cells: list[Cell]) -> ClaimSpec | None:
    """The claim with its task made plain."""
    if claim is None:
        return None
    return ClaimSpec(
        statement=claim.statement, metric=claim.metric, a=claim.a, b=claim.b, by=float(claim.by),
        source=claim.source, task=_task_of(claim, _measuring(claim, cells)), at=claim.at,
        published=claim.published,
    )  # fmt: skip


def _measuring(claim: Claim, cells: Sequence[Cell]) -> list[Cell]:
    return [cell for cell in cells if claim.metric in {metric.name for metric in cell.metrics}]


def _task_of(claim: Claim, measuring: Sequence[Cell]) -> str:
    """The claim's, or else the first one whose metric it is about."""
    return claim.task or measuring[0].task


def _refuse_foreign_sides(
    claim: Claim, baseline: Baseline, reference: Variant, labels: Sequence[str]
) -> None:
    if claim.a == claim.b:
        raise SpecError(f"the claim: a and b are both {claim.a!r}; they must be two variants.")
    for label in (claim.a, claim.b):
        if label in {baseline.label(axis.name) for axis in baseline.ablation.axes} - set(labels):
            raise SpecError(
                f"the claim: {label!r} is what the baseline has, and with several axes the "
                f"baseline's variant is called {reference.label!r}."
            )
        if label not in labels:
            raise SpecError(f"the claim: {unknown_name('variant', label, labels)}")


def _refuse_foreign_place(claim: Claim, cells: Sequence[Cell]) -> None:
    metrics = [m for cell in cells for m in cell.metrics if m.name == claim.metric]
    places = dict.fromkeys([*(cell.at for cell in cells), *(metric.at for metric in metrics)])
    if claim.at not in places:
        allowed = ", ".join(filter(None, places)) or "only at='', since nothing is swept there"
        raise SpecError(
            f"the claim: at={claim.at!r} is not a coordinate of {claim.metric}; allowed: {allowed}."
        )


def _refuse_impossible_sides(claim: Claim, cells: Sequence[Cell]) -> None:
    """A side whose every cell is skipped could never be compared."""
    for label in (claim.a, claim.b):
        reasons = [
            cell.reason
            for cell in cells
            if cell.variant == label and claim.at in (cell.at, *(m.at for m in cell.metrics))
        ]
        if reasons and all(reasons):
            raise SpecError(
                f"the claim: {label!r} cannot be measured on {cells[0].task}: {reasons[0]}."
            )
