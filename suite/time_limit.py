"""How is code of the user's kept from never coming back?"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from suite.spec import SpecError

SECONDS_TO_IMPORT = 10


class _Late(BaseException):
    """No Exception, so that an `except Exception` of the user's does not swallow it."""


@contextmanager
def import_time_limit(what: str) -> Iterator[None]:
    """End an import that never returns. Only the main thread can; elsewhere there is no limit.

    Raises:
        SpecError: once the block has lasted `SECONDS_TO_IMPORT`; its traceback leads to the line.
    """

    def late(signum: int, frame: FrameType | None) -> None:
        raise _Late

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(SECONDS_TO_IMPORT)
    try:
        yield
    except _Late as error:
        sentence = f"{what} did not finish within {SECONDS_TO_IMPORT} s of being imported."
        raise SpecError(sentence).with_traceback(error.__traceback__) from None
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
