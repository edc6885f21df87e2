"""Tests for the writer to the store: behind, disconnected, failing or paused, it loses nothing."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from bakeoff.suite.events import Event, Finished, Progressed, Started
from bakeoff.suite.journal.journal import Journal
from bakeoff.suite.journal.sqlite_schema import JournalEntry, JournalError
from bakeoff.suite.planning.plan import plan
from bakeoff.suite.schema import (
    About,
    Cell,
    Measurement,
    Plan,
    Point,
    Provenance,
    Result,
    Status,
    Trial,
)
from bakeoff.suite.sweep import mlflow_sync
from bakeoff.suite.sweep.mlflow_sync import EventLog, MlflowSync
from bakeoff.suite.tracking.client import StoreRefuses, StoreUnavailable
from tests.suite.heads_sweep import HEADS
from tests.workplace import Workplace

HERE = HEADS.place
(POINT,) = HEADS.points((1,))


class FakeStore:
    """A fake store, which can be unavailable, slow or faulty."""

    def __init__(self, plan: Plan, journal: Path) -> None:
        self.plan = plan
        self.journal = journal
        self.results: dict[tuple[str, str], str] = {}  # (trial_id, environment_id) -> hash
        self.begun: list[tuple[str, int]] = []
        self.points: list[str] = []
        self.published: dict[tuple[str, str], Mapping[str, bytes]] = {}
        self.num_writes = 0
        self.num_connections = 0
        self.is_away = False
        self.fault: Exception | None = None
        self.refused = ""  # the id of a trial that the store refuses
        self.gate = threading.Event()
        self.gate.set()
        self.before_request: Callable[[], None] = lambda: None

    def connect(self) -> FakeWriter:
        self.num_connections += 1
        self.reach()
        return FakeWriter(self)

    def reach(self) -> None:
        self.before_request()
        self.gate.wait()
        if self.fault is not None:
            raise self.fault
        if self.is_away:
            raise StoreUnavailable("The MLflow store is not available: nobody answers.")
        self.num_writes += 1


class FakeWriter:
    """The methods of `RunWriter` that the writer's thread calls."""

    def __init__(self, store: FakeStore) -> None:
        self.store = store

    def call_before_requests(self, callback: Callable[[], None]) -> None:
        self.store.before_request = callback

    @contextmanager
    def together(self) -> Iterator[None]:
        """Undo the writes of the block after an error, as a database file does."""
        before = dict(self.store.results)
        try:
            yield
        except BaseException:
            self.store.results = before
            raise

    def open_sweep(self, about: About) -> None:
        self.store.reach()

    def lacking(
        self, key: object, trials: Mapping[str, object], entries: Iterable[JournalEntry]
    ) -> set[str]:
        self.store.reach()
        shown = {(*place, sha256) for place, sha256 in self.store.results.items()}
        return {
            e.trial_id for e in entries if (e.trial_id, e.environment_id, e.sha256) not in shown
        }

    def mark_edition(self, key: object, trial_ids: Collection[str]) -> None:
        assert set(trial_ids) == {trial.trial_id for trial in self.store.plan.trials}

    def start_trial(self, key: object, trial: Trial, cells: Sequence[Cell], attempt: int) -> None:
        self.store.reach()
        self.store.begun.append((trial.trial_id, attempt))

    def log_points(self, key: object, trial_id: str, points: Sequence[Point]) -> None:
        self.store.reach()
        self.store.points.append(trial_id)

    def finish_trial(
        self, key: object, trial: Trial, cells: Sequence[Cell], result: Result
    ) -> None:
        self.store.reach()
        if trial.trial_id == self.store.refused:
            raise StoreRefuses("The MLflow store refuses: a parameter is too long.")
        assert cells
        self.store.results[trial.trial_id, result.provenance.environment_id] = result.sha256

    def publish(self, key: tuple[str, str], files: Mapping[str, bytes]) -> None:
        self.store.reach()
        self.store.published[key] = files


@pytest.fixture
def store(tmp_path: Path) -> FakeStore:
    ablation = Workplace(tmp_path).ablation(values=[1e-3, 2e-3, 4e-3], probes=["quality"])
    return FakeStore(plan(ablation), tmp_path / "journal.db")


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mlflow_sync, "_SECONDS_BETWEEN_TRIES", 0.01)


@contextmanager
def running(store: FakeStore) -> Iterator[tuple[EventLog, MlflowSync, Journal]]:
    with Journal(store.journal) as journal:
        sync = MlflowSync(store.connect, [store.plan], store.journal)  # type: ignore[arg-type]
        sync.start()
        try:
            yield EventLog(journal, sync), sync, journal
        finally:
            store.gate.set()
            sync.close()


@contextmanager
def caught_up(store: FakeStore) -> Iterator[tuple[EventLog, MlflowSync, Journal]]:
    """Yield the parts once an empty journal is synchronised, which takes two writes."""
    with running(store) as parts:
        assert soon(lambda: store.num_writes >= 2)
        yield parts


def result(trial: Trial, status: Status = Status.OK, place: Provenance = HERE) -> Result:
    number = Measurement(metric="accuracy", value=0.5, unit="1", better="higher")
    return Result(
        trial_id=trial.trial_id,
        status=status,
        provenance=place,
        seconds=1.0,
        measurements=(number,) if status is Status.OK else (),
        points=(POINT,),
    )


def events(trial: Trial, status: Status = Status.OK) -> list[Event]:
    points = Progressed(trial.trial_id, (POINT,))
    return [Started(trial.trial_id, "here"), points, Finished(result(trial, status))]


def run(log: EventLog, trials: Sequence[Trial], status: Status = Status.OK) -> None:
    for trial in trials:
        for event in events(trial, status):
            log.write(event)


def soon(is_so: Callable[[], bool]) -> bool:
    until = time.monotonic() + 10
    while time.monotonic() < until:
        if is_so():
            return True
        time.sleep(0.005)
    return False


def hashes(trials: Sequence[Trial], place: Provenance = HERE) -> dict[tuple[str, str], str]:
    found = [result(trial, place=place) for trial in trials]
    return {(r.trial_id, r.provenance.environment_id): r.sha256 for r in found}


def assert_all_arrives(store: FakeStore, sync: MlflowSync) -> None:
    writer, trouble = sync.close()
    assert (writer is not None, trouble) == (True, "")
    assert store.results == hashes(store.plan.trials)


def test_everything_arrives_once_and_in_order(store: FakeStore) -> None:
    with caught_up(store) as (log, sync, _):
        for trial in store.plan.trials:
            started, progressed, finished = events(trial)
            log.write(started)
            assert soon(lambda: len(store.begun) > len(store.points))
            log.write(progressed)
            assert soon(lambda: len(store.begun) == len(store.points))
            log.write(finished)
        assert_all_arrives(store, sync)
    assert store.begun == [(trial.trial_id, 1) for trial in store.plan.trials]
    assert store.points == [trial.trial_id for trial in store.plan.trials]
    files = {"results.parquet", "curves.parquet", "journal.jsonl.gz"}
    assert set(store.published[store.plan.key]) == files


def test_what_the_journal_holds_and_the_store_lacks_is_brought_at_the_start(
    store: FakeStore,
) -> None:
    first, *others = store.plan.trials
    store.results = hashes([first])
    with running(store) as (_, sync, journal):
        sync.close()
        for trial in store.plan.trials:
            journal.commit(result(trial), journal.begin(trial.trial_id, ""))
    with running(store) as (_, sync, _):
        before = store.num_writes
        sync.close()
    assert store.results == hashes(store.plan.trials)
    # Connect, open, the missing results, publish: the existing result is not sent again.
    assert store.num_writes - before <= 2 + len(others) + 1


def test_a_second_environment_is_brought_too(store: FakeStore) -> None:
    elsewhere = replace(HERE, device="Another CPU")
    trial = store.plan.trials[0]
    with Journal(store.journal) as journal:
        assert journal.adopt(result(trial))
        assert journal.adopt(result(trial, place=elsewhere))
    with running(store) as (_, sync, _):
        sync.close()
    assert store.results == hashes([trial]) | hashes([trial], elsewhere)


def test_an_outage_loses_nothing(store: FakeStore) -> None:
    first, second, *rest = store.plan.trials
    with running(store) as (log, sync, _):
        run(log, [first])
        assert soon(lambda: len(store.results) == 1)
        store.is_away = True
        run(log, [second])

        def has_knocked_again() -> bool:
            log.write(Progressed(second.trial_id, (POINT,)))
            return store.num_connections > 1

        assert soon(has_knocked_again)
        assert len(store.results) == 1
        store.is_away = False
        run(log, rest)
        assert_all_arrives(store, sync)


def test_a_store_that_was_away_all_the_time_is_said_and_made_up_for_later(store: FakeStore) -> None:
    store.is_away = True
    with running(store) as (log, sync, journal):
        run(log, store.plan.trials)
        writer, trouble = sync.close()
        assert len(journal.done()) == len(store.plan.trials)
    assert writer is None
    assert trouble == "The MLflow store is not available: nobody answers."
    assert store.results == {}
    store.is_away = False
    with running(store) as (_, sync, _):
        assert_all_arrives(store, sync)


def test_a_store_that_comes_back_at_the_very_end_is_in_time(
    store: FakeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mlflow_sync, "_SECONDS_BETWEEN_TRIES", 1000.0)
    store.is_away = True
    with running(store) as (log, sync, _):
        run(log, store.plan.trials)
        assert soon(lambda: store.num_connections == 1)
        store.is_away = False
        assert sync.close()[1] == ""
    assert store.results == hashes(store.plan.trials)


@pytest.mark.bad_input(38)
def test_the_driver_never_waits_for_a_store_that_hangs(store: FakeStore) -> None:
    store.gate.clear()
    with running(store) as (log, sync, journal):
        start = time.monotonic()
        run(log, store.plan.trials)
        assert time.monotonic() - start < 2
        assert len(journal.done()) == len(store.plan.trials)
        store.gate.set()
        sync.close()
    assert store.results == hashes(store.plan.trials)
    assert store.begun == []  # the results were sent while the starts were still queued


def test_a_fault_of_ours_is_said_and_not_taken_for_an_outage(store: FakeStore) -> None:
    with caught_up(store) as (log, sync, journal):
        store.fault = TypeError("cells is None")
        run(log, store.plan.trials)
        writer, trouble = sync.close()
        assert len(journal.done()) == len(store.plan.trials)
    assert writer is None
    assert trouble == "the writer failed: TypeError: cells is None"


def test_while_it_is_paused_nothing_is_written_and_the_pause_ends_even_by_an_error(
    store: FakeStore,
) -> None:
    with caught_up(store) as (log, _, journal):
        with suppress(KeyboardInterrupt), log.store_paused():
            before = store.num_writes
            run(log, store.plan.trials)
            time.sleep(1.3)  # longer than the writer waits for an event
            assert store.num_writes == before
            assert len(journal.done()) == len(store.plan.trials)  # the journal does not pause
            raise KeyboardInterrupt
        assert soon(lambda: store.results == hashes(store.plan.trials))


def test_a_pause_begins_when_the_write_in_progress_has_ended(store: FakeStore) -> None:
    with caught_up(store) as (log, sync, _):
        store.gate.clear()
        run(log, store.plan.trials)
        time.sleep(0.1)  # the first write hangs at the gate
        pause = sync.paused()
        pausing = threading.Thread(target=pause.__enter__)
        pausing.start()
        pausing.join(0.2)
        assert pausing.is_alive()
        before = store.num_writes
        store.gate.set()
        pausing.join(5)
        assert not pausing.is_alive()
        assert store.num_writes == before + 1
        pause.__exit__(None, None, None)


def test_a_timing_does_not_wait_for_a_store_that_hangs(
    store: FakeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mlflow_sync, "_SECONDS_OF_A_REQUEST", 0.1)
    with caught_up(store) as (log, _, _):
        store.gate.clear()
        run(log, store.plan.trials)
        time.sleep(0.1)  # the first write hangs at the gate
        before = store.num_writes
        with log.store_paused():
            store.gate.set()  # the pending request ends, and no other follows
            time.sleep(0.3)
            assert store.num_writes <= before + 1
        assert soon(lambda: store.results == hashes(store.plan.trials))


def test_a_trial_that_ended_while_it_waited_in_line_costs_one_write(store: FakeStore) -> None:
    with caught_up(store) as (log, sync, _):
        first, *others = store.plan.trials
        store.gate.clear()
        log.write(Started(first.trial_id, "here"))
        time.sleep(0.1)  # the writer hangs at the gate with this event; all others are queued
        run(log, others)
        store.gate.set()
        sync.close()
    assert store.begun == [(first.trial_id, 1)]
    assert store.points == []
    assert store.results == hashes(others)


def test_a_new_attempt_at_what_failed_before_is_begun(store: FakeStore) -> None:
    trial = store.plan.trials[0]
    with running(store) as (log, sync, _):
        run(log, [trial], Status.ERROR)
        sync.close()
    store.begun.clear()
    with caught_up(store) as (log, sync, _):
        log.write(Started(trial.trial_id, "here"))
        assert soon(lambda: bool(store.begun))
        log.write(Finished(result(trial)))
        sync.close()
    assert store.begun == [(trial.trial_id, 2)]
    assert store.results == hashes([trial])


@pytest.mark.whole
def test_frames_are_published_as_the_sweep_grows(
    store: FakeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mlflow_sync, "_SECONDS_BETWEEN_PUBLICATIONS", 0.0)
    with running(store) as (log, _, _):
        run(log, store.plan.trials[:1])
        assert soon(lambda: store.plan.key in store.published)
        first = store.published[store.plan.key]
        run(log, store.plan.trials[1:])
        assert soon(lambda: store.published[store.plan.key] != first)


def test_events_of_two_plans_that_share_a_trial_reach_both(store: FakeStore) -> None:
    twin = replace(store.plan, about=replace(store.plan.about, ablation="twin"))
    finished: list[object] = []

    class Noting(FakeWriter):
        def finish_trial(self, key: object, *rest: object) -> None:
            finished.append(key)

    with Journal(store.journal) as journal:
        sync = MlflowSync(lambda: Noting(store), [store.plan, twin], store.journal)  # type: ignore[arg-type,return-value]
        sync.start()
        assert soon(lambda: store.num_writes >= 2)
        run(EventLog(journal, sync), store.plan.trials[:1])
        sync.close()
    assert finished == [store.plan.key, twin.key]


@pytest.mark.whole
def test_a_timing_waits_for_one_request_of_a_long_catching_up_and_no_more(store: FakeStore) -> None:
    with Journal(store.journal) as journal:
        for trial in store.plan.trials:
            journal.commit(result(trial), journal.begin(trial.trial_id, "here"))
    num_writes = 0

    def slowly() -> None:
        nonlocal num_writes
        store.before_request()
        num_writes += 1
        time.sleep(0.2)

    store.reach = slowly  # type: ignore[method-assign]
    with running(store) as (_, sync, _):
        assert soon(lambda: len(store.results) == 1)
        with sync.paused():
            before = num_writes
            time.sleep(0.5)
            assert num_writes == before
            assert len(store.results) < len(store.plan.trials)
        assert soon(lambda: store.results == hashes(store.plan.trials))


def test_the_line_is_short_however_long_the_store_hangs(
    store: FakeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check that events beyond the queue's limit are sent from the journal."""
    monkeypatch.setattr(mlflow_sync, "_MAX_QUEUED", 4)
    store.gate.clear()
    with running(store) as (log, sync, _):
        for trial in store.plan.trials:
            log.write(Started(trial.trial_id, "here"))
            for _ in range(100):
                log.write(Progressed(trial.trial_id, (POINT,)))
            log.write(Finished(result(trial)))
        assert sync._events.qsize() == 4
        store.gate.set()
        assert_all_arrives(store, sync)


def test_what_found_no_place_is_brought_while_the_sweep_goes_on(
    store: FakeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mlflow_sync, "_MAX_QUEUED", 2)
    with caught_up(store) as (log, _, _):
        with log.store_paused():
            run(log, store.plan.trials)
        assert soon(lambda: store.results == hashes(store.plan.trials))


@pytest.mark.parametrize(("silence", "max_seconds"), [(0.3, math.inf), (15.0, 0.3)])
def test_a_store_that_hangs_does_not_hold_up_the_end(
    store: FakeStore, monkeypatch: pytest.MonkeyPatch, silence: float, max_seconds: float
) -> None:
    monkeypatch.setattr(mlflow_sync, "_SECONDS_OF_SILENCE", silence)
    with caught_up(store) as (log, sync, _):
        store.gate.clear()
        run(log, store.plan.trials)
        start = time.monotonic()
        writer, trouble = sync.close(max_seconds)
        assert time.monotonic() - start < 10
        assert writer is None
        assert "does not answer" in trouble
        before = store.num_writes
        store.gate.set()  # the pending request ends, and no other follows
        assert soon(lambda: not sync.is_alive())
        assert store.num_writes <= before + 1


def test_a_journal_that_cannot_be_read_for_a_while_is_read_later(
    store: FakeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = mlflow_sync.Journal
    faults = iter([JournalError("it is locked.")])

    def faulty(path: Path, *, read_only: bool) -> Journal:
        for fault in faults:
            raise fault
        return opened(path, read_only=read_only)

    with Journal(store.journal) as journal:
        monkeypatch.setattr(mlflow_sync, "Journal", faulty)
        sync = MlflowSync(store.connect, [store.plan], store.journal)  # type: ignore[arg-type]
        sync.start()
        run(EventLog(journal, sync), store.plan.trials)
        assert_all_arrives(store, sync)


def test_time_spent_at_the_gate_is_no_time_spent_on_publishing(store: FakeStore) -> None:
    with caught_up(store) as (_, sync, _):
        with sync.paused():
            sync._next_publication = 0.0
            time.sleep(0.2)
        assert soon(lambda: store.plan.key in store.published)
        assert soon(lambda: sync._next_publication > time.monotonic())
        assert sync._next_publication - time.monotonic() <= 15.0


def test_a_refused_result_keeps_no_other_back_and_is_brought_by_the_next_run(
    store: FakeStore,
) -> None:
    trial_ids = {trial.trial_id for trial in store.plan.trials}
    store.refused = store.plan.trials[1].trial_id
    with running(store) as (log, sync, _):
        run(log, store.plan.trials)
        writer, trouble = sync.close()
    assert {trial_id for trial_id, _ in store.results} == trial_ids - {store.refused}
    assert writer is not None  # the report is still made
    assert trouble.startswith("The store rejected results (1; they are in the journal). ")
    assert "a parameter is too long" in trouble
    store.refused = ""
    with running(store) as (_, sync, _):
        assert sync.close()[1] == ""
    assert {trial_id for trial_id, _ in store.results} == trial_ids
