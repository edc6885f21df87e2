"""Turns plan and results into frames: the files that the store holds and reports are made from.

Rows are in the plan's order. A failed trial has a row under every metric that it should have
measured; a cell without a result has none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from suite.schema import About, Cell, Measurement, MetricSpec, Plan, Result, Specimen, Status

if TYPE_CHECKING:
    import pandas as pd

    from reports.results.frame import Sweep

RESULTS_FILE = "results.parquet"
CURVES_FILE = "curves.parquet"

Row = dict[str, object]
_ByVariant = dict[str, tuple[Specimen, ...]]
Results = Mapping[str, Sequence[Result]]  # by trial_id, one per environment

MAX_VARIANTS_SHOWN = 24  # of a task, with specimens: a report holds no more than a few


def sweep_of(plan: Plan, results: Results) -> Sweep:
    """What is known of the plan, as frames."""
    # Here, since it needs pyarrow, which a machine without a store may lack.
    from reports.results.frame import Sweep, curves_frame, results_frame

    found = results_frame(result_rows(plan, results))
    return Sweep(
        about=_judged(about_with_provenance(plan, results), found),
        results=found,
        curves=curves_frame(curve_rows(plan, results)),
    )


def sweep_files(plan: Plan, results: Results) -> dict[str, bytes]:
    """The frames as files, by name; the same results give the same bytes."""
    from reports.results.frame import to_parquet_bytes

    sweep = sweep_of(plan, results)
    return {
        RESULTS_FILE: to_parquet_bytes(sweep.results, sweep.about),
        CURVES_FILE: to_parquet_bytes(sweep.curves),
    }


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
                yield (
                    _cell_columns(plan.about, cell)
                    | vars(point)
                    | {
                        "trial_id": cell.trial_id,
                        "environment_id": result.provenance.environment_id,
                    }
                )


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


def _judged(about: About, found: pd.DataFrame) -> About:
    """With the verdict of the edition that it shows, if that has results."""
    from reports.analysis.verdict import verdict
    from reports.results.series import all_series
    from reports.tables.comparison import without_controls

    if about.claim is None or not any(each.is_shown and each.num_done for each in about.editions):
        return about
    judged = verdict(about, without_controls(all_series(about, found)))
    assert judged is not None, "there is a claim"
    word, sentence = str(judged.outcome), judged.sentence
    editions = tuple(
        replace(each, verdict=word, sentence=sentence) if each.is_shown else each
        for each in about.editions
    )
    return replace(about, editions=editions)


def _specimens(plan: Plan, results: Results) -> dict[str, _ByVariant]:
    """Task -> variant -> specimens of its first seed; the baseline is always among them."""
    found: dict[str, _ByVariant] = {}
    for cell in plan.cells:
        specimens = _of_cell(results.get(cell.trial_id, ())) if cell.seed == 0 else ()
        if specimens:
            found.setdefault(cell.task, {}).setdefault(cell.variant, specimens)
    return {task: _shown(of_task, plan.about.baseline) for task, of_task in found.items()}


def _of_cell(results: Sequence[Result]) -> tuple[Specimen, ...]:
    """Of several environments, always those of the same one."""
    showing = {r.provenance.environment_id: r.specimens for r in results if r.specimens}
    return showing[min(showing)] if showing else ()


def _shown(of_task: _ByVariant, baseline: str) -> _ByVariant:
    first = list(of_task)[:MAX_VARIANTS_SHOWN]
    if baseline in of_task and baseline not in first:
        first[-1] = baseline
    return {variant: of_task[variant] for variant in first}


def _measurements(cell: Cell, result: Result) -> list[Measurement]:
    """Those of the cell's variant; where the trial failed, an empty one for each metric."""
    if result.status is Status.OK:
        return [m for m in result.measurements if m.subject == cell.subject]
    return [_missing(metric, result.status, result.reason) for metric in cell.metrics]


def _missing(metric: MetricSpec, status: Status, reason: str) -> Measurement:
    return Measurement(
        metric=metric.name, value=None, unit=metric.unit, better=metric.better, at=metric.at,
        status=status, reason=reason,
    )  # fmt: skip


def _cell_columns(about: About, cell: Cell) -> Row:
    return {
        "ablation": about.ablation,
        "scale": about.scale,
        "variant": cell.variant,
        "seed": cell.seed,
        "task": cell.task,
    }


def _row(about: About, cell: Cell, result: Result | None, measurement: Measurement) -> Row:
    made = result.provenance if result else None
    return _cell_columns(about, cell) | {
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
        "environment_id": made.environment_id if made else "",
        "device": made.device if made else "",
        "commit": made.commit if made else "",
    }
