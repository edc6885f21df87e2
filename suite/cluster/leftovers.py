"""Which processes did the trials of a Ray of ours leave behind? They end with it.

A worker's process group ends with the worker; what has left the group, for a session of its own,
is known by a mark that it was given on its way through Ray.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psutil

_MARK = "BAKEOFF_RAY"


@contextmanager
def ended_with_the_block() -> Iterator[None]:
    """Whatever was started in the block, by whomever, is ended with it, if it bears the mark."""
    before, mark = os.environ.get(_MARK), uuid.uuid4().hex
    os.environ[_MARK] = mark
    try:
        yield
    finally:
        os.environ.pop(_MARK)
        if before is not None:
            os.environ[_MARK] = before
        _end_all_with(mark)


def _end_all_with(mark: str) -> None:
    """A process's environment is told as it was when it started, so that ours has no mark."""
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if process.environ().get(_MARK) == mark and process.pid != os.getpid():
                process.kill()
