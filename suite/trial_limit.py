"""How is a trial ended that takes too long? It ends itself, as a time-out with its reason.

A thread counts the seconds and breaks into the main one by a signal of its own, so that a wait is
interrupted as well as a loop. Code that hangs in C hears of no signal: whoever runs the trial in
another process ends that process, some seconds later.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType

from suite.deadline import is_importing
from suite.duration import in_words
from suite.events import Event

_HOUR = 3600.0
SECONDS_AT = {"quick": _HOUR, "standard": 24 * _HOUR, "paper": 7 * 24 * _HOUR}
SECONDS_OF_GRACE = 10.0  # for a trial to end itself, before its process is ended
_SIGNAL = signal.SIGVTALRM  # SIGALRM is the deadline's of a whole sweep
_SECONDS_BETWEEN_BREAK_INS = 2.0  # where code of the user's swallows what was raised


class TrialTimeout(BaseException):
    """No Exception, so that an `except Exception` of the user's does not swallow it."""


def reason_of(seconds: float) -> str:
    """One sentence of why a trial was ended."""
    return f"it ran longer than {in_words(seconds)}, which is the limit of a trial (--trial-limit)"


def limited(events: Iterator[Event], seconds: float | None) -> Iterator[Event]:
    """The events of a trial, into which `TrialTimeout` is raised once it has had so long.

    It is raised while the trial makes its next event, never in the code that takes them. Outside
    the main thread no signal arrives, and there is no limit.

    Args:
        events: What `suite.trial.run_trial` gives.
        seconds: Of wall time; None sets no limit.
    """
    if seconds is None or threading.current_thread() is not threading.main_thread():
        yield from events
        return
    with _watched(seconds) as watch:
        while True:
            watch.may_break_in = True
            try:
                event = next(events)
            except StopIteration:
                return
            finally:
                watch.may_break_in = False
            yield event


@dataclass
class _Watch:
    """Counts the seconds beside the main thread."""

    seconds: float
    may_break_in: bool = False
    is_over: threading.Event = field(default_factory=threading.Event)

    def count(self) -> None:
        """For a thread: break in when the time has come, and again, until it is over."""
        wait = self.seconds
        while not self.is_over.wait(wait):
            signal.pthread_kill(threading.main_thread().ident or 0, _SIGNAL)
            wait = _SECONDS_BETWEEN_BREAK_INS

    def break_in(self, number: int, frame: FrameType | None) -> None:
        """For `signal.signal`."""
        if self.may_break_in and not is_importing(frame):
            raise TrialTimeout(reason_of(self.seconds))


@contextmanager
def _watched(seconds: float) -> Iterator[_Watch]:
    watch = _Watch(seconds)
    before = signal.signal(_SIGNAL, watch.break_in)
    thread = threading.Thread(target=watch.count, name="trial limit", daemon=True)
    thread.start()
    try:
        yield watch
    finally:
        watch.is_over.set()
        thread.join()  # no signal may come after the handler has gone
        signal.signal(_SIGNAL, before)
