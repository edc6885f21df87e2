"""Kills the processes that trials have left running on this machine when the sweep ends.

A worker's process group ends with the worker. What has left the group, for a session of its own, is
found by an environment variable that it inherited, through Ray or without. The variable names the
driver, so that the next driver finds what a killed one has left.

This reads /proc itself: the suite also runs where psutil is not installed, and psutil gives the
start of a process by the clock, which may be set, and not in the kernel's ticks.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_VARIABLE = "BAKEOFF_DRIVER"
_START = 19  # of the fields behind the name in /proc/PID/stat: starttime, in ticks since boot


@contextmanager
def process_cleanup() -> Iterator[None]:
    """Kill all processes started in the block, by any process, that inherited the variable."""
    _kill_marked(lambda driver: not _is_alive(driver))
    before, ours = os.environ.get(_VARIABLE), _identity_of(os.getpid())
    os.environ[_VARIABLE] = ours
    try:
        yield
    finally:
        os.environ.pop(_VARIABLE)
        if before is not None:
            os.environ[_VARIABLE] = before
        _kill_marked(lambda driver: driver == ours)


def _kill_marked(is_to_kill: Callable[[str], bool]) -> None:
    """Kill processes by their driver; this one is not marked, since it started without the mark."""
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended, or is another user's
            driver = _driver_in(folder / "environ")
            pid = int(folder.name)
            if driver is not None and pid != os.getpid() and is_to_kill(driver):
                os.kill(pid, signal.SIGKILL)


def _driver_in(environ: Path) -> str | None:
    """Return the driver that a process inherited; raise OSError if it cannot be read."""
    begin = f"{_VARIABLE}=".encode()
    found = (line for line in environ.read_bytes().split(b"\0") if line.startswith(begin))
    return next((os.fsdecode(line.removeprefix(begin)) for line in found), None)


def _identity_of(pid: int) -> str:
    """Return number, start (in ticks) and namespace of a process: numbers are reused.

    Raises:
        OSError: where there is no such process.
    """
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return f"{pid}-{fields[_START]}-{_namespace()}"


def _namespace() -> str:
    """Return the namespace, within which a number means one process."""
    return os.readlink("/proc/self/ns/pid")


def _is_alive(driver: str) -> bool:
    """Return True if the driver still runs, or that cannot be known from here."""
    pid, _, rest = driver.partition("-")
    if not pid.isdigit() or rest.partition("-")[2] != _namespace():
        return True
    try:
        return _identity_of(int(pid)) == driver
    except OSError:
        return False
