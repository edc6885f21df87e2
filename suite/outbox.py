"""The one writer: tells the store what the journal holds, beside the driver, never in its way.

A thread of its own. While the store cannot be reached live points are dropped, results stay in
the journal, and the thread catches up from there as soon as the store answers again.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from suite.events import Finished, Progressed, Started
from suite.events import TrialEvent as Event
from suite.journal import Journal
from suite.mlflow_store import StoreUnavailable
from suite.record import Recorder
from suite.rows import by_trial
from suite.schema import Cell, Plan

_SECONDS_BETWEEN_TRIES = 5.0
_SECONDS_BETWEEN_PUBLICATIONS = 15.0
_SHARE_OF_PUBLISHING = 0.05  # of the time, at most


class Outbox:
    """Takes events from the driver; writes them to the store in a thread.

    Args:
        connect: Makes a recorder; raises StoreUnavailable where there is no store.
        plans: The sweeps that the events belong to.
        journal: File of what has finished; read at the start, and again after an outage.
    """

    def __init__(
        self, connect: Callable[[], Recorder], plans: Sequence[Plan], journal: Path
    ) -> None:
        self._connect = connect
        self._plans = plans
        self._journal = journal
        self._trials = {t.trial_id: t for plan in plans for t in plan.trials}
        self._cells = {plan.key: _cells_by_trial(plan) for plan in plans}
        self._queue: queue.Queue[tuple[Event, int] | None] = queue.Queue()
        self._ended: dict[str, int] = {}  # trial_id -> newest attempt whose result was told
        self._shown: dict[str, int] = {}  # trial_id -> newest attempt whose result the store has
        self._may_write = threading.Event()
        self._may_write.set()
        self._writes = threading.Lock()
        self._recorder: Recorder | None = None
        self._trouble = ""
        self._next_try = 0.0
        self._next_publication = time.monotonic() + _SECONDS_BETWEEN_PUBLICATIONS
        self._thread = threading.Thread(target=self._write, name="outbox", daemon=True)

    def start(self) -> None:
        """Begin with what the journal holds and the store lacks."""
        self._thread.start()

    def tell(self, event: Event, attempt: int) -> None:
        """Take an event; returns at once."""
        if isinstance(event, Finished):
            self._ended[event.trial_id] = attempt
        self._queue.put((event, attempt))

    def pause(self) -> None:
        """Write nothing until `resume`: a timing is under way. Waits for the write in progress."""
        self._may_write.clear()
        with self._writes:
            pass

    def resume(self) -> None:
        """Write again."""
        self._may_write.set()

    def close(self) -> tuple[Recorder | None, str]:
        """Write everything that is left.

        Returns:
            The recorder, and one sentence of what stood in the way: then the store lacks results.
        """
        self.resume()
        self._queue.put(None)
        self._thread.join()
        return self._recorder, self._trouble

    def _write(self) -> None:
        try:
            self._write_all()
        except Exception as error:  # a fault of ours must not pass for a store that is complete
            self._trouble = f"the writer failed: {type(error).__name__}: {error}"
            self._recorder = None

    def _write_all(self) -> None:
        self._in_turn(self._catch_up)
        while (item := self._next_item()) is not None:
            for event, attempt in item:
                self._in_turn(partial(self._record, event, attempt))
            if time.monotonic() > self._next_publication:
                self._in_turn(self._publish)
        self._finish()

    def _next_item(self) -> list[tuple[Event, int]] | None:
        """One event, or none after a second; None at the end."""
        try:
            event = self._queue.get(timeout=1.0)
        except queue.Empty:
            return []
        return None if event is None else [event]

    def _in_turn(self, write: Callable[[], None]) -> None:
        """Write as soon as that disturbs nobody."""
        while True:
            self._may_write.wait()
            with self._writes:
                if self._may_write.is_set():
                    self._attempt_to(write)
                    return

    def _attempt_to(self, write: Callable[[], None]) -> None:
        """Write, unless the store is away; after an outage catch up first."""
        try:
            if self._trouble:
                if time.monotonic() < self._next_try:
                    return
                self._catch_up()
            write()
            self._trouble = ""
        except StoreUnavailable as error:
            self._trouble = str(error)
            self._recorder = None
            self._next_try = time.monotonic() + _SECONDS_BETWEEN_TRIES

    def _finish(self) -> None:
        self._next_try = 0.0
        self._in_turn(self._publish)

    def _catch_up(self) -> None:
        """Bring the store to what the journal holds; a no-op where it is there already."""
        recorder = self._recorder = self._connect()
        with Journal(self._journal, read_only=True) as journal:
            entries = journal.entries()
            for plan in self._plans:
                known = recorder.open_sweep(plan.about)
                behind = {e.trial_id for e in entries if known.get(e.trial_id) != e.sha256}
                for result in journal.results(
                    t.trial_id for t in plan.trials if t.trial_id in behind
                ):
                    self._tell_recorder(plan, Finished(result), attempt=0)
        for entry in entries:
            newest = max(entry.attempt, self._shown.get(entry.trial_id, 0))
            self._shown[entry.trial_id] = newest
        self._trouble = ""

    def _record(self, event: Event, attempt: int) -> None:
        if attempt <= self._shown.get(event.trial_id, -1):
            return  # it waited in line while the catching up brought its end
        if not isinstance(event, Finished) and attempt <= self._ended.get(event.trial_id, -1):
            return  # its result stands in line already, and brings everything
        for plan in self._plans:
            if event.trial_id in self._cells[plan.key]:
                self._tell_recorder(plan, event, attempt)

    def _tell_recorder(self, plan: Plan, event: Event, attempt: int) -> None:
        assert self._recorder is not None, "without trouble there is a recorder"
        trial = self._trials[event.trial_id]
        cells = self._cells[plan.key][trial.trial_id]
        match event:
            case Started():
                self._recorder.start_trial(plan.key, trial, cells, attempt)
            case Progressed(points=points):
                self._recorder.log_points(plan.key, trial.trial_id, points)
            case Finished(result=result):
                self._recorder.finish_trial(plan.key, trial, cells, result)

    def _publish(self) -> None:
        """The two frames of every sweep, as far as it has grown."""
        from suite.frames import sweep_files  # takes pyarrow, which a machine without a store lacks

        assert self._recorder is not None, "without trouble there is a recorder"
        start = time.monotonic()
        with Journal(self._journal, read_only=True) as journal:
            for plan in self._plans:
                results = by_trial(journal.results(trial.trial_id for trial in plan.trials))
                self._recorder.publish(plan.key, sweep_files(plan, results))
        spent = time.monotonic() - start
        pause = max(_SECONDS_BETWEEN_PUBLICATIONS, spent / _SHARE_OF_PUBLISHING)
        self._next_publication = time.monotonic() + pause


def _cells_by_trial(plan: Plan) -> dict[str, list[Cell]]:
    found: dict[str, list[Cell]] = {}
    for cell in plan.cells:
        if not cell.reason:
            found.setdefault(cell.trial_id, []).append(cell)
    return found
