"""Journal first, then the store: what every event of a sweep goes through."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from suite.events import Event, Finished, Remarked, Started, Waiting
from suite.journal.journal import Journal
from suite.sweep.mlflow_sync import MlflowSync


class EventLog:
    """The journal, and the outbox to the store where there is one."""

    def __init__(self, journal: Journal, outbox: MlflowSync | None) -> None:
        self._journal = journal
        self._outbox = outbox
        self._attempts: dict[str, int] = {}

    def take(self, event: Event) -> None:
        """Write the event down; a result is safe on disk when this returns."""
        match event:
            case Started(trial_id=trial_id, place=place):
                self._attempts[trial_id] = self._journal.begin(trial_id, place)
            case Finished(result=result):
                if result.trial_id not in self._attempts:  # its process died before it began
                    self._attempts[result.trial_id] = self._journal.begin(result.trial_id, "")
                self._journal.commit(result, self._attempts[result.trial_id])
            case Remarked():
                return  # for whoever watches
            case Waiting(num_trials=num_trials, reason=reason):
                self._journal.note_waiting(num_trials, reason)
                return
        if self._outbox is not None:
            self._outbox.tell(event, self._attempts[event.trial_id])

    @contextmanager
    def store_paused(self) -> Iterator[None]:
        """Leave the store alone for the length of the block: a timing is under way."""
        if self._outbox is None:
            yield
            return
        self._outbox.pause()
        try:
            yield
        finally:
            self._outbox.resume()
