"""When must a sweep stop, and how is what runs at that moment interrupted?

By the kernel's alarm, which breaks into whatever the main thread does: a training loop, the wait
for a process or for Ray. It breaks into nothing but the making of the next event: what has been
handed over is written down in peace, and half a result is never seen.
"""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from types import FrameType

from suite.events import Event

_SECONDS_BETWEEN_ALARMS = 0.1
_SECONDS_BETWEEN_BREAK_INS = 2.0  # an exception is lost where code of the user's catches all
_MOST_SECONDS_OF_AN_IMPORT = 5.0


class TimeIsUp(BaseException):
    """No Exception: an `except Exception` around a trial must not take it for the trial's."""


@dataclass(frozen=True)
class Deadline:
    """A number of seconds, and the moment from which they count, on the monotonic clock."""

    seconds: float
    begun: float = field(default_factory=time.monotonic)

    @property
    def seconds_left(self) -> float:
        """Until then; below zero afterwards."""
        return self.begun + self.seconds - time.monotonic()

    @property
    def is_over(self) -> bool:
        """Whether it has come."""
        return self.seconds_left <= 0


@dataclass
class _Bell:
    """Whether the alarm has come, and whether it may break in now."""

    has_rung: bool = False
    may_break_in: bool = False
    _first: float = math.inf
    _next: float = 0.0

    def ring(self, number: int, frame: FrameType | None) -> None:
        """For `signal.signal`: rings on until it is switched off."""
        now = time.monotonic()
        self.has_rung, self._first = True, min(self._first, now)
        if not self.may_break_in or now < self._next:
            return
        if is_importing(frame) and now < self._first + _MOST_SECONDS_OF_AN_IMPORT:
            return
        self._next = now + _SECONDS_BETWEEN_BREAK_INS
        raise TimeIsUp

    def next_of(self, events: Iterator[Event]) -> Event:
        """The next event, unless the alarm comes before it."""
        self.may_break_in = True
        try:
            if self.has_rung:
                raise TimeIsUp
            return next(events)
        except StopIteration:
            raise
        except BaseException as error:
            if self.has_rung:  # on its way through C code, as Ray's, it has become another one
                raise TimeIsUp from error
            raise
        finally:
            self.may_break_in = False


def in_time(
    events: Generator[Event, None, None], deadline: Deadline | None
) -> Generator[Event, None, None]:
    """The events that come before the deadline; their maker is interrupted there, and closed.

    Outside the main thread, where no signal arrives, it is only looked at between two events.

    Raises:
        TimeIsUp: at the deadline, if more was to come.
    """
    with closing(events):
        if deadline is None:
            yield from events
            return
        with _alarm_at(deadline) as bell:
            while True:
                bell.has_rung |= deadline.is_over
                try:
                    event = bell.next_of(events)
                except StopIteration:
                    return
                yield event


@contextmanager
def _alarm_at(deadline: Deadline) -> Iterator[_Bell]:
    bell = _Bell()
    if threading.current_thread() is not threading.main_thread():
        yield bell
        return
    before = signal.signal(signal.SIGALRM, bell.ring)
    first = max(1e-3, deadline.seconds_left)  # zero would mean never
    signal.setitimer(signal.ITIMER_REAL, first, _SECONDS_BETWEEN_ALARMS)
    try:
        yield bell
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def is_importing(frame: FrameType | None) -> bool:
    """A module that is broken off half-way could never be used again in this process."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False
