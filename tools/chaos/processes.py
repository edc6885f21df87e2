"""Finds the living processes of a scenario by a mark in their environment."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

MARK = "BAKEOFF_CHAOS"


def marked(mark: str, *, but: int = 0) -> dict[int, str]:
    """The command lines of what is alive and bears the mark, by process id.

    Args:
        mark: The value of `MARK` that it was started with.
        but: A process that does not count: whoever asks.
    """
    sought = f"{MARK}={mark}".encode()
    return {pid: line for pid, line in _bearing(sought) if pid not in (but, os.getpid())}


def orphans(mark: str, limit_seconds: float = 30.0) -> dict[int, str]:
    """What is still alive after that time; empty as soon as nothing is.

    Ray's two agents are left out: they hold no trial and no CPU, and end themselves after a minute
    (tests/suite/sweep/test_kill.py says why).
    """
    until = time.monotonic() + limit_seconds
    while found := {pid: line for pid, line in marked(mark).items() if "agent" not in line.lower()}:
        if time.monotonic() > until:
            return found
        time.sleep(0.2)
    return {}


def end(mark: str) -> None:
    """End what bears the mark: it was counted, and must not disturb what comes next."""
    for pid in marked(mark):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _bearing(sought: bytes) -> Iterator[tuple[int, str]]:
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it ended while we looked
            if sought in (folder / "environ").read_bytes().split(b"\0"):
                line = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                if line:  # a zombie has none
                    yield int(folder.name), line.strip()
