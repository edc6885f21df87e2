"""The one writer: tells the store what the journal holds, beside the driver, never in its way.

A thread of its own. While the store cannot be reached live points are dropped, results stay in
the journal, and the thread catches up from there as soon as the store answers again. So the line
of what waits is short, however long an outage is: what finds no place in it is in the journal.

Before each request the thread stands at a gate: a timing need never wait for more than one, and
a store that hangs holds up no end.
"""

from __future__ import annotations

import math
import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

from suite.events import Finished, Progressed, Started
from suite.events import TrialEvent as Event
from suite.journal.export import JOURNAL_FILE, packed
from suite.journal.journal import Journal
from suite.journal.sqlite_schema import JournalError
from suite.mlflow_store import StoreRefuses, StoreUnavailable
from suite.projection import variant_of
from suite.recorder import Recorder
from suite.reporting.frames import by_trial, sweep_files
from suite.schema import Cell, Plan

_SECONDS_BETWEEN_TRIES = 5.0
_SECONDS_BETWEEN_PUBLICATIONS = 15.0
_SHARE_OF_PUBLISHING = 0.05  # of the time, at most
_MOST_IN_LINE = 256  # events; each may hold a result
# What the end waits for a sign of life: a request, or opening the store, which asks a server for
# nothing, and makes the tables of a new file.
_SECONDS_OF_SILENCE, _SECONDS_OF_OPENING = 15.0, 60.0
_SECONDS_OF_A_REQUEST = 3.0  # those that work here take less
_NO_ANSWER = (
    "The MLflow store does not answer; what it lacks stands in the journal, and the same command "
    "again, or `bakeoff verify --repair`, brings it there."
)

_Item = TypeVar("_Item")


class _GivenUp(Exception):
    """Nobody waits for the writer any more: it sends nothing further."""


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
        self._cells = {plan.key: cells_by_trial(plan) for plan in plans}
        self._queue: queue.Queue[tuple[Event, int] | None] = queue.Queue(_MOST_IN_LINE)
        self._is_behind = False  # a result found no place in the line
        self._is_closing = False
        self._is_opening = False
        self._is_given_up = False
        self._ended: dict[str, int] = {}  # trial_id -> newest attempt whose result was told
        self._shown: dict[str, int] = {}  # trial_id -> newest attempt whose result the store has
        self._refused: dict[str, str] = {}  # trial_id -> why the store does not take its result
        self._may_write = threading.Event()
        self._may_write.set()
        self._writes = threading.Lock()
        self._recorder: Recorder | None = None
        self._trouble = ""
        self._next_try = 0.0
        self._next_publication = time.monotonic() + _SECONDS_BETWEEN_PUBLICATIONS
        self._last_sign = time.monotonic()  # of life, from the writer
        self._seconds_held = 0.0  # at the gate, in all
        self._thread = threading.Thread(target=self._write, name="outbox", daemon=True)

    def start(self) -> None:
        """Begin with what the journal holds and the store lacks."""
        self._thread.start()

    def tell(self, event: Event, attempt: int) -> None:
        """Take an event, which the journal has already; returns at once."""
        if isinstance(event, Finished):
            self._ended[event.trial_id] = attempt
        try:
            self._queue.put_nowait((event, attempt))
        except queue.Full:
            if isinstance(event, Finished):
                self._is_behind = True

    def pause(self) -> None:
        """Write nothing until `resume`: a timing is under way.

        Waits for the request in flight, unless it takes so long that it only waits itself, for a
        server that hangs.
        """
        self._may_write.clear()
        if self._writes.acquire(timeout=_SECONDS_OF_A_REQUEST):
            self._writes.release()

    def resume(self) -> None:
        """Write again."""
        self._may_write.set()

    def close(self, most_seconds: float = math.inf) -> tuple[Recorder | None, str]:
        """Write everything that is left, as long as the store answers.

        Args:
            most_seconds: How long this may take in all, for those who are in a hurry.

        Returns:
            The recorder, None where the store is away; and one sentence of what stood in the way:
            then the store lacks results.
        """
        self._is_closing = True
        self._last_sign = time.monotonic()
        self.resume()
        with suppress(queue.Full):  # only to wake it
            self._queue.put_nowait(None)
        until = time.monotonic() + most_seconds
        while self._thread.is_alive():
            now = time.monotonic()
            patience = _SECONDS_OF_OPENING if self._is_opening else _SECONDS_OF_SILENCE
            if now > min(until, self._last_sign + patience):
                self._is_given_up = True
                return None, self._trouble or _NO_ANSWER
            self._thread.join(0.1)
        return self._recorder, self._trouble or self._refusal()

    def _refusal(self) -> str:
        """One sentence of what the store, which answers, does not take."""
        if not self._refused:
            return ""
        trial_id, said = next(iter(self._refused.items()))
        return (
            f"The store lacks results that it does not take ({len(self._refused)}; the journal "
            f"holds them). Of trial {trial_id}: {said}"
        )

    def _gate(self) -> None:
        """Where the writer stands before each request, and while a timing is under way."""
        self._last_sign = start = time.monotonic()
        while not self._may_write.is_set():
            self._writes.release()
            self._may_write.wait()
            self._writes.acquire()
        self._seconds_held += time.monotonic() - start
        if self._is_given_up:
            raise _GivenUp

    def _gated(self, items: Iterable[_Item]) -> Iterator[_Item]:
        """The items, each of them when the gate is open."""
        for item in items:
            self._gate()
            yield item

    def _write(self) -> None:
        try:
            self._write_all()
        except _GivenUp:
            self._recorder = None
        except BaseException as error:  # whatever it is must not pass for a complete store
            self._trouble = f"the writer failed: {type(error).__name__}: {error}"
            self._recorder = None

    def _write_all(self) -> None:
        self._in_turn(self._catch_up)
        while (item := self._next_item()) is not None:
            for event, attempt in item:
                self._in_turn(partial(self._record, event, attempt))
            if self._is_behind and self._queue.empty():
                self._in_turn(self._catch_up)
            if time.monotonic() > self._next_publication:
                self._in_turn(self._publish)
        self._finish()

    def _next_item(self) -> list[tuple[Event, int]] | None:
        """One event, or none after a second; None at the end."""
        self._last_sign = time.monotonic()
        try:
            event = self._queue.get(timeout=0.0 if self._is_closing else 1.0)
        except queue.Empty:
            return None if self._is_closing else []
        if event is None:
            return None if self._queue.empty() else []
        return [event]

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
        except (StoreUnavailable, JournalError) as error:
            self._trouble = str(error)
            self._recorder = None
            self._next_try = time.monotonic() + _SECONDS_BETWEEN_TRIES

    def _finish(self) -> None:
        self._next_try = 0.0
        if self._is_behind:
            self._in_turn(self._catch_up)
        self._in_turn(self._publish)

    def _catch_up(self) -> None:
        """Bring the store to what the journal holds; a no-op where it is there already."""
        self._is_behind = False
        recorder = self._recorder = self._opened()
        with Journal(self._journal, read_only=True) as journal:
            entries = journal.entries()
            for plan in self._plans:
                known = recorder.open_sweep(plan.about)
                stale = recorder.delete_stale(plan.key, self._variants(plan))
                behind = {e.trial_id for e in entries if known.get(e.trial_id) != e.sha256}
                behind |= stale
                lacking = [t.trial_id for t in plan.trials if t.trial_id in behind]
                for result in self._gated(journal.results(lacking)):
                    self._offer(plan, Finished(result), attempt=0)
        for entry in entries:
            newest = max(entry.attempt, self._shown.get(entry.trial_id, 0))
            self._shown[entry.trial_id] = newest
        self._trouble = ""

    def _variants(self, plan: Plan) -> dict[str, str]:
        """trial_id -> what its child is called after, in this plan."""
        cells = self._cells[plan.key]
        return {t.trial_id: variant_of(t, cells.get(t.trial_id, [])) for t in plan.trials}

    def _opened(self) -> Recorder:
        self._is_opening = True
        try:
            recorder = self._connect()
        finally:
            self._is_opening = False
        recorder.attend(self._gate)
        return recorder

    def _record(self, event: Event, attempt: int) -> None:
        if attempt <= self._shown.get(event.trial_id, -1):
            return  # it waited in line while the catching up brought its end
        if not isinstance(event, Finished) and attempt <= self._ended.get(event.trial_id, -1):
            return  # its result stands in line already, and brings everything
        for plan in self._plans:
            if event.trial_id in self._cells[plan.key]:
                self._offer(plan, event, attempt)

    def _offer(self, plan: Plan, event: Event, attempt: int) -> None:
        """Tell it twice if need be: what is refused then keeps nothing else back."""
        for _ in range(2):  # the second time it shares nothing with what was sent before
            try:
                self._tell_recorder(plan, event, attempt)
            except StoreRefuses as error:
                if isinstance(event, Finished):
                    self._refused[event.trial_id] = str(error)
            else:
                self._refused.pop(event.trial_id, None)
                return

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
        """The files of every sweep's parent, as far as it has grown."""
        assert self._recorder is not None, "without trouble there is a recorder"
        start, held = time.monotonic(), self._seconds_held
        with Journal(self._journal, read_only=True) as journal:
            for plan in self._plans:
                self._recorder.publish(plan.key, self._files_of(plan, journal))
        spent = time.monotonic() - start - (self._seconds_held - held)
        pause = max(_SECONDS_BETWEEN_PUBLICATIONS, spent / _SHARE_OF_PUBLISHING)
        self._next_publication = time.monotonic() + pause

    def _files_of(self, plan: Plan, journal: Journal) -> dict[str, bytes]:
        """The two frames, and the journal's own lines."""
        trial_ids = [trial.trial_id for trial in plan.trials]
        lines = packed(plan, journal.statements(plan.key), self._gated(journal.kept(trial_ids)))
        self._gate()
        files = sweep_files(plan, by_trial(self._gated(journal.results(trial_ids))))
        return {**files, JOURNAL_FILE: lines}


def cells_by_trial(plan: Plan) -> dict[str, list[Cell]]:
    """trial_id -> the cells that it fills."""
    found: dict[str, list[Cell]] = {}
    for cell in plan.cells:
        if not cell.reason:
            found.setdefault(cell.trial_id, []).append(cell)
    return found
