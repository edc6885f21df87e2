"""Finds and ends the processes of a scenario by a mark in their environment."""

from __future__ import annotations

import os
import time
from contextlib import suppress

import psutil

from tools.chaos.figures import Figures

MARK = "BAKEOFF_CHAOS"


def marked(mark: str) -> dict[int, str]:
    """The command lines of the living processes that were started with this mark, by process id.

    This process is left out.
    """
    found = {}
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):  # it has ended, or belongs to another user
            if process.pid != os.getpid() and process.environ().get(MARK) == mark:
                found[process.pid] = " ".join(process.cmdline())
    return {pid: line for pid, line in found.items() if line}  # a zombie has none


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
    """Kill every process with the mark."""
    for pid in marked(mark):
        with suppress(psutil.Error):
            psutil.Process(pid).kill()


def count_orphans(mark: str) -> Figures:
    """Count the processes that are left, and end them: they must not disturb what comes next."""
    left = orphans(mark)
    end(mark)
    return Figures(
        num_orphans=len(left), problems=tuple(f"left behind: {line}" for line in left.values())
    )
