"""Tests for time limits, which interrupt events or imports and leave the process unchanged."""

from __future__ import annotations

import importlib
import os
import signal
import sys
import threading
import time
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from bakeoff.suite.errors import TrialTimeout
from bakeoff.suite.events import Event, Finished, Started
from bakeoff.suite.execution.trial import run_measuring
from bakeoff.suite.schema import Point, Resources, Status
from bakeoff.suite.timeouts import Deadline, Interruption, TimeIsUp, alarm, in_time, limited
from tests.suite.heads_sweep import HeadsSweep

TRIAL = HeadsSweep().trial()
POINT = Point(metric="loss", step=1, flops=None, value=1.0, unit="nat", better="lower")
ENDS: list[str] = []


class Inner(Exception):
    pass


class Outer(Exception):
    pass


@pytest.fixture(autouse=True)
def _alarms_are_left_as_they_were() -> Iterator[None]:
    ENDS.clear()
    yield
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    assert signal.getsignal(signal.SIGALRM) is signal.SIG_DFL


def raising(error: type[Exception]):
    def callback(frame: object) -> NoReturn:
        raise error

    return callback


def in_a_thread(function) -> None:
    thread = threading.Thread(target=function)
    thread.start()
    thread.join(10)
    assert not thread.is_alive()


@pytest.mark.parametrize(
    ("inner", "outer", "first"), [(0.1, 60, Inner), (60, 0.1, Outer), (-1, 60, Inner)]
)
def test_of_two_alarms_the_earlier_comes_first(inner: float, outer: float, first: type) -> None:
    with pytest.raises(first), alarm(outer, raising(Outer)), alarm(inner, raising(Inner)):
        time.sleep(10)


def test_the_outer_alarm_comes_after_the_inner_block_was_left() -> None:
    calls: list[str] = []
    with alarm(0.2, lambda frame: calls.append("outer"), 60):
        with pytest.raises(Inner), alarm(0.05, raising(Inner)):
            time.sleep(10)
        time.sleep(0.4)
    assert calls == ["outer"]


def test_an_alarm_repeats_until_its_block_is_left() -> None:
    calls: list[float] = []
    with alarm(0.05, lambda frame: calls.append(time.monotonic()), 0.05):
        while len(calls) < 3:
            time.sleep(0.01)
    count = len(calls)
    time.sleep(0.2)
    assert len(calls) == count


def test_a_forked_child_has_none_of_its_parents_alarms() -> None:
    with alarm(60, raising(Outer)):
        child = os.fork()
        if child == 0:
            try:
                with alarm(0.05, lambda frame: os._exit(7)):
                    time.sleep(10)
            finally:
                os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_in_a_thread_there_are_no_alarms_and_no_limits() -> None:
    found: list[object] = []

    def wait() -> None:
        with alarm(0.0, raising(Outer)):
            time.sleep(0.2)
        found.extend(limited(iter([1, 2, 3]), 0.0))  # type: ignore[arg-type]

    in_a_thread(wait)
    assert found == [1, 2, 3]


def test_an_interruption_spares_whoever_consumes_the_items() -> None:
    interruption = Interruption(Outer)
    with alarm(0.05, interruption.interrupt):
        assert interruption.next_of(iter([1])) == 1
        time.sleep(0.2)
        assert interruption.is_time_up
        with pytest.raises(Outer):
            interruption.next_of(iter(lambda: time.sleep(10), 0))


def events(*pauses: float) -> Generator[Event, None, None]:
    """Yield one event after each pause."""
    try:
        for index, pause in enumerate(pauses):
            time.sleep(pause)
            yield Started(str(index), "here")
    finally:
        ENDS.append("closed")


def taken(producer: Generator[Event, None, None], deadline: Deadline | None) -> tuple[int, bool]:
    """Return the number of events, and whether the deadline interrupted them."""
    count = 0
    try:
        for _ in in_time(producer, deadline):
            count += 1
    except TimeIsUp:
        return count, True
    return count, False


def test_without_a_deadline_and_before_it_all_events_come() -> None:
    assert taken(events(0, 0), None) == (2, False)
    assert taken(events(0, 0), Deadline(60)) == (2, False)
    assert ENDS == ["closed", "closed"]


def test_the_producer_of_the_next_event_is_interrupted_and_closed() -> None:
    deadline = Deadline(0.3)
    assert taken(events(0, 0, 60), deadline) == (2, True)
    assert 0.3 <= time.monotonic() - deadline.begun < 1.0
    assert deadline.is_over
    assert ENDS == ["closed"]


def test_a_deadline_that_is_over_lets_nothing_begin() -> None:
    assert taken(events(0), Deadline(1.0, begun=time.monotonic() - 2)) == (0, True)


def test_the_consumer_of_an_event_is_not_interrupted() -> None:
    heard = in_time(events(0, 0), Deadline(0.1))
    next(heard)
    # A deadline does not interrupt the consumer, such as the journal's fsync; else this raises.
    time.sleep(0.3)
    with pytest.raises(TimeIsUp):
        next(heard)
    assert ENDS == ["closed"]


def test_code_that_catches_everything_is_interrupted_again(monkeypatch) -> None:
    monkeypatch.setattr("bakeoff.suite.timeouts._SECONDS_BETWEEN_RAISES", 0.2)

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


@pytest.mark.parametrize(("seconds", "is_whole"), [(0.4, True), (60, False)])
def test_an_import_is_given_time_to_end_but_not_for_ever(
    seconds: float, is_whole: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not is_whole:
        monkeypatch.setattr("bakeoff.suite.timeouts._MOST_SECONDS_OF_AN_IMPORT", 0.3)
    monkeypatch.syspath_prepend(tmp_path)
    module = tmp_path / f"imported_{'slowly' if is_whole else 'never'}.py"
    module.write_text(f"import time\ntime.sleep({seconds})\nis_whole = True")

    def importing() -> Generator[Event, None, None]:
        importlib.import_module(module.stem)
        ENDS.append("imported")
        time.sleep(60)
        yield Started("never", "here")

    assert taken(importing(), Deadline(0.2)) == (0, True)
    assert ["imported"] * is_whole == ENDS
    assert hasattr(sys.modules.pop(module.stem, None), "is_whole") is is_whole


def test_an_error_that_the_interruption_was_turned_into_is_the_deadline() -> None:
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


def test_who_stops_listening_closes_the_producer() -> None:
    heard = in_time(events(0, 60), Deadline(60))
    next(heard)
    heard.close()
    assert ENDS == ["closed"]


def test_in_a_thread_the_deadline_is_checked_between_two_events() -> None:
    found: list[tuple[int, bool]] = []
    in_a_thread(lambda: found.append(taken(events(0.2, 0.2, 60), Deadline(0.3))))
    assert found == [(2, True)]


def spins() -> Iterator[Point]:
    yield POINT
    while True:
        try:
            time.sleep(0.001)
        except Exception:  # the user's code may do this
            continue


def sleeps() -> Iterator[Point]:
    yield POINT
    time.sleep(600)


def waits() -> Iterator[Point]:
    yield POINT
    threading.Event().wait()


@pytest.mark.parametrize("hangs", [spins, sleeps, waits])
def test_a_hanging_trial_is_a_time_out_that_keeps_its_points(hangs) -> None:
    *_, last = limited(run_measuring(TRIAL, Resources(), "here", hangs), 0.3)
    assert isinstance(last, Finished)
    assert last.result.status is Status.TIMEOUT
    assert last.result.points == (POINT,)
    assert "--trial-limit" in last.result.reason
    assert not issubclass(TrialTimeout, Exception)


@pytest.mark.parametrize(("limit", "pause"), [(0.2, 0.15), (60.0, 0.0)])
def test_a_trial_in_time_ends_well_however_long_its_events_take_to_consume(
    limit: float, pause: float
) -> None:
    def quick() -> Iterator[Point]:
        for _ in range(3):
            yield POINT

    found = []
    for event in limited(run_measuring(TRIAL, Resources(), "here", quick), limit):
        time.sleep(pause)  # past the limit, but in the consumer of the events
        found.append(event)
    assert isinstance(found[-1], Finished)
    assert pause or found[-1].result.status is Status.OK


def test_a_trial_that_times_out_leaves_its_sweep_the_rest_of_its_own() -> None:
    def sweep() -> Generator[Event, None, None]:
        for _ in range(2):
            with pytest.raises(TrialTimeout):
                yield from limited(events(0, 60), 0.1)
        time.sleep(60)
        yield Started("never", "here")

    assert taken(sweep(), Deadline(1.0)) == (2, True)
