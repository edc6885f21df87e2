"""A trial that takes too long ends as a time-out, whatever it was doing."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator

import pytest

from suite.events import Event, Finished
from suite.execution.trial import run_measuring
from suite.schema import Point, Resources, Status
from suite.timeouts import TrialTimeout, limited
from tests.suite.heads_sweep import HeadsSweep

TRIAL = HeadsSweep().trial()
POINT = Point(metric="loss", step=1, flops=None, value=1.0, unit="nat", better="lower")


def events(measure) -> Iterator[Event]:
    return run_measuring(TRIAL, Resources(), "here", measure)


def spins() -> Iterator[Point]:
    yield POINT
    while True:
        try:
            time.sleep(0.001)
        except Exception:  # as code of the user's may
            continue


def sleeps() -> Iterator[Point]:
    yield POINT
    time.sleep(600)


def waits() -> Iterator[Point]:
    yield POINT
    threading.Event().wait()


@pytest.mark.parametrize("hangs", [spins, sleeps, waits])
def test_a_hanging_trial_is_a_time_out_that_keeps_its_points(hangs) -> None:
    before = signal.getsignal(signal.SIGALRM)
    *_, last = limited(events(hangs), 0.3)
    assert isinstance(last, Finished)
    assert last.result.status is Status.TIMEOUT
    assert last.result.points == (POINT,)
    assert "--trial-limit" in last.result.reason
    assert signal.getsignal(signal.SIGALRM) is before


def test_who_takes_the_events_is_never_broken_into() -> None:
    def quick() -> Iterator[Point]:
        for _ in range(3):
            yield POINT

    told = []
    for event in limited(events(quick), 0.2):
        time.sleep(0.15)  # past the limit, but in the listener
        told.append(event)
    assert isinstance(told[-1], Finished)


def test_a_trial_in_time_is_left_alone() -> None:
    def one() -> Iterator[Point]:
        yield POINT

    *_, last = limited(events(one), 60.0)
    assert last.result.status is Status.OK
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_outside_the_main_thread_there_is_no_limit() -> None:
    found = []

    def listen() -> None:
        found.extend(limited(iter([1, 2, 3]), 0.0))

    thread = threading.Thread(target=listen)
    thread.start()
    thread.join()
    assert found == [1, 2, 3]


def test_it_is_no_exception() -> None:
    assert not issubclass(TrialTimeout, Exception)
