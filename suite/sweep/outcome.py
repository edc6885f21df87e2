"""Counts how a sweep ended: its trials by status."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from suite.journal.journal import Journal
from suite.schema import FAILURES, Plan, Status
from suite.sweep.pending import distinct_work


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How a sweep ended.

    Attributes:
        counts: Trials of the plans by the status of their newest result; skipped cells too.
        num_run: Trials that left a result now; the others were done already.
        num_missing: Trials that still have no result.
        num_failed_beside: Trials of this run that timed out, crashed or erred, and count by the
            finding that they have of another environment.
        num_left: Trials that the time limit has left for the next run; 0 where it did not come.
        trouble: One sentence if the store could not be reached; the journal keeps the results.
        note: One sentence that the user should read, if there is any.
        reports: The page of each ablation.
        comparisons: Of each sweep, the page of MLflow that sets its trials side by side, where the
            store serves pages.
    """

    counts: Mapping[Status, int]
    num_run: int
    num_missing: int
    num_failed_beside: int = 0
    num_left: int = 0
    trouble: str = ""
    note: str = ""
    reports: tuple[Path, ...] = ()
    comparisons: tuple[str, ...] = ()

    @property
    def num_failed(self) -> int:
        """Trials that timed out, crashed or erred."""
        return sum(number for status, number in self.counts.items() if status in FAILURES)

    def in_words(self) -> str:
        """As ``45 ok, 3 skipped, 2 error; 1 has no result yet``."""
        counts = [f"{number} {status.value}" for status, number in self.counts.items()]
        missing = f"; {self.num_missing} without a result yet" if self.num_missing else ""
        return (", ".join(counts) or "nothing to do") + missing


def counted(
    plans: Sequence[Plan], journal: Journal, num_run: int, failed: Collection[str] = ()
) -> Outcome:
    """What the journal says of the plans' trials, each counted once; `failed` are those of now."""
    trial_ids = [trial.trial_id for trial, _ in distinct_work(plans)]
    found = journal.statuses()
    statuses = {trial_id: Status(found[trial_id]) for trial_id in trial_ids if trial_id in found}
    counts = Counter(statuses.values())
    counts[Status.SKIPPED] += len(
        {cell.trial_id for plan in plans for cell in plan.cells if cell.reason}
    )
    return Outcome(
        counts={status: counts[status] for status in Status if counts[status]},
        num_run=num_run,
        num_missing=len(trial_ids) - len(statuses),
        num_failed_beside=sum(statuses[trial_id] not in FAILURES for trial_id in failed),
    )
