"""Track the weights that other trials start or learn from: available, needed, or removable."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from bakeoff.suite.events import Finished
from bakeoff.suite.journal.journal import Journal
from bakeoff.suite.provenance import provenance
from bakeoff.suite.schema import (
    FAILURES,
    FINDERS,
    LEARNING_RATE,
    PACE,
    PRETRAINING,
    SEARCH,
    TEACHER,
    TRAINED,
    TRAINING_STEPS,
    Plan,
    Resources,
    Result,
    Status,
    Trial,
)
from bakeoff.suite.sweep.pending import Done, Work
from bakeoff.suite.training.weights import why_no_weights

_SAID = {
    PRETRAINING: "from which it starts",
    TEACHER: "of its teacher",
    TRAINED: "whose model it examines",
    SEARCH: "of its learning rate search",
    PACE: "which times its training step",
}


class StartWeights:
    """The trials of some plans whose weights pending trials need.

    The plans are those of all sweeps in the output folder: an interrupted sweep may share a parent
    with another one that ends first.
    """

    def __init__(self, plans: Iterable[Plan], done: Done, folder: Path) -> None:
        """Store the folder of all checkpoints, without reading it."""
        self._folder = folder
        self._waiting: dict[str, set[str]] = {}
        for trial in (trial for plan in plans for trial in plan.trials):
            for parent in trial.givers_of_weights.values() if not done.get(trial.trial_id) else ():
                self._waiting.setdefault(parent.trial_id, set()).add(trial.trial_id)

    @property
    def needed(self) -> frozenset[str]:
        """The ids of trials whose weights a pending trial needs."""
        return frozenset(self._waiting)

    def are_kept(self, trial_id: str) -> bool:
        """Return True if the trial has left weights, complete and undamaged."""
        return not why_no_weights(self._folder, trial_id)

    def after(self, trial_id: str) -> list[str]:
        """Mark a trial as done; return the ids of all trials whose checkpoints may be removed."""
        for waiting in self._waiting.values():
            waiting.discard(trial_id)
        free = [parent for parent, waiting in self._waiting.items() if not waiting]
        for parent in free:
            del self._waiting[parent]
        return free if trial_id in self._waiting else [*free, trial_id]

    def partition_ready(
        self, works: Sequence[Work], journal: Journal
    ) -> tuple[list[Work], list[Finished]]:
        """Return the work that can start, and the results of trials that cannot."""
        reasons = _Reasons(self.are_kept, journal)
        ready: list[Work] = []
        ended: list[Finished] = []
        for trial, resources in works:
            found = next(reasons.of(trial), None)
            if found is None:
                ready.append((_settled(trial, journal), resources))
            else:
                ended.append(Finished(_result(trial, resources, *found)))
        return ready, ended


class _Reasons:
    """The reasons why trials cannot start; each parent is examined once."""

    def __init__(self, are_kept: Callable[[str], bool], journal: Journal) -> None:
        self._are_kept, self._journal = are_kept, journal
        self._known: dict[str, tuple[Status, str] | None] = {}

    def of(self, trial: Trial) -> Iterator[tuple[Status, str]]:
        """Yield status and reason for each parent without weights or result."""
        for part, parent in trial.parents.items():
            if parent.trial_id not in self._known:
                self._known[parent.trial_id] = self._why(parent.trial_id, part)
            if found := self._known[parent.trial_id]:
                status, clause = found
                yield status, f"trial {parent.trial_id[:8]}, {_SAID[part]}, {clause}"

    def _why(self, trial_id: str, part: str) -> tuple[Status, str] | None:
        """Return the status, and the rest of the sentence."""
        if part not in FINDERS and self._are_kept(trial_id):
            return None
        results = [*self._journal.results([trial_id])]
        if part in FINDERS and any(each.status is Status.OK for each in results):
            return None
        if not results:
            return Status.ERROR, "has no result"
        failed = next((each for each in results if each.status is not Status.OK), None)
        if failed is None:
            return Status.ERROR, (
                "has left no weights in the output folder; its host must see that folder, so give "
                "an --out that all nodes share"
            )
        # The trial is retried with its parent, unless the parent's failure is a finding.
        status = Status.ERROR if failed.status in FAILURES else Status.SKIPPED
        return status, f"ended as {failed.status.value}: {failed.reason}"


def _settled(trial: Trial, journal: Journal) -> Trial:
    """Return the trial with the learning rate and the number of steps that were found for it.

    With searches in several environments, the first one counts, for all seeds alike.
    """

    def found(parent: Trial, metric: str) -> float:
        results = journal.results([parent.trial_id])
        every = (m.value for each in results for m in each.measurements if m.metric == metric)
        return next(value for value in every if value is not None)

    if trial.search is not None:
        trial = replace(trial, found_rate=found(trial.search, LEARNING_RATE))
    if trial.pace is not None:
        trial = replace(trial, found_steps=round(found(trial.pace, TRAINING_STEPS)))
    return trial


def _result(trial: Trial, resources: Resources, status: Status, reason: str) -> Result:
    return Result(
        trial_id=trial.trial_id,
        status=status,
        reason=reason,
        seconds=0.0,
        provenance=provenance(resources),
    )
