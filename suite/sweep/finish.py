"""Finish a sweep: count its trials, make the reports, copy them to the store, close parents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from bakeoff.suite.journal.journal import Journal
from bakeoff.suite.schema import FAILURES, Plan, Status
from bakeoff.suite.spec import SpecError
from bakeoff.suite.sweep.pending import distinct_work
from bakeoff.suite.text import command
from bakeoff.suite.tracking.client import StoreUnavailable
from bakeoff.suite.tracking.location import Store
from bakeoff.suite.tracking.shared_views import address_at
from bakeoff.suite.tracking.write import RunWriter

if TYPE_CHECKING:
    import pandas as pd

    from bakeoff.reports.view import Sweep
    from bakeoff.suite.reporting.build import Sweeps

_WITHOUT_STORE = (
    "MLflow is not installed here, so nothing was recorded. The results are in {journal}; `bakeoff "
    "record {journal}` records them on a machine that has MLflow."
)
_WITHOUT_REPORT = " There is no report: {error}."
_UNWRITTEN = (
    "The reports cannot be written to {folder}: {error}; all results are safe, and {remedy} makes "
    "the reports."
)


@dataclass(frozen=True, kw_only=True)
class SweepOutcome:
    """The end of a sweep.

    Attributes:
        by_status: Number of trials of the plans by the status of their newest result, with skipped
            cells.
        num_run: Trials that got a result in this run; the others were done already.
        num_missing: Trials that still have no result.
        num_failed_beside: Trials of this run that timed out, crashed or raised an error, but are
            counted by their finding from another environment.
        num_left: Trials that the time limit has left for the next run; 0 if it did not pass.
        continues: A clause that says from where the same command continues after the limit.
        error: One sentence if the results could not be recorded or reported; the journal keeps
            them. `bakeoff.run` raises it as `bakeoff.NotRecorded`.
        note: One sentence that the user should read, if there is any.
        reports: The page of each ablation.
        summary: Lines for people: the scores and the verdict of each sweep.
        comparisons: For each sweep, the MLflow page that compares its trials, if the store serves
            pages.
        sweeps: The frames of the sweeps, by output folder; empty if there is no report.
    """

    by_status: Mapping[Status, int]
    num_run: int
    num_missing: int
    num_failed_beside: int = 0
    num_left: int = 0
    continues: str = ""
    error: str = ""
    note: str = ""
    reports: tuple[Path, ...] = ()
    summary: tuple[str, ...] = ()
    comparisons: tuple[str, ...] = ()
    sweeps: Mapping[str, Sequence[Sweep]] = field(default_factory=dict, repr=False, compare=False)

    @property
    def counts(self) -> dict[str, int]:
        """The number of trials: run now, reused, failed, skipped, missing, then by status.

        A failed trial timed out, crashed or raised an error; the next run repeats it. A reused one
        had a result before this run.
        """
        skipped = self.by_status.get(Status.SKIPPED, 0)
        return {
            "run": self.num_run,
            "reused": max(0, sum(self.by_status.values()) - skipped - self.num_run),
            "failed": self.num_failed,
            "skipped": skipped,
            "missing": self.num_missing,
            **{str(status): number for status, number in self.by_status.items()},
        }

    @property
    def report(self) -> Path | None:
        """The page of the ablation, or the overview if there are several, or None without one."""
        if len(self.reports) > 1:
            return self.reports[0].parents[1] / self.reports[0].name
        return next(iter(self.reports), None)

    @property
    def results(self) -> pd.DataFrame:
        """The measurements of the sweeps, as `bakeoff.results` returns them."""
        from bakeoff.suite.reporting.tidy import results_of

        return results_of(self._held)

    @property
    def verdicts(self) -> pd.DataFrame:
        """The verdicts on the claims of the sweeps, as `bakeoff.verdicts` returns them."""
        from bakeoff.suite.reporting.tidy import verdicts_of

        return verdicts_of(self._held)

    @property
    def _held(self) -> Mapping[str, Sequence[Sweep]]:
        """The sweeps that have results.

        Raises:
            SpecError: If there are none.
        """
        held = {out: [s for s in found if len(s.results)] for out, found in self.sweeps.items()}
        if not any(held.values()):
            raise SpecError(f"this run has no results: {self.in_words()}.")
        return held

    @property
    def num_failed(self) -> int:
        """The number of trials that timed out, crashed or raised an error."""
        return sum(number for status, number in self.by_status.items() if status in FAILURES)

    def in_words(self) -> str:
        """Format the counts, for example ``45 ok, 3 skipped, 2 error; 1 without a result yet``."""
        counts = [f"{number} {status.value}" for status, number in self.by_status.items()]
        missing = f"; {self.num_missing} without a result yet" if self.num_missing else ""
        return (", ".join(counts) or "nothing to do") + missing


def counted(
    plans: Sequence[Plan], journal: Journal, num_run: int, failed: Collection[str] = ()
) -> SweepOutcome:
    """Count the plans' trials in the journal, each once; `failed` are those of this run."""
    trial_ids = [trial.trial_id for trial, _ in distinct_work(plans)]
    found = journal.statuses()
    statuses = {trial_id: Status(found[trial_id]) for trial_id in trial_ids if trial_id in found}
    counts = Counter(statuses.values())
    counts[Status.SKIPPED] += len(
        {cell.trial_id for plan in plans for cell in plan.cells if cell.reason}
    )
    return SweepOutcome(
        by_status={status: counts[status] for status in Status if counts[status]},
        num_run=num_run,
        num_missing=len(trial_ids) - len(statuses),
        num_failed_beside=sum(statuses[trial_id] not in FAILURES for trial_id in failed),
    )


def conclude(
    outcome: SweepOutcome,
    plans: Sequence[Plan],
    journal: Journal,
    writer: RunWriter | None,
    out: Path,
    store: Store,
) -> SweepOutcome:
    """Make the reports, record them, and close the parents; an error becomes a sentence.

    `outcome.error` says why there is no writer to the store, unless MLflow is missing.
    """
    if writer is None and not outcome.error:
        outcome = replace(outcome, note=_WITHOUT_STORE.format(journal=journal.path))
    try:
        from bakeoff.suite.reporting.build import reports_of, summary_lines, sweeps_to_report
    except ImportError as error:  # a machine for training may have torch and little else
        return replace(outcome, note=outcome.note + _WITHOUT_REPORT.format(error=error))
    names = list(dict.fromkeys(plan.about.ablation for plan in plans))
    folder = out / "reports"
    try:
        sweeps = sweeps_to_report(journal, folder, store if writer else None)
        pages = reports_of(names, sweeps, folder)
        own = [s for p in plans for s in sweeps[p.about.ablation] if s.about.scale == p.about.scale]
        lines = tuple(line for sweep in own for line in summary_lines(sweep))
        outcome = replace(outcome, reports=pages, summary=lines, sweeps={str(out): own})
        if writer is None:
            return outcome
        _record(writer, plans, journal, sweeps, dict(zip(names, pages, strict=True)))
        found = (address_at(store.uri, writer.comparison_page(plan.key)) for plan in plans)
        return replace(outcome, comparisons=tuple(filter(None, found)))
    except StoreUnavailable as error:
        return replace(outcome, error=str(error))
    except OSError as error:  # a full disk, for example
        remedy = f"`{command('verify', '--repair', out=out)}`" if writer else "the same command"
        unwritten = _UNWRITTEN.format(folder=folder, error=error, remedy=remedy)
        return replace(outcome, error=outcome.error or unwritten)


def _record(
    writer: RunWriter,
    plans: Sequence[Plan],
    journal: Journal,
    sweeps: Sweeps,
    pages: Mapping[str, Path],
) -> None:
    from bakeoff.suite.reporting.build import findings_of

    for plan in plans:
        ablation, scale = plan.key
        trial_ids = {trial.trial_id for trial in plan.trials}
        writer.read_again(plan.key, trial_ids)
        writer.publish_report(plan.key, pages[ablation].parent)
        for sweep in sweeps[ablation]:
            if sweep.about.scale == scale:
                writer.publish_findings(plan.key, findings_of(sweep))
        writer.read_again(plan.key, trial_ids)  # another folder may end in the same second
    close_parents(plans, journal, writer)


def close_parents(plans: Sequence[Plan], journal: Journal, writer: RunWriter) -> None:
    """Record the progress of each sweep in the store, which then shows nothing as running.

    Raises:
        StoreUnavailable: If the store cannot be reached.
    """
    for plan in plans:
        of_plan = counted([plan], journal, 0)
        summary = {f"num_{status.value}": number for status, number in of_plan.by_status.items()}
        writer.close_sweep(plan.key, summary, finished=not of_plan.num_missing)
