"""How is a trial ended that takes too long? It ends itself, as a time-out with its reason.

Code that hangs in C hears of no signal: whoever runs the trial in another process ends that
process, some seconds later.
"""

from __future__ import annotations

from collections.abc import Iterator

from suite.alarm import Interruption, alarm
from suite.events import Event
from suite.text import in_words

_HOUR = 3600.0
SECONDS_AT = {"quick": _HOUR, "standard": 24 * _HOUR, "paper": 7 * 24 * _HOUR}
SECONDS_OF_GRACE = 10.0  # for a trial to end itself, before its process is ended


class TrialTimeout(BaseException):
    """No Exception, so that an `except Exception` of the user's does not swallow it."""


def reason_of(seconds: float) -> str:
    """One sentence of why a trial was ended."""
    return f"it ran longer than {in_words(seconds)}, which is the limit of a trial (--trial-limit)"


def limited(events: Iterator[Event], seconds: float | None) -> Iterator[Event]:
    """The events of a trial, into which `TrialTimeout` is raised once it has had so long.

    It is raised while the trial makes its next event, never in the code that takes them. Outside
    the main thread there is no limit.

    Args:
        events: What `suite.trial.run_trial` gives.
        seconds: Of wall time; None sets no limit.
    """
    if seconds is None:
        yield from events
        return
    interruption = Interruption(lambda: TrialTimeout(reason_of(seconds)))
    with alarm(seconds, interruption.ring):
        while True:
            try:
                event = interruption.next_of(events)
            except StopIteration:
                return
            yield event
