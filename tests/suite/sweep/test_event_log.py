"""Tests that an event is in the journal before it is sent to the store."""

from __future__ import annotations

from pathlib import Path

import pytest

from bakeoff.suite.events import Event, Finished, Progressed, Started, Waiting
from bakeoff.suite.journal.journal import Journal
from bakeoff.suite.schema import Result, Status
from bakeoff.suite.sweep.mlflow_sync import EventLog
from tests.suite.heads_sweep import HEADS

HERE = HEADS.place
(POINT,) = HEADS.points((1,))


def result(status: Status = Status.OK) -> Result:
    return Result(trial_id="a", status=status, provenance=HERE, seconds=1.0)


class FakeSync:
    """A fake writer that records each event, and the number of results in the journal then."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.told: list[tuple[Event, int, int]] = []

    def send(self, event: Event, attempt: int) -> None:
        with Journal(self.path, read_only=True) as journal:
            self.told.append((event, attempt, len(journal.entries())))


def test_the_journal_holds_a_result_before_the_store_hears_of_it(
    journal: Journal, path: Path
) -> None:
    sync = FakeSync(path)
    log = EventLog(journal, sync)  # type: ignore[arg-type]
    story: list[Event] = [Started("a", "here"), Progressed("a", (POINT,)), Finished(result())]
    for event in story:
        log.write(event)
    assert sync.told == [(story[0], 1, 0), (story[1], 1, 0), (story[2], 1, 1)]


def test_without_a_store_the_journal_is_kept_all_the_same(journal: Journal) -> None:
    log = EventLog(journal, None)
    for event in (Started("a", "here"), Finished(result())):
        log.write(event)
    with log.store_paused():
        assert list(journal.results("a")) == [result()]


def test_a_process_that_died_before_it_began_leaves_its_result(journal: Journal) -> None:
    """Check a trial that a killed driver had started, and whose new process dies at once."""
    journal.begin("a", "a driver that was killed")
    EventLog(journal, None).write(Finished(result(Status.CRASHED)))
    assert list(journal.results("a")) == [result(Status.CRASHED)]
    assert [attempt.attempt for attempt in journal.attempts()] == [2]


def test_a_result_that_the_journal_cannot_hold_is_told_to_nobody(
    journal: Journal, path: Path
) -> None:
    sync = FakeSync(path)
    log = EventLog(journal, sync)  # type: ignore[arg-type]
    log.write(Started("a", "here"))
    journal.close()
    with pytest.raises(Exception, match="closed database"):
        log.write(Finished(result()))
    assert len(sync.told) == 1


def test_what_waits_is_for_who_asks_and_not_for_the_store(journal: Journal, path: Path) -> None:
    sync = FakeSync(path)
    log = EventLog(journal, sync)  # type: ignore[arg-type]
    for waiting in (Waiting(3, "asks for 1 GPU"), Waiting(2, "asks for 1 GPU")):
        log.write(waiting)
    with Journal(path, read_only=True) as reader:
        assert reader.waiting() == (2, "asks for 1 GPU")
    assert sync.told == []
