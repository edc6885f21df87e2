"""Does the CPU run at its speed just now? A small fixed piece of work says, which is no contestant.

A virtual machine shares its cores with neighbours whom /proc/stat does not show, a laptop lowers
its clock: for tenths of a second everything takes a third longer. nvbench throws away samples that
a GPU took below its clock; where no clock can be read, the time of known work stands in its place.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

_SLOWER = 1.08
_NUM_READINGS = 200  # looked back on: several rounds, so that a new normal is one after a while
_NUM_AT_LEAST = 10
_USUAL = 0.2  # of the readings are quicker than what is taken for usual


class Gauge:
    """A look at the CPU's speed beside what it was lately.

    Args:
        read: Seconds that the work takes now.
    """

    def __init__(self, read: Callable[[], float]) -> None:
        self._read = read
        self._lately: deque[float] = deque(maxlen=_NUM_READINGS)

    def is_at_speed(self, *, is_noted: bool = True) -> bool:
        """Whether the work takes about as long as usual.

        Args:
            is_noted: Whether the reading counts for what is usual; those of one long wait do not.
        """
        seconds = self._read()
        if is_noted:
            self._lately.append(seconds)
        return len(self._lately) < _NUM_AT_LEAST or seconds <= _SLOWER * self._usual()

    def _usual(self) -> float:
        return sorted(self._lately)[int(_USUAL * len(self._lately))]
