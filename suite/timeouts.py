"""Interrupt the main thread when the time limit of an import, a trial or a sweep passes.

The kernel's alarm interrupts a loop, and a wait for a process or for Ray. Several alarms may be set
at once, for example the limit of a trial within that of its sweep; one timer serves the next of
them. Code that hangs in C never receives the signal: a trial in another process is killed from
outside some seconds later. Outside the main thread no signal arrives.
"""

from __future__ import annotations

import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from types import FrameType
from typing import TypeVar

from bakeoff.suite.errors import USAGE, TrialTimeout, one_line
from bakeoff.suite.events import Event
from bakeoff.suite.spec import SpecError
from bakeoff.suite.stopping import SECONDS_TO_SAVE, at_next_step
from bakeoff.suite.text import in_words

SECONDS_TO_IMPORT = 60  # torch on a network file system may take half of that
SECONDS_AT = {
    "smoke": 3600.0,
    "quick": 3600.0,
    "standard": 24 * 3600.0,
    "paper": 7 * 24 * 3600.0,
}
SECONDS_OF_GRACE = 10.0  # for a trial to end itself, before its process is ended
_SECONDS_BETWEEN_CALLS = 0.1
_SECONDS_BETWEEN_RAISES = 2.0  # an exception is lost if user code catches all exceptions
_MOST_SECONDS_OF_AN_IMPORT = 5.0
_SECONDS_BETWEEN_IMPORT_RAISES = 1.0
_MOST_IMPORT_RAISES = 3  # code that has caught that many would catch all

_Item = TypeVar("_Item")


class TimeIsUp(BaseException):
    """Raised at the sweep's deadline; a trial would catch an `Exception` as its own."""


class _ImportTimeout(BaseException):
    """Raised in a slow import; not an `Exception`, which the user's code may catch."""


@dataclass(eq=False)
class _Alarm:
    """A callback, its time on the monotonic clock, and the pause before it is called again."""

    due: float
    callback: Callable[[FrameType | None], None]
    seconds_between: float


_ALARMS: list[_Alarm] = []
os.register_at_fork(after_in_child=_ALARMS.clear)  # the timer stays with the parent


@contextmanager
def alarm(
    seconds: float,
    callback: Callable[[FrameType | None], None],
    seconds_between: float = _SECONDS_BETWEEN_CALLS,
) -> Iterator[None]:
    """Call `callback` in the main thread after `seconds`, and repeatedly, until the block ends.

    Outside the main thread it is never called.

    Args:
        seconds: Wall time until the first call; zero or less means at once.
        callback: Gets the interrupted frame; its exceptions are raised there.
        seconds_between: The time from one call to the next.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    one = _Alarm(time.monotonic() + seconds, callback, seconds_between)
    before = signal.signal(signal.SIGALRM, _call_due_alarms)
    _ALARMS.append(one)
    _set_timer()
    try:
        yield
    finally:
        with suppress(ValueError):  # a forked child has no alarms
            _ALARMS.remove(one)
        _set_timer()
        if not _ALARMS:
            signal.signal(signal.SIGALRM, before)


def _set_timer() -> None:
    """Set the timer for the next alarm, or switch it off."""
    first = min((one.due for one in _ALARMS), default=None)
    wait = 0.0 if first is None else max(1e-3, first - time.monotonic())  # zero would mean never
    signal.setitimer(signal.ITIMER_REAL, wait)


def _call_due_alarms(number: int, frame: FrameType | None) -> None:
    now = time.monotonic()
    due = [one for one in _ALARMS if _is_due(one, now)]
    for one in due:
        one.due = now + one.seconds_between
    _set_timer()  # before a callback may raise
    for one in due:
        one.callback(frame)


def _is_due(one: _Alarm, now: float) -> bool:
    return one.due <= now


@dataclass
class Interruption:
    """An error that is raised in the code that produces the next item, never in its consumer.

    So an item that was handed over is stored completely. A running import gets some seconds to end,
    because a module whose import was interrupted can never be used again in this process.

    Attributes:
        error: Creates the exception to raise.
        may_save: Let a training of this process save its state first, for some seconds.
        is_time_up: Whether the time passed while an item was produced, or before.
    """

    error: Callable[[], BaseException]
    may_save: bool = False
    is_time_up: bool = False
    _is_producing: bool = False
    _first: float = math.inf
    _next: float = 0.0

    def interrupt(self, frame: FrameType | None) -> None:
        """Raise the error, if an item is being produced; the callback for `alarm`."""
        now = time.monotonic()
        self.is_time_up, self._first = True, min(self._first, now)
        if not self._is_producing or now < self._next:
            return
        if self.may_save and now < self._first + SECONDS_TO_SAVE and at_next_step(self._raise):
            return
        if _is_importing(frame) and now < self._first + _MOST_SECONDS_OF_AN_IMPORT:
            return
        self._next = now + _SECONDS_BETWEEN_RAISES
        self._raise()

    def _raise(self) -> None:
        raise self.error()

    def next_of(self, items: Iterator[_Item]) -> _Item:
        """Return the next item; the error is raised in its producer if the time passes before."""
        self._is_producing = True
        try:
            return next(items)
        finally:
            self._is_producing = False


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


@dataclass(frozen=True)
class Deadline:
    """A number of seconds from a moment on the monotonic clock."""

    seconds: float
    begun: float = field(default_factory=time.monotonic)

    @property
    def seconds_left(self) -> float:
        """The seconds until the deadline; negative afterwards."""
        return self.begun + self.seconds - time.monotonic()

    @property
    def is_over(self) -> bool:
        """True if it has passed."""
        return self.seconds_left <= 0


def in_time(
    events: Generator[Event, None, None], deadline: Deadline | None
) -> Generator[Event, None, None]:
    """Yield the events before the deadline; then interrupt and close their producer.

    Outside the main thread the deadline is only checked between two events.

    Raises:
        TimeIsUp: At the deadline, if there are more events.
    """
    with closing(events):
        if deadline is None:
            yield from events
            return
        interruption = Interruption(TimeIsUp, may_save=True)
        with alarm(deadline.seconds_left, interruption.interrupt):
            while not deadline.is_over:
                try:
                    event = interruption.next_of(events)
                except StopIteration:
                    return
                except BaseException as error:
                    if interruption.is_time_up:  # C code may have turned it into another error
                        raise TimeIsUp from error
                    raise
                yield event
        raise TimeIsUp


def timeout_reason(seconds: float) -> str:
    """Return the sentence about a trial that was ended at its time limit."""
    return f"it ran longer than {in_words(seconds)}, which is the limit of a trial (--trial-limit)"


def limited(events: Iterator[Event], seconds: float | None) -> Iterator[Event]:
    """Yield the events of a trial; raise `TrialTimeout` in it after `seconds`.

    It is raised while the trial produces its next event, never in the code that consumes them.
    Outside the main thread, and if `seconds` is None, there is no limit.
    """
    if seconds is None:
        yield from events
        return
    interruption = Interruption(lambda: TrialTimeout(timeout_reason(seconds)))
    with alarm(seconds, interruption.interrupt):
        while True:
            try:
                event = interruption.next_of(events)
            except StopIteration:
                return
            yield event


@contextmanager
def import_time_limit(what: str) -> Iterator[None]:
    """End an import that never returns. Outside the main thread there is no limit.

    If the imported code catches every exception, the process is ended.

    Raises:
        SpecError: Once the block has lasted `SECONDS_TO_IMPORT`; its traceback leads to the line.
    """
    sentence = f"{what} did not finish within {SECONDS_TO_IMPORT} s of being imported."
    num_raised = 0

    def interrupt(frame: FrameType | None) -> None:
        nonlocal num_raised
        num_raised += 1
        if num_raised > _MOST_IMPORT_RAISES:
            last_words = f"bakeoff: {one_line(sentence)}\n".encode(errors="backslashreplace")
            os.write(sys.__stderr__.fileno() if sys.__stderr__ else 2, last_words)
            os._exit(USAGE)
        raise _ImportTimeout

    try:
        with alarm(SECONDS_TO_IMPORT, interrupt, _SECONDS_BETWEEN_IMPORT_RAISES):
            yield
    except _ImportTimeout as error:
        raise SpecError(sentence).with_traceback(error.__traceback__) from None
