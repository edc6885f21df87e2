"""At the deadline whatever makes events is interrupted; whatever takes them is left in peace."""

from __future__ import annotations

import importlib
import signal
import sys
import threading
import time
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from suite.events import Event, Started
from suite.timeouts import Deadline, TimeIsUp, in_time

ENDS: list[str] = []


@pytest.fixture(autouse=True)
def _alarms_are_left_as_they_were() -> Iterator[None]:
    ENDS.clear()
    before = signal.getsignal(signal.SIGALRM)
    yield
    assert signal.getsignal(signal.SIGALRM) == before
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def events(*pauses: float) -> Generator[Event, None, None]:
    """One after each pause."""
    try:
        for index, pause in enumerate(pauses):
            time.sleep(pause)
            yield Started(str(index), "here")
    finally:
        ENDS.append("closed")


def taken(making: Generator[Event, None, None], deadline: Deadline | None) -> tuple[int, bool]:
    """How many events came, and whether the deadline did."""
    count = 0
    try:
        for _ in in_time(making, deadline):
            count += 1
    except TimeIsUp:
        return count, True
    return count, False


def test_without_a_deadline_and_before_it_all_events_come() -> None:
    assert taken(events(0, 0), None) == (2, False)
    assert taken(events(0, 0), Deadline(60)) == (2, False)
    assert ENDS == ["closed", "closed"]


def test_what_makes_the_next_event_is_interrupted_and_closed() -> None:
    deadline = Deadline(0.3)
    assert taken(events(0, 0, 60), deadline) == (2, True)
    assert 0.3 <= time.monotonic() - deadline.begun < 1.0
    assert deadline.is_over
    assert ENDS == ["closed"]


def test_a_deadline_that_is_over_lets_nothing_begin() -> None:
    assert taken(events(0), Deadline(1.0, begun=time.monotonic() - 2)) == (0, True)


def test_an_event_that_was_handed_over_is_dealt_with_in_peace() -> None:
    heard = in_time(events(0, 0), Deadline(0.1))
    next(heard)
    time.sleep(0.3)  # the journal's fsync: not interrupted, or the sleep would raise
    with pytest.raises(TimeIsUp):
        next(heard)
    assert ENDS == ["closed"]


def test_who_catches_everything_is_interrupted_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("suite.timeouts._SECONDS_BETWEEN_BREAK_INS", 0.2)

    def stubborn() -> Generator[Event, None, None]:
        try:
            time.sleep(60)
        except BaseException:
            ENDS.append("caught")
        time.sleep(60)
        yield Started("never", "here")

    deadline = Deadline(0.2)
    assert taken(stubborn(), deadline) == (0, True)
    assert ENDS == ["caught"]
    assert time.monotonic() - deadline.begun < 2.0


def importing(module: Path, seconds: float) -> Generator[Event, None, None]:
    module.write_text(f"import time\ntime.sleep({seconds})\nis_whole = True")
    importlib.import_module(module.stem)
    ENDS.append("imported")
    time.sleep(60)
    yield Started("never", "here")


def test_an_import_is_not_broken_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    assert taken(importing(tmp_path / "imported_slowly.py", 0.4), Deadline(0.2)) == (0, True)
    assert sys.modules.pop("imported_slowly").is_whole
    assert ENDS == ["imported"]


def test_an_import_that_never_ends_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("suite.timeouts._MOST_SECONDS_OF_AN_IMPORT", 0.3)
    assert taken(importing(tmp_path / "imported_never.py", 60), Deadline(0.1)) == (0, True)
    assert ENDS == []


def test_what_the_interruption_becomes_on_its_way_is_the_deadline_all_the_same() -> None:
    def through_c() -> Generator[Event, None, None]:
        try:
            time.sleep(60)
        except TimeIsUp as error:
            raise SystemError("returned a result with an exception set") from error
        yield Started("never", "here")

    assert taken(through_c(), Deadline(0.1)) == (0, True)


def test_an_error_before_the_deadline_is_an_error() -> None:
    def faulty() -> Generator[Event, None, None]:
        yield Started("0", "here")
        raise KeyError("a fault")

    with pytest.raises(KeyError, match="a fault"):
        taken(faulty(), Deadline(60))


def test_who_stops_listening_closes_the_maker() -> None:
    heard = in_time(events(0, 60), Deadline(60))
    next(heard)
    heard.close()
    assert ENDS == ["closed"]


def test_in_a_thread_the_deadline_is_seen_between_two_events() -> None:
    found: list[tuple[int, bool]] = []
    thread = threading.Thread(
        target=lambda: found.append(taken(events(0.2, 0.2, 60), Deadline(0.3)))
    )
    thread.start()
    thread.join(10)
    assert found == [(2, True)]
