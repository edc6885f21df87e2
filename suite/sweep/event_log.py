"""Writes every event of a sweep to the journal first, then passes it on to MLflow."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

from suite.events import Event, Finished, Remarked, Started, Waiting
from suite.journal.journal import Journal
from suite.sweep.mlflow_sync import MlflowSync


class EventLog:
    """The journal, and the copy to MLflow where it is installed."""

    def __init__(self, journal: Journal, sync: MlflowSync | None) -> None:
        self._journal = journal
        self._sync = sync
        self._attempts: dict[str, int] = {}

    def write(self, event: Event) -> None:
        """Write the event; a result is safe on disk when this returns."""
        match event:
            case Started(trial_id=trial_id, place=place):
                self._attempts[trial_id] = self._journal.begin(trial_id, place)
            case Finished(result=result):
                if result.trial_id not in self._attempts:  # its process died before it began
                    self._attempts[result.trial_id] = self._journal.begin(result.trial_id, "")
                self._journal.commit(result, self._attempts[result.trial_id])
            case Remarked():
                return  # only shown
            case Waiting(num_trials=num_trials, reason=reason):
                self._journal.note_waiting(num_trials, reason)
                return
        if self._sync is not None:
            self._sync.send(event, self._attempts[event.trial_id])

    def store_paused(self) -> AbstractContextManager[None]:
        """Send nothing to MLflow for the length of the block: a timing runs."""
        return nullcontext() if self._sync is None else self._sync.paused()
