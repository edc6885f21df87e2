"""Which processes did the trials on this machine leave behind? They end with the sweep.

A worker's process group ends with the worker; what has left the group, for a session of its own,
is known by a mark that it inherited, through Ray or without. The mark names the driver, so that
what a driver has left that was killed is found by the next one.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_MARK = "BAKEOFF_DRIVER"
_START = 19  # of the fields behind the name in /proc/PID/stat: starttime, in ticks since boot


@contextmanager
def ended_with_the_block() -> Iterator[None]:
    """Whatever was started in the block, by whomever, is ended with it, if it bears the mark."""
    _end_all(lambda mark: not _is_alive(mark))
    before, ours = os.environ.get(_MARK), _mark_of(os.getpid())
    os.environ[_MARK] = ours
    try:
        yield
    finally:
        os.environ.pop(_MARK)
        if before is not None:
            os.environ[_MARK] = before
        _end_all(lambda mark: mark == ours)


def _end_all(is_to_end: Callable[[str], bool]) -> None:
    """A process's environment is told as it was when it started, so that ours has no mark."""
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has gone, or is not ours
            mark = _mark_in(folder / "environ")
            pid = int(folder.name)
            if mark is not None and pid != os.getpid() and is_to_end(mark):
                os.kill(pid, signal.SIGKILL)


def _mark_in(environ: Path) -> str | None:
    """Raises OSError where there is no such process, or it may not be read."""
    begin = f"{_MARK}=".encode()
    found = (line for line in environ.read_bytes().split(b"\0") if line.startswith(begin))
    return next((os.fsdecode(line.removeprefix(begin)) for line in found), None)


def _mark_of(pid: int) -> str:
    """Numbers come again; a number with the kernel's tick of its start and its world does not.

    Raises:
        OSError: where there is no such process.
    """
    of_stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return f"{pid}-{of_stat[_START]}-{_world()}"


def _world() -> str:
    """Numbers mean the same processes here and there only if this is the same."""
    return os.readlink("/proc/self/ns/pid")


def _is_alive(mark: str) -> bool:
    """Whether the driver that the mark names still runs, as far as can be told from here."""
    pid, _, rest = mark.partition("-")
    if not pid.isdigit() or rest.partition("-")[2] != _world():
        return True
    try:
        return _mark_of(int(pid)) == mark
    except OSError:
        return False
