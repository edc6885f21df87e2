"""Kill the processes that trials have left running on this machine when the sweep ends.

A worker's process group ends with the worker. A process that has left the group, for a session of
its own, is found by an environment variable that it inherited, through Ray or without. The variable
names the driver, so that the next driver finds the processes of a driver that was killed.

This reads /proc directly: the suite also runs without psutil, and psutil gives the start time of a
process by the clock, which may be changed, instead of in the kernel's ticks.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_VARIABLE = "BAKEOFF_DRIVER"
_START = 19  # index, after the name in /proc/PID/stat, of starttime in ticks since boot


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
    """Kill processes by their driver, except this one, which was started without the variable."""
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended, or belongs to another user
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
    """Return id, start (in ticks) and namespace of a process, because ids are reused.

    Raises:
        OSError: If there is no such process.
    """
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return f"{pid}-{fields[_START]}-{_namespace()}"


def _namespace() -> str:
    """Return the PID namespace, within which a process id is unique."""
    return os.readlink("/proc/self/ns/pid")


def _is_alive(driver: str) -> bool:
    """Return True if the driver still runs, or if that cannot be determined from here."""
    pid, _, rest = driver.partition("-")
    if not pid.isdigit() or rest.partition("-")[2] != _namespace():
        return True
    try:
        return _identity_of(int(pid)) == driver
    except OSError:
        return False
