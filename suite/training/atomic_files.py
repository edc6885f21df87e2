"""Creates, renames and removes files and folders so that no crash leaves half of one.

What is new gets a name of its own first. It is flushed to the disk, renamed, and the folder that
holds the name is flushed too. Every effect is a call of `os`, so that tests can make each one fail.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


def create(path: Path, body: bytes) -> None:
    """Write a new file and flush it; its name is durable once the folder is flushed.

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
    """Make the names in a folder durable: new ones, renamed ones, removed ones.

    Raises:
        OSError: the disk failed.
    """
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def make_folder(path: Path) -> None:
    """Make a folder and those above it, durably; do nothing where it exists.

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
    """Rename a folder whose content and names are durable already; all of it or nothing.

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
