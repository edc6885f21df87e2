"""Check what an ablation claims against what it measures, and add the floors that judge it."""

from __future__ import annotations

from collections.abc import Sequence

from suite.errors import unknown_name
from suite.planning.scaling_laws import with_held_out_sides
from suite.planning.variants import Baseline, Variant
from suite.probes.probe import probe
from suite.schema import FLOORS, QUALITY, Cell, ClaimSpec, rests_on
from suite.spec import Ablation, Claim, SpecError
from suite.tasks.registry import TASKS, task_class


def with_floors(ablation: Ablation) -> Ablation:
    """With the floors of its tasks where a score is claimed: it is judged only beyond them."""
    claim, probes = ablation.claim, ablation.probes
    if claim is None or FLOORS in probes or QUALITY not in probes:
        return ablation
    varied = (axis.values for axis in ablation.axes if axis.name == "task")
    tasks = {*ablation.tasks, *(str(value) for values in varied for value in values)}
    known = tasks & TASKS.keys()  # the others are refused with the axis that names them
    if not any(rests_on(claim.metric, task_class(task).metric.name) for task in known):
        return ablation
    return ablation.model_copy(update={"probes": (*probes, FLOORS)})


def checked_claim(
    baseline: Baseline, reference: Variant, variants: tuple[Variant, ...], cells: list[Cell]
) -> ClaimSpec | None:
    """The ablation's claim with its task filled in; refuse one that this plan cannot test.

    Raises:
        SpecError: for an unknown variant, metric, task or coordinate, or a side that cannot run.
    """
    claim = with_held_out_sides(baseline.ablation)
    if claim is None:
        return None
    _refuse_foreign_sides(claim, baseline, reference, [variant.label for variant in variants])
    metrics = {metric.name for cell in cells for metric in cell.metrics}
    if claim.metric not in metrics:
        raise SpecError(f"the claim: {unknown_name('metric', claim.metric, metrics)}")
    measuring = [cell for cell in cells if claim.metric in {m.name for m in cell.metrics}]
    tasks = {cell.task for cell in measuring}
    if claim.task is not None and claim.task not in tasks:
        raise SpecError(f"the claim: {unknown_name('task', claim.task, tasks)}")
    task = claim.task or measuring[0].task  # without one, the first with the metric
    on_task = [cell for cell in measuring if cell.task == task]
    _refuse_foreign_place(claim, on_task)
    _refuse_impossible_sides(claim, on_task)
    _refuse_check_of_what_varies(claim, on_task)
    return ClaimSpec(
        statement=claim.statement, metric=claim.metric, a=claim.a, b=claim.b, by=float(claim.by),
        source=claim.source, task=task, at=claim.at,
        published=claim.published, is_check=claim.is_check,
    )  # fmt: skip


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
            raise SpecError(
                f"the claim: {unknown_name('variant', label, labels)} `--set claim=none` runs "
                "without the claim."
            )


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


def _refuse_check_of_what_varies(claim: Claim, cells: Sequence[Cell]) -> None:
    """Nothing that is trained or timed holds by construction."""
    units = {m.unit for cell in cells for m in cell.metrics if m.name == claim.metric}
    if claim.is_check and ("s" in units or any(probe(cell.probe).trains for cell in cells)):
        raise SpecError(
            f"the claim: is_check=True is for what holds by construction, as bytes and FLOPs do; "
            f"{claim.metric} is {'timed' if 's' in units else 'of trained models'}."
        )
