"""Alarms break into the main thread, several at once, and leave the process as they found it."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import deque

import pytest

from suite.events import Event, Started
from suite.timeouts import Deadline, Interruption, TimeIsUp, TrialTimeout, alarm, in_time, limited


class Inner(Exception):
    pass


class Outer(Exception):
    pass


def raising(error: type[Exception]):
    def ring(frame: object) -> None:
        raise error

    return ring


def is_as_found() -> bool:
    is_off = signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    return is_off and signal.getsignal(signal.SIGALRM) is signal.SIG_DFL


@pytest.mark.parametrize(
    ("inner", "outer", "first"), [(0.1, 60, Inner), (60, 0.1, Outer), (-1, 60, Inner)]
)
def test_of_two_the_earlier_rings_first(inner: float, outer: float, first: type) -> None:
    with pytest.raises(first), alarm(outer, raising(Outer)), alarm(inner, raising(Inner)):
        time.sleep(10)
    assert is_as_found()


def test_the_outer_one_rings_after_the_inner_one_was_left() -> None:
    rung: list[str] = []
    with alarm(0.2, lambda frame: rung.append("outer"), 60):
        with pytest.raises(Inner), alarm(0.05, raising(Inner)):
            time.sleep(10)
        time.sleep(0.4)
    assert rung == ["outer"]
    assert is_as_found()


def test_it_rings_again_until_it_is_left() -> None:
    rings: list[float] = []
    with alarm(0.05, lambda frame: rings.append(time.monotonic()), 0.05):
        while len(rings) < 3:
            time.sleep(0.01)
    count = len(rings)
    time.sleep(0.2)
    assert len(rings) == count
    assert is_as_found()


def test_a_trial_out_of_time_leaves_its_sweep_the_rest_of_its_own() -> None:
    def hangs():
        yield Started("0", "here")
        time.sleep(60)

    def sweep():
        for _ in range(2):
            with pytest.raises(TrialTimeout):
                yield from limited(hangs(), 0.1)
        time.sleep(60)
        yield Started("never", "here")

    told: list[Event] = []
    with pytest.raises(TimeIsUp):
        deque(map(told.append, in_time(sweep(), Deadline(1.0))))
    assert len(told) == 2
    assert is_as_found()


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
    assert is_as_found()


def test_in_a_thread_it_never_rings() -> None:
    ended: list[bool] = []

    def wait() -> None:
        with alarm(0.0, raising(Outer)):
            time.sleep(0.2)
        ended.append(True)

    thread = threading.Thread(target=wait)
    thread.start()
    thread.join()
    assert ended == [True]


def test_an_interruption_spares_whoever_takes_what_was_made() -> None:
    interruption = Interruption(Outer)
    with alarm(0.05, interruption.interrupt):
        assert interruption.next_of(iter([1])) == 1
        time.sleep(0.2)
        assert interruption.is_time_up
        with pytest.raises(Outer):
            interruption.next_of(iter(lambda: time.sleep(10), 0))
