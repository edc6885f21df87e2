"""Copy the journal to MLflow, in a thread beside the driver that never delays it.

While the store cannot be reached, live points are dropped, results stay in the journal, and the
thread catches up from there as soon as the store answers again. So the queue stays short even in a
long outage: an event that does not fit is in the journal.

The thread stops at a gate before each request: a timing waits for one request at most, and a store
that hangs does not delay the end of a sweep.

An event is written to the journal first, then passed on to MLflow.
"""

from __future__ import annotations

import math
import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

from bakeoff.suite.events import (
    Event,
    Finished,
    Progressed,
    Remarked,
    RunAgainEagerly,
    Started,
    TrialEvent,
    Waiting,
)
from bakeoff.suite.journal.export import JOURNAL_FILE, exported
from bakeoff.suite.journal.journal import Journal
from bakeoff.suite.journal.plans import parent_cells
from bakeoff.suite.journal.sqlite_schema import JournalError
from bakeoff.suite.reporting.frames import by_trial, with_history
from bakeoff.suite.schema import Cell, Plan, Trial
from bakeoff.suite.text import command
from bakeoff.suite.tracking.client import StoreRefuses, StoreUnavailable
from bakeoff.suite.tracking.run_fields import Key
from bakeoff.suite.tracking.write import RunWriter

_SECONDS_BETWEEN_TRIES = 5.0
_SECONDS_BETWEEN_PUBLICATIONS = 15.0
_PUBLISHING_SHARE = 0.05  # maximum share of the time
_MAX_QUEUED = 256  # events; each may hold a result
# Events or results per transaction, so that it takes no longer than a request may.
_MAX_TOGETHER = 25
# How long `close` waits for the next request of the thread. Opening the store sends none, and
# creates the tables of a new file.
_SECONDS_OF_SILENCE, _SECONDS_OF_OPENING = 15.0, 60.0
_SECONDS_OF_A_REQUEST = 3.0  # requests take less in a working store
_NO_ANSWER = (
    "The MLflow store does not answer. The missing results are in the journal; run the same "
    "command again, or `{repair}`, to record them."
)

_Item = TypeVar("_Item")


class _Abandoned(Exception):
    """Raised in the thread once the driver has stopped waiting for it."""


class _Gate:
    """The gate where the thread waits before each request while the driver pauses it.

    Attributes:
        last_pass: The last time when the thread came here.
        patience: Seconds that the thread may take until it comes again.
        seconds_paused: Total time that it has waited here.
        is_abandoned: Whether to end the thread here.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._is_paused = self._is_busy = self.is_abandoned = False
        self.last_pass = time.monotonic()
        self.patience = _SECONDS_OF_SILENCE
        self.seconds_paused = 0.0

    def enter(self) -> None:
        """Wait while paused; the thread is busy from then on."""
        start = self.last_pass = time.monotonic()
        with self._changed:
            self.leave()
            self._changed.wait_for(lambda: not self._is_paused)
            self._is_busy = True
        self.seconds_paused += time.monotonic() - start
        if self.is_abandoned:
            raise _Abandoned

    def leave(self) -> None:
        """Mark the thread as idle, so that a pause need not wait for it."""
        with self._changed:
            self._is_busy = False
            self._changed.notify_all()

    def each(self, items: Iterable[_Item]) -> Iterator[_Item]:
        """Yield the items, each of them while not paused."""
        for item in items:
            self.enter()
            yield item

    def pause(self) -> None:
        """Pause the thread, and wait until it is idle, but not for a server that hangs."""
        with self._changed:
            self._is_paused = True
            self._changed.wait_for(lambda: not self._is_busy, _SECONDS_OF_A_REQUEST)

    def resume(self) -> None:
        """Let the thread continue."""
        with self._changed:
            self._is_paused = False
            self._changed.notify_all()


class MlflowSync(threading.Thread):
    """A thread that writes the driver's events to the store, once it is started.

    Args:
        connect: Opens the store for writing; raises StoreUnavailable if there is none.
        plans: The sweeps that the events belong to.
        journal: The file of the journal; read at the start, and again after an outage.
    """

    def __init__(
        self, connect: Callable[[], RunWriter], plans: Sequence[Plan], journal: Path
    ) -> None:
        super().__init__(name="mlflow-sync", daemon=True)
        self._gate = _Gate()
        # Items are (event, attempt), or None to end the thread.
        self._events: queue.SimpleQueue[tuple[TrialEvent, int] | None] = queue.SimpleQueue()
        self._sent: dict[str, int] = {}  # trial_id -> newest attempt whose result was sent
        self._has_dropped_result = threading.Event()
        self._writer: RunWriter | None = None  # is None while the store cannot be written to
        self._error = ""  # the reason, in one sentence
        self._connect = connect
        self._plans = plans
        self._trials = {plan.key: trials_with_cells(plan) for plan in plans}
        self._journal = journal
        self._shown: dict[str, int] = {}  # trial_id -> newest attempt that catching up has written
        self._refused: dict[str, str] = {}  # trial_id -> why the store refuses its result
        self._next_try = 0.0
        self._next_publication = time.monotonic() + _SECONDS_BETWEEN_PUBLICATIONS

    def send(self, event: TrialEvent, attempt: int) -> None:
        """Queue an event, which the journal has already; return at once."""
        if isinstance(event, Finished):
            self._sent[event.trial_id] = attempt
        if self._events.qsize() < _MAX_QUEUED:
            self._events.put((event, attempt))
        elif isinstance(event, Finished):
            self._has_dropped_result.set()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Write nothing for the length of the block, for a timing.

        The block begins when the request in flight has ended, or after seconds if the server hangs.
        """
        self._gate.pause()
        try:
            yield
        finally:
            self._gate.resume()

    def close(self, max_seconds: float = math.inf) -> tuple[RunWriter | None, str]:
        """Write everything that is left, as long as the store answers.

        Args:
            max_seconds: Maximum total time.

        Returns:
            The writer, or None if the store is not available; and one sentence about an error,
            after which the store lacks results, or an empty text.
        """
        self._events.put(None)
        self._gate.last_pass = time.monotonic()
        self._gate.resume()
        until = time.monotonic() + max_seconds
        while self.is_alive():
            if time.monotonic() > min(until, self._gate.last_pass + self._gate.patience):
                self._gate.is_abandoned = True
                return None, self._error or _NO_ANSWER.format(repair=command("verify", "--repair"))
            self.join(0.1)
        return self._writer, self._error or self._refusal()

    def run(self) -> None:
        """Catch up, write events until the end, and publish."""
        try:
            self._attempt()
            while self._write_next_events():
                if time.monotonic() > self._next_publication or self._has_to_catch_up():
                    self._attempt(self._publish)
            self._next_try = 0.0
            self._attempt(self._publish)
        except _Abandoned:
            self._writer = None
        except BaseException as error:  # mark the store as incomplete on any error
            self._error = f"the writer failed: {type(error).__name__}: {error}"
            self._writer = None
        finally:
            self._gate.leave()

    def _refusal(self) -> str:
        """Return one sentence about the results that the store has refused; empty if none."""
        if not self._refused:
            return ""
        trial_id, reason = next(iter(self._refused.items()))
        return (
            f"The store rejected results ({len(self._refused)}; they are in the journal). Trial "
            f"{trial_id}: {reason}"
        )

    def _write_next_events(self) -> bool:
        """Wait up to a second for events, and write all that arrived; return False at the end."""
        self._gate.leave()
        items = []
        with suppress(queue.Empty):
            items.append(self._events.get(timeout=1.0))
            while items[-1] is not None and len(items) < _MAX_TOGETHER:
                items.append(self._events.get_nowait())
        events = [item for item in items if item is not None]
        if events:
            self._attempt(partial(self._write_events, events))
        return len(events) == len(items)

    def _has_to_catch_up(self) -> bool:
        return self._has_dropped_result.is_set() and self._events.empty()

    def _attempt(self, write: Callable[[RunWriter], None] | None = None) -> None:
        """Catch up if results are missing, then write; do nothing without a working store."""
        self._gate.enter()
        try:
            if self._writer is None or self._has_to_catch_up():
                if time.monotonic() < self._next_try:
                    return
                self._writer = self._caught_up()
                self._error = ""
            if write is not None:
                write(self._writer)
        except (StoreUnavailable, JournalError) as error:
            self._error = str(error)
            self._writer = None
            self._next_try = time.monotonic() + _SECONDS_BETWEEN_TRIES

    def _caught_up(self) -> RunWriter:
        """Open the store, and update it to the journal."""
        self._has_dropped_result.clear()
        writer = self._open()
        with Journal(self._journal, read_only=True) as journal:
            entries = journal.entries()
            for plan in self._plans:
                trials = self._trials[plan.key]
                writer.open_sweep(plan.about)
                writer.mark_edition(plan.key, trials)
                lacking = writer.lacking(plan.key, trials, entries)
                trial_ids = [t.trial_id for t in plan.trials if t.trial_id in lacking]
                for first in range(0, len(trial_ids), _MAX_TOGETHER):
                    with writer.together():
                        for result in journal.results(trial_ids[first : first + _MAX_TOGETHER]):
                            self._write_to(writer, plan.key, Finished(result), attempt=0)
        for entry in entries:
            self._shown[entry.trial_id] = max(entry.attempt, self._shown.get(entry.trial_id, 0))
        return writer

    def _open(self) -> RunWriter:
        self._gate.patience = _SECONDS_OF_OPENING
        try:
            writer = self._connect()
        finally:
            self._gate.patience = _SECONDS_OF_SILENCE
        writer.call_before_requests(self._gate.enter)
        return writer

    def _write_events(self, events: Sequence[tuple[TrialEvent, int]], writer: RunWriter) -> None:
        with writer.together() if len(events) > 1 else nullcontext():
            for event, attempt in events:
                self._write_event(event, attempt, writer)

    def _write_event(self, event: TrialEvent, attempt: int, writer: RunWriter) -> None:
        if attempt <= self._shown.get(event.trial_id, -1):
            return  # catching up has written the end of the attempt while the event was queued
        if not isinstance(event, Finished) and attempt <= self._sent.get(event.trial_id, -1):
            return  # its result is queued already, and includes everything
        for plan in self._plans:
            if event.trial_id in self._trials[plan.key]:
                self._write_to(writer, plan.key, event, attempt)

    def _write_to(self, writer: RunWriter, key: Key, event: TrialEvent, attempt: int) -> None:
        """Write the event, twice if the store refuses it; record a result that it refuses again."""
        trial, cells = self._trials[key][event.trial_id]
        for _ in range(2):  # the second request shares nothing with what was sent before
            try:
                match event:
                    case Started():
                        writer.start_trial(key, trial, cells, attempt)
                    case Progressed(points=points):
                        writer.log_points(key, trial.trial_id, points)
                    case Finished(result=result):
                        writer.finish_trial(key, trial, cells, result)
            except StoreRefuses as error:
                if isinstance(event, Finished):
                    self._refused[event.trial_id] = str(error)
            else:
                self._refused.pop(event.trial_id, None)
                return

    def _publish(self, writer: RunWriter) -> None:
        """Send the current files of every sweep's parent."""
        start, paused = time.monotonic(), self._gate.seconds_paused
        with Journal(self._journal, read_only=True) as journal:
            for plan in self._plans:
                writer.publish(plan.key, self._files_of(plan, journal))
        spent = time.monotonic() - start - (self._gate.seconds_paused - paused)
        pause = max(_SECONDS_BETWEEN_PUBLICATIONS, spent / _PUBLISHING_SHARE)
        self._next_publication = time.monotonic() + pause

    def _files_of(self, plan: Plan, journal: Journal) -> dict[str, bytes]:
        """Return the two frames, and the journal's own lines."""
        from bakeoff.suite.reporting.frames import sweep_files

        gate, trial_ids = self._gate, [trial.trial_id for trial in plan.trials]
        lines = exported(plan, journal, gate.each)
        gate.enter()
        shown = with_history(plan, journal)
        files = sweep_files(shown, by_trial(gate.each(journal.results(trial_ids))))
        return {**files, JOURNAL_FILE: lines}


def trials_with_cells(plan: Plan) -> dict[str, tuple[Trial, list[Cell]]]:
    """Return trial_id -> the trial, and the cells that it fills, or its substitute cells."""
    found: dict[str, tuple[Trial, list[Cell]]] = {t.trial_id: (t, []) for t in plan.trials}
    for cell in (*plan.cells, *parent_cells(plan)):
        if not cell.reason:
            found[cell.trial_id][1].append(cell)
    return found


class EventLog:
    """The journal, and the copy to MLflow if it is installed."""

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
                if result.trial_id not in self._attempts:  # its process died before it started
                    self._attempts[result.trial_id] = self._journal.begin(result.trial_id, "")
                self._journal.commit(result, self._attempts[result.trial_id])
            case Remarked() | RunAgainEagerly():
                return  # only displayed
            case Waiting(num_trials=num_trials, reason=reason):
                self._journal.note_waiting(num_trials, reason)
                return
        if self._sync is not None:
            self._sync.send(event, self._attempts[event.trial_id])

    def store_paused(self) -> AbstractContextManager[None]:
        """Send nothing to MLflow for the length of the block, for a timing."""
        return nullcontext() if self._sync is None else self._sync.paused()
