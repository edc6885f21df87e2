"""How is the main thread broken into when a time is up, whatever it does?

By the kernel's alarm: it breaks into a loop and into a wait for a process or for Ray. Several may
be set at once, as the limit of a trial within that of its sweep: there is one timer, for the next
of them. Code that hangs in C hears of no signal, and outside the main thread none arrives.
"""

from __future__ import annotations

import math
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import FrameType
from typing import TypeVar

_SECONDS_BETWEEN_RINGS = 0.1
_SECONDS_BETWEEN_BREAK_INS = 2.0  # an exception is lost where code of the user's catches all
_MOST_SECONDS_OF_AN_IMPORT = 5.0

_Made = TypeVar("_Made")


@dataclass(eq=False)
class _Alarm:
    """What is to be called, when, on the monotonic clock, and how long after that again."""

    due: float
    ring: Callable[[FrameType | None], None]
    seconds_between: float


_SET: list[_Alarm] = []
os.register_at_fork(after_in_child=_SET.clear)  # a timer stays with the parent, and so must these


@contextmanager
def alarm(
    seconds: float,
    ring: Callable[[FrameType | None], None],
    seconds_between: float = _SECONDS_BETWEEN_RINGS,
) -> Iterator[None]:
    """Call `ring` in the main thread after so many seconds, and again, until the block is left.

    Outside the main thread it is never called.

    Args:
        seconds: Of wall time; zero and less mean at once.
        ring: Gets the frame that is broken into; what it raises is raised there.
        seconds_between: From one call to the next.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    one = _Alarm(time.monotonic() + seconds, ring, seconds_between)
    before = signal.signal(signal.SIGALRM, _ring_what_is_due)
    _SET.append(one)
    _wind()
    try:
        yield
    finally:
        with suppress(ValueError):  # forked away from it
            _SET.remove(one)
        _wind()
        if not _SET:
            signal.signal(signal.SIGALRM, before)


def _wind() -> None:
    """Set the timer for the next alarm; off where there is none."""
    first = min((one.due for one in _SET), default=None)
    wait = 0.0 if first is None else max(1e-3, first - time.monotonic())  # zero would mean never
    signal.setitimer(signal.ITIMER_REAL, wait)


def _ring_what_is_due(number: int, frame: FrameType | None) -> None:
    now = time.monotonic()
    due = [one for one in _SET if _is_due(one, now)]
    for one in due:
        one.due = now + one.seconds_between
    _wind()  # before what may raise
    for one in due:
        one.ring(frame)


def _is_due(one: _Alarm, now: float) -> bool:
    return one.due <= now


@dataclass
class Interruption:
    """Raises an error into what makes the next of several things, and never into what takes them.

    So what has been handed over is written down in peace, and half a result is never seen. An
    import is left some seconds to end: broken off half-way, a module can never be used again in
    this process.

    Attributes:
        error: Makes what is raised.
        has_rung: Whether the time was up while something was made, or before.
    """

    error: Callable[[], BaseException]
    has_rung: bool = False
    _may_break_in: bool = False
    _first: float = math.inf
    _next: float = 0.0

    def ring(self, frame: FrameType | None) -> None:
        """For `alarm`."""
        now = time.monotonic()
        self.has_rung, self._first = True, min(self._first, now)
        if not self._may_break_in or now < self._next:
            return
        if _is_importing(frame) and now < self._first + _MOST_SECONDS_OF_AN_IMPORT:
            return
        self._next = now + _SECONDS_BETWEEN_BREAK_INS
        raise self.error()

    def next_of(self, made: Iterator[_Made]) -> _Made:
        """The next one; the error is raised in its maker if the alarm rings before that."""
        self._may_break_in = True
        try:
            return next(made)
        finally:
            self._may_break_in = False


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False
