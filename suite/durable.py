"""How is a file written so that no crash leaves half of it?

Under a name of its own first, then flushed to the disk, then renamed, then the folder, in which the
name stands, flushed too. Whoever looks at any moment finds what was there before or all of the new.

Every effect is a call of `os`, so that tests can make each one fail.
"""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path

_UNFINISHED = "unfinished-"
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


def write(path: Path, body: bytes) -> None:
    """Put `body` where `path` says, in the place of what is there; it lasts from then on.

    Raises:
        OSError: it could not be written; what was there before is there still.
    """
    draft = path.with_name(unfinished_name(path.name))
    try:
        create(draft, body)
        os.replace(draft, path)
    except OSError:
        with suppress(OSError):
            os.unlink(draft)
        raise
    fsync_folder(path.parent)


def create(path: Path, body: bytes) -> None:
    """A new file, whose content lasts; its name lasts once the folder is flushed.

    Raises:
        OSError: it could not be written, or the name is taken.
    """
    file = os.open(path, _NEW, 0o666)
    try:
        rest = memoryview(body)
        while rest:
            rest = rest[os.write(file, rest) :]
        os.fsync(file)
    finally:
        os.close(file)


def fsync_folder(path: Path) -> None:
    """Make the names in a folder last: new ones, renamed ones, removed ones.

    Raises:
        OSError: the disk failed.
    """
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def make_folder(path: Path) -> None:
    """Make a folder, and those above it, whose names last; nothing where it stands already.

    Raises:
        OSError: it could not be made.
    """
    if path.is_dir():
        return
    make_folder(path.parent)
    with suppress(FileExistsError):
        os.mkdir(path)
    fsync_folder(path.parent)


def move_folder(path: Path, to: Path) -> None:
    """Rename a folder, whose content and names last already; all of it or nothing.

    Raises:
        OSError: it could not be renamed; a folder that is not empty is in the way.
    """
    os.rename(path, to)
    fsync_folder(to.parent)


def remove_folder(path: Path) -> None:
    """Remove a folder with all that it holds; links are removed, not followed.

    Raises:
        OSError: something of it is still there.
    """
    with os.scandir(path) as entries:
        found = list(entries)
    for entry in found:
        if entry.is_dir(follow_symlinks=False):
            remove_folder(Path(entry.path))
        else:
            os.unlink(entry.path)
    os.rmdir(path)


def unfinished_name(name: str, token: int | None = None) -> str:
    """For what shall be called `name` once it is whole; nobody else's where no token is given."""
    token = secrets.randbits(64) if token is None else token
    return f"{_UNFINISHED}{token:016x}.{name}"


def is_unfinished(name: str) -> bool:
    """Whether `unfinished_name` gave it: a process that was killed has left it."""
    return name.startswith(_UNFINISHED)
