"""One driver per output folder: a file lock that the kernel lets go of, however the driver ends."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path

from suite.errors import UnavailableError, UsageError

_TRIES = 5
_SECONDS_BETWEEN_TRIES = 0.05
_OPEN: set[FileIO] = set()  # without buffers, whose own locks a fork may leave taken


class FolderUnavailable(UnavailableError):
    """The output folder is held by another driver, or cannot be written: one sentence."""


class NotAFolder(UsageError):
    """The path given for output is something else: one sentence."""


@contextmanager
def held(out: Path, *, is_patient: bool = False) -> Iterator[None]:
    """Make the folder, and hold it for the length of the block.

    Args:
        out: The output folder.
        is_patient: Wait until another driver lets go of it, however long that takes.

    Raises:
        NotAFolder: if the path is a file.
        FolderUnavailable: if it cannot be written, or another driver holds it.
    """
    _make(out)
    path = out / "driver.lock"
    try:
        file = path.open("ab", buffering=0)
    except OSError as error:
        raise FolderUnavailable(f"{path}: cannot be written: {error.strerror}.") from error
    with file, _unshared(file):
        if is_patient:
            fcntl.flock(file, fcntl.LOCK_EX)
        elif not _is_taken(file):
            raise FolderUnavailable(
                f"--out {out}: another run works here (locked by pid {_holder(path)}); wait for "
                "its end, or give another folder."
            )
        file.truncate(0)
        with suppress(OSError):  # a full disk: then nobody can say who holds it, but it is held
            file.write(str(os.getpid()).encode())
        try:
            yield
        finally:
            if not file.closed:  # else this is a child, and the lock is its parent's
                file.truncate(0)


def is_held(out: Path) -> bool:
    """Whether a driver works on the folder now."""
    try:
        with (out / "driver.lock").open("r") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False


@contextmanager
def _unshared(file: FileIO) -> Iterator[None]:
    """No child that is forked within the block keeps the lock when we have ended."""
    _OPEN.add(file)
    try:
        yield
    finally:
        _OPEN.discard(file)


def _close_in_child() -> None:
    """The lock is that of the open file, which a fork shares: the parent's copy holds it still."""
    for file in _OPEN:
        file.close()
    _OPEN.clear()


os.register_at_fork(after_in_child=_close_in_child)


def _is_taken(file: FileIO) -> bool:
    """Whether the lock is ours now; asked again for a moment, since `is_held` holds it too."""
    for _ in range(_TRIES):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            time.sleep(_SECONDS_BETWEEN_TRIES)
        else:
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
        raise NotAFolder(f"--out {out}: a file stands in the way; give a folder.") from None
    except OSError as error:
        raise FolderUnavailable(f"--out {out}: cannot be made: {error.strerror}.") from error


def _holder(path: Path) -> str:
    return path.read_text().strip() or "unknown"
