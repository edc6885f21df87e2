"""When must a sweep stop? What makes its next event is interrupted there; what takes it is not."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import closing
from dataclasses import dataclass, field

from suite.alarm import Interruption, alarm
from suite.events import Event


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


def in_time(
    events: Generator[Event, None, None], deadline: Deadline | None
) -> Generator[Event, None, None]:
    """The events that come before the deadline; their maker is interrupted there, and closed.

    Outside the main thread it is only looked at between two events.

    Raises:
        TimeIsUp: at the deadline, if more was to come.
    """
    with closing(events):
        if deadline is None:
            yield from events
            return
        interruption = Interruption(TimeIsUp)
        with alarm(deadline.seconds_left, interruption.ring):
            while not deadline.is_over:
                try:
                    event = interruption.next_of(events)
                except StopIteration:
                    return
                except BaseException as error:
                    if interruption.has_rung:  # on its way through C code it became another one
                        raise TimeIsUp from error
                    raise
                yield event
        raise TimeIsUp
