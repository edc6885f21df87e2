"""Plan and results -> the rows of `results.parquet` and `curves.parquet`, in the plan's order.

A failure leaves a row under every metric that it owes; a cell without a result leaves none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from suite.schema import (
    About,
    Better,
    Cell,
    Measurement,
    MetricSpec,
    Plan,
    Point,
    Result,
    Specimen,
    Status,
)

Row = dict[str, object]
Results = Mapping[str, Sequence[Result]]  # by trial_id, one per environment

MAX_VARIANTS_SHOWN = 24  # of a task, with specimens: a report holds no more than a few


def by_trial(results: Iterable[Result]) -> Results:
    """The results of each trial."""
    found: dict[str, list[Result]] = {}
    for result in results:
        found.setdefault(result.trial_id, []).append(result)
    return found


def result_rows(plan: Plan, results: Results) -> Iterator[Row]:
    """One row a number; columns as `schema.RESULT_COLUMNS`."""
    for cell in plan.cells:
        if cell.reason:
            for metric in cell.metrics:
                yield _row(plan.about, cell, None, _missing(metric, Status.SKIPPED, cell.reason))
        for result in results.get(cell.trial_id, ()):
            for measurement in _measurements(cell, result):
                yield _row(plan.about, cell, result, measurement)


def curve_rows(plan: Plan, results: Results) -> Iterator[Row]:
    """One row a curve point; columns as `schema.CURVE_COLUMNS`."""
    for cell in plan.cells:
        for result in results.get(cell.trial_id, ()):
            for point in result.points:
                yield _curve_row(plan.about, cell, result, point)


def about_with_provenance(plan: Plan, results: Results) -> About:
    """What the report must say, with every environment that results came from, and specimens."""
    found = {
        result.provenance.environment_id: result.provenance
        for of_trial in results.values()
        for result in of_trial
    }
    return replace(
        plan.about, provenances=dict(sorted(found.items())), specimens=_specimens(plan, results)
    )


def _specimens(plan: Plan, results: Results) -> dict[str, dict[str, tuple[Specimen, ...]]]:
    """Task -> variant -> specimens of its first seed; the baseline is never left out."""
    found: dict[str, dict[str, tuple[Specimen, ...]]] = {}
    for cell in plan.cells:
        specimens = _of_cell(results.get(cell.trial_id, ())) if cell.seed == 0 else ()
        if specimens:
            found.setdefault(cell.task, {}).setdefault(cell.variant, specimens)
    return {task: _shown(of_task, plan.about.baseline) for task, of_task in found.items()}


def _of_cell(results: Sequence[Result]) -> tuple[Specimen, ...]:
    """Of several environments, one and always the same."""
    showing = [result for result in results if result.specimens]
    showing.sort(key=lambda result: result.provenance.environment_id)
    return showing[0].specimens if showing else ()


def _shown(
    of_task: Mapping[str, tuple[Specimen, ...]], baseline: str
) -> dict[str, tuple[Specimen, ...]]:
    first = list(of_task)[:MAX_VARIANTS_SHOWN]
    if baseline in of_task and baseline not in first:
        first[-1] = baseline
    return {variant: of_task[variant] for variant in first}


def _measurements(cell: Cell, result: Result) -> list[Measurement]:
    """What the result says about the cell's variant; what it owes where it failed."""
    if result.status is Status.OK:
        return [m for m in result.measurements if m.subject == cell.subject]
    return [_missing(metric, result.status, result.reason) for metric in cell.metrics]


def _missing(metric: MetricSpec, status: Status, reason: str) -> Measurement:
    better: Better = metric.better
    return Measurement(
        metric=metric.name, value=None, unit=metric.unit, better=better, at=metric.at,
        status=status, reason=reason,
    )  # fmt: skip


def _row(about: About, cell: Cell, result: Result | None, measurement: Measurement) -> Row:
    return {
        "ablation": about.ablation,
        "scale": about.scale,
        "variant": cell.variant,
        "seed": cell.seed,
        "task": cell.task,
        "probe": cell.probe,
        "metric": measurement.metric,
        "at": cell.at or measurement.at,
        "value": measurement.value,
        "unit": measurement.unit,
        "better": measurement.better,
        "spread_low": measurement.spread_low,
        "spread_high": measurement.spread_high,
        "status": measurement.status.value,
        "reason": measurement.reason,
        "trial_id": cell.trial_id,
        "environment_id": result.provenance.environment_id if result else "",
        "device": result.provenance.device if result else "",
        "commit": result.provenance.commit if result else "",
    }


def _curve_row(about: About, cell: Cell, result: Result, point: Point) -> Row:
    return {
        "ablation": about.ablation,
        "scale": about.scale,
        "variant": cell.variant,
        "seed": cell.seed,
        "task": cell.task,
        "metric": point.metric,
        "step": point.step,
        "flops": point.flops,
        "value": point.value,
        "unit": point.unit,
        "better": point.better,
        "trial_id": cell.trial_id,
        "environment_id": result.provenance.environment_id,
    }
