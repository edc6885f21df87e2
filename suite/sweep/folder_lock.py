"""Allow one driver per output folder, with a file lock that the kernel releases at its end."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from bakeoff.suite.errors import UnavailableError, UsageError

_LOCK_FILE = "driver.lock"  # holds the driver's process id
_SECONDS_TO_TRY = 0.25  # `is_held` holds the lock too, for a moment


class FolderUnavailable(UnavailableError):
    """Raised if another driver has locked the output folder, or if it is not writable."""


class NotAFolder(UsageError):
    """Raised if the path given for output is not a folder."""


@contextmanager
def lock_folder(out: Path, *, is_patient: bool = False) -> Iterator[None]:
    """Create the folder, and lock it for the length of the block.

    A process that is forked in the block does not hold the lock.

    Args:
        out: The output folder.
        is_patient: Wait until another driver releases it, however long that takes.

    Raises:
        NotAFolder: If the path is a file.
        FolderUnavailable: If it is not writable, or if another driver holds it.
    """
    _make(out)
    path = out / _LOCK_FILE
    lock = FileLock(path, timeout=-1 if is_patient else _SECONDS_TO_TRY, fallback_to_soft=False)
    try:
        lock.acquire()
    except Timeout:
        raise FolderUnavailable(
            f"--out {out}: another run uses this folder (locked by pid "
            f"{path.read_text().strip() or 'unknown'}); wait for its end (`bakeoff run --wait` "
            "does), or give another folder."
        ) from None
    except OSError as error:
        raise FolderUnavailable(f"{path}: cannot be written: {error.strerror}.") from error
    with suppress(OSError):  # on a full disk the folder is locked, but without a process id
        path.write_text(str(os.getpid()))
    try:
        yield
    finally:
        if lock.is_locked:  # otherwise this is a forked child, and its parent holds the lock
            with suppress(OSError):
                path.write_text("")
            lock.release()


def is_held(out: Path) -> bool:
    """Return True if a driver has locked the folder; needs no permission to write."""
    try:
        with (out / _LOCK_FILE).open() as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False


def _make(out: Path) -> None:
    if os.path.exists(out) and not out.is_dir():
        raise NotAFolder(f"--out {out}: this is a file; give a folder.")
    if os.path.realpath(out) == "/":
        raise NotAFolder(f"--out {out}: this is the root of the file system; give a folder in it.")
    try:
        out.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise NotAFolder(f"--out {out}: a parent of this path is a file; give a folder.") from None
    except OSError as error:
        raise FolderUnavailable(f"--out {out}: cannot be made: {error.strerror}.") from error
