"""Convert plans and results to frames: the files in the store from which reports are made.

Rows are in the plan's order. A failed trial has a row for every metric that it should have
measured; a cell without a result has no row. Every edition of a sweep is judged by the report's
rules, so that a page shows all that was tried.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from bakeoff.suite.journal.journal import Journal
from bakeoff.suite.journal.plans import claim_cells, registration_of
from bakeoff.suite.reporting.costs import costs_of
from bakeoff.suite.schema import (
    FLOORS,
    QUALITY,
    TRAINING_STEPS,
    About,
    Cell,
    Edition,
    Measurement,
    MetricSpec,
    Plan,
    Result,
    Sample,
    Status,
)

if TYPE_CHECKING:
    from bakeoff.reports.view import Sweep

RESULTS_FILE = "results.parquet"
CURVES_FILE = "curves.parquet"

Row = dict[str, object]
_ByVariant = dict[str, tuple[Sample, ...]]
Results = Mapping[str, Sequence[Result]]  # by trial id, with one result for each environment

MAX_VARIANTS_SHOWN = 24  # for each task with samples, to limit the size of a report

# Verdict and sentence by all that they depend on, since those of earlier editions seldom change.
_JUDGED: dict[tuple[object, ...], tuple[str, str]] = {}


def sweep_of(plan: Plan, results: Results) -> Sweep:
    """Return the results of the plan as frames."""
    # Imported here since it needs pyarrow, which a machine without a store may lack.
    from bakeoff.reports.results.frame import curves_frame, results_frame
    from bakeoff.reports.view import Sweep

    results = _of_one_pace(plan, results)
    found = results_frame(result_rows(plan, results))
    about = about_with_provenance(plan, results)
    if any(made.num_gpus for made in about.provenances.values()):
        about = replace(about, costs=costs_of(plan, results))  # otherwise the bytes stay equal
    return _judged(Sweep.of_frames(about, found, curves_frame(curve_rows(plan, results))))


def sweep_files(plan: Plan, results: Results) -> dict[str, bytes]:
    """Return the frames as files by name; equal results give equal bytes."""
    from bakeoff.reports.results.axis_values import with_axes
    from bakeoff.reports.results.frame import to_parquet_bytes

    sweep = sweep_of(plan, results)
    found = with_axes(sweep.about, sweep.results)
    return {
        RESULTS_FILE: to_parquet_bytes(found, sweep.about),
        CURVES_FILE: to_parquet_bytes(sweep.curves),
    }


def verdicts_on_pages(folder: Path) -> dict[str, str]:
    """Return ablation -> the verdict on its page, for the finished reports in a folder.

    Ablations without a claim, and reports that this version cannot read, are left out.
    """
    files = sorted(folder.glob(f"*/{RESULTS_FILE}"))
    if not files:
        return {}
    from bakeoff.reports.results.frame import FrameError, about_in

    found = {}
    for file in files:
        with suppress(FrameError):
            about = about_in(file)
            for edition in about.editions:
                if edition.is_shown and edition.verdict:
                    found[about.ablation] = edition.verdict
    return found


def by_trial(results: Iterable[Result]) -> Results:
    """Group results by trial."""
    found: dict[str, list[Result]] = {}
    for result in results:
        found.setdefault(result.trial_id, []).append(result)
    return found


def result_rows(plan: Plan, results: Results) -> Iterator[Row]:
    """Yield a row for each number, with the columns `schema.RESULT_COLUMNS`."""
    for cell in plan.cells:
        if cell.reason:
            for metric in cell.metrics:
                yield _row(plan.about, cell, None, _missing(metric, Status.SKIPPED, cell.reason))
        for result in results.get(cell.trial_id, ()):
            for measurement in _measurements(cell, result):
                yield _row(plan.about, cell, result, measurement)


def curve_rows(plan: Plan, results: Results) -> Iterator[Row]:
    """Yield a row for each curve point, with the columns `schema.CURVE_COLUMNS`."""
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
    """Return the plan's facts, with the environment of every result and the samples."""
    found = {
        result.provenance.environment_id: result.provenance
        for of_trial in results.values()
        for result in of_trial
    }
    return replace(
        plan.about,
        provenances=dict(sorted(found.items())),
        samples=_samples(plan, results),
        training_steps=_with_found_steps(plan, results),
    )


def _of_one_pace(plan: Plan, results: Results) -> Results:
    """Leave out trainings of other machines, if several found different numbers of steps.

    A training that takes as long as the baseline's has a number of steps of its own on each
    machine, so that a mean over machines would be that of different trainings. The machine with
    most of their results is kept.
    """
    found: dict[tuple[str, str], set[float]] = {}
    for cell in plan.cells:
        for value in _found_steps(results.get(cell.trial_id, ())):
            found.setdefault((cell.task, cell.variant), set()).add(value)
    differing = {of for of, values in found.items() if len(values) > 1}
    if not differing:
        return results
    trials = {cell.trial_id for cell in plan.cells if (cell.task, cell.variant) in differing}
    trials -= {cell.trial_id for cell in plan.cells if (cell.task, cell.variant) not in differing}
    places = [each.provenance.environment_id for t in trials for each in results.get(t, ())]
    kept = max(sorted({*places}), key=places.count)
    return {
        trial: [r for r in some if trial not in trials or r.provenance.environment_id == kept]
        for trial, some in results.items()
    }


def _found_steps(results: Iterable[Result]) -> Iterator[float]:
    for measured in (m for each in results for m in each.measurements):
        if measured.metric == TRAINING_STEPS and measured.value is not None:
            yield measured.value


def _with_found_steps(plan: Plan, results: Results) -> Mapping[str, Mapping[str, int]]:
    """Return the steps of each training: those of the plan, and those that trials have found."""
    found = {task: dict(steps) for task, steps in plan.about.training_steps.items()}
    for cell in plan.cells:
        for value in _found_steps(results.get(cell.trial_id, ())):
            # The trainings use the first result too.
            found.setdefault(cell.task, {}).setdefault(cell.variant, round(value))
    return found


def _judged(sweep: Sweep) -> Sweep:
    """Return the sweep with the verdict of the edition that it shows, if that has results."""
    about, judged = sweep.about, None
    if any(each.is_shown and each.num_done for each in about.editions):
        judged = sweep.verdict
    if judged is None:
        return sweep
    word, sentence = str(judged.outcome), judged.sentence
    editions = tuple(
        replace(each, verdict=word, sentence=sentence) if each.is_shown else each
        for each in about.editions
    )
    return replace(sweep, about=replace(about, editions=editions))


def _samples(plan: Plan, results: Results) -> dict[str, _ByVariant]:
    """Return task -> variant -> samples of its first seed; the baseline is always included."""
    found: dict[str, _ByVariant] = {}
    for cell in plan.cells:
        samples = _of_cell(results.get(cell.trial_id, ())) if cell.seed == 0 else ()
        if samples:
            of_task = found.setdefault(cell.task, {})
            of_task[cell.variant] = (*of_task.get(cell.variant, ()), *samples)
    return {
        task: _images_once(_shown(of_task, plan.about.baseline)) for task, of_task in found.items()
    }


def _of_cell(results: Sequence[Result]) -> tuple[Sample, ...]:
    """Return the samples of one environment, always of the same one if there are several."""
    showing = {r.provenance.environment_id: r.samples for r in results if r.samples}
    return showing[min(showing)] if showing else ()


def _shown(of_task: _ByVariant, baseline: str) -> _ByVariant:
    first = list(of_task)[:MAX_VARIANTS_SHOWN]
    if baseline in of_task and baseline not in first:
        first[-1] = baseline
    return {variant: of_task[variant] for variant in first}


def _images_once(of_task: _ByVariant) -> _ByVariant:
    """Keep shared images only at their first variant, since images are most of the bytes."""
    known: set[Sample] = set()
    found: _ByVariant = {}
    for variant, some in of_task.items():
        found[variant] = tuple(each for each in some if each not in known)
        known.update(each for each in some if each.kind == "images")
    return found


def _measurements(cell: Cell, result: Result) -> list[Measurement]:
    """Return the measurements of the cell's variant, or an empty one per metric after a failure."""
    if result.status is Status.OK:
        return [m for m in result.measurements if m.subject == cell.subject]
    return [_missing(metric, result.status, result.reason) for metric in cell.metrics]


def _missing(metric: MetricSpec, status: Status, reason: str) -> Measurement:
    return Measurement(
        metric=metric.name,
        value=None,
        unit=metric.unit,
        better=metric.better,
        at=metric.at,
        status=status,
        reason=reason,
    )


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


def with_history(plan: Plan, journal: Journal) -> Plan:
    """Return the plan with all its current editions, and the verdicts of those not shown.

    `sweep_of` adds the verdict of the edition that is shown.
    """
    history = _History(journal, tuple(journal.history(plan)))
    shown = next((each for each, _ in history.editions if each.is_shown), None)
    if shown is None:
        return plan
    editions = tuple(
        each if each.is_shown else history.judged(each, of) for each, of in history.editions
    )
    about = replace(plan.about, editions=history.seen_from(shown, plan, editions))
    return replace(plan, about=about)


@dataclass(frozen=True)
class _History:
    """The editions of a sweep with their plans, newest first, and the journal of their results."""

    journal: Journal
    editions: tuple[tuple[Edition, Plan], ...]

    def seen_from(
        self, shown: Edition, plan: Plan, editions: tuple[Edition, ...]
    ) -> tuple[Edition, ...]:
        """Mark in the editions which one is shown, and which ones tested its claim before it."""
        done = self.journal.done().keys()
        earlier = {
            each.number
            for each, of in self.editions
            if each.started_seconds < shown.started_seconds and _tests_other_trials(of, plan, done)
        }
        return tuple(
            replace(
                each,
                is_shown=each.number == shown.number,
                is_earlier_test=each.number in earlier,
            )
            for each in editions
        )

    def judged(self, edition: Edition, plan: Plan) -> Edition:
        """Return the edition with its verdict, as its own page would give it."""
        claim = plan.about.claim
        if claim is None or not edition.num_done:
            return edition
        about = replace(
            plan.about,
            registration=registration_of(plan.about, self.journal.statements(plan.key)),
            editions=self.seen_from(edition, plan, tuple(each for each, _ in self.editions)),
        )
        cells = tuple(
            cell
            for cell in plan.cells
            if cell.task == claim.task
            and (
                cell.probe in (QUALITY, FLOORS, claim.counted_by)
                or any(m.name == claim.metric for m in cell.metrics)
            )
        )
        trial_ids = dict.fromkeys(cell.trial_id for cell in cells)
        held = tuple(e for e in self.journal.entries() if e.trial_id in trial_ids)
        earlier = tuple(each.number for each in about.editions if each.is_earlier_test)
        key = (*plan.key, edition.sha256, about.registration, earlier, held)
        if key not in _JUDGED:
            results = by_trial(self.journal.results(trial_ids))
            sweep = sweep_of(replace(plan, about=about, cells=cells), results)
            found = next(each for each in sweep.about.editions if each.is_shown)
            _JUDGED[key] = found.verdict, found.sentence
        verdict, sentence = _JUDGED[key]
        return replace(edition, verdict=verdict, sentence=sentence)


def _tests_other_trials(other: Plan, plan: Plan, done: Set[str]) -> bool:
    """Return True if `other` has results on the plan's claim from trials not in the plan."""
    mine, theirs = plan.about.claim, other.about.claim
    if mine is None or theirs is None:
        return False
    is_same = (mine.task, mine.stated_metric, mine.at, {mine.a, mine.b}) == (
        theirs.task,
        theirs.stated_metric,
        theirs.at,
        {theirs.a, theirs.b},
    )
    own = {cell.trial_id for cell in claim_cells(plan)}
    return is_same and any(c.trial_id in done and c.trial_id not in own for c in claim_cells(other))
