"""How is code of the user's kept from never coming back?"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

from suite.alarm import alarm
from suite.exit_codes import USAGE
from suite.one_line import one_line
from suite.spec import SpecError

SECONDS_TO_IMPORT = 10
_SECONDS_BETWEEN_RINGS = 1.0
_MOST_RINGS = 3  # code that has swallowed so many would swallow all


class _Late(BaseException):
    """No Exception, so that an `except Exception` of the user's does not swallow it."""


@dataclass
class _Bell:
    """Breaks into the import; ends the process where the import catches everything."""

    sentence: str
    num_rings: int = 0

    def ring(self, frame: FrameType | None) -> None:
        """For `alarm`."""
        self.num_rings += 1
        if self.num_rings > _MOST_RINGS:
            os.write(sys.__stderr__.fileno() if sys.__stderr__ else 2, self._last_words())
            os._exit(USAGE)
        raise _Late

    def _last_words(self) -> bytes:
        return f"bakeoff: {one_line(self.sentence)}\n".encode(errors="backslashreplace")


@contextmanager
def import_time_limit(what: str) -> Iterator[None]:
    """End an import that never returns. Only the main thread can; elsewhere there is no limit.

    Raises:
        SpecError: once the block has lasted `SECONDS_TO_IMPORT`; its traceback leads to the line.
    """
    bell = _Bell(f"{what} did not finish within {SECONDS_TO_IMPORT} s of being imported.")
    try:
        with alarm(SECONDS_TO_IMPORT, bell.ring, _SECONDS_BETWEEN_RINGS):
            yield
    except _Late as error:
        raise SpecError(bell.sentence).with_traceback(error.__traceback__) from None
