"""How is an archive from the network unpacked without harm? All of it in its own folder, or none.

Refused are members that would stand elsewhere (absolute, or with ``..``), links, devices, and more
bytes than expected, counted as they are written, since a header may say anything.
"""

from __future__ import annotations

import lzma
import os
import shutil
import stat
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO

from suite.errors import REFUSED, one_line
from suite.tasks.task import TaskError

_BLOCK_BYTES = 1 << 20
_MOST_MEMBERS = 2_000_000
_DAMAGES = (
    tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError, ValueError,
    RuntimeError,  # of an encrypted zip, or one that is packed in an unknown way
)  # fmt: skip


class RefusedArchive(TaskError):
    """An archive with a member that would do harm."""

    exit_code = REFUSED


def unpack(archive: Path, target: Path, *, most_bytes: int) -> None:
    """Make the folder `target` of the members of a zip or tar archive.

    Raises:
        TaskError: if the archive is none, or is damaged; then there is no such folder.
        RefusedArchive: if a member would do harm, as above.
    """
    beside = tempfile.mkdtemp(prefix=target.name + ".", dir=target.parent)
    try:
        left = most_bytes
        for number, (name, content) in enumerate(_members(archive)):
            if number >= _MOST_MEMBERS:
                raise RefusedArchive(f"{archive}: more than {_MOST_MEMBERS} members")
            path = Path(beside) / _inside(archive, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            left = _written(archive, content, path, left)
        os.replace(beside, target)
    except _DAMAGES as error:
        if isinstance(error, TaskError):
            raise
        raise TaskError(f"{archive} cannot be unpacked ({one_line(str(error))})") from error
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _inside(archive: Path, name: str) -> PurePosixPath:
    """The member's path, if it stays in the folder."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\\" in name or "\0" in name or not path.parts:
        raise RefusedArchive(
            f"{archive}: member {one_line(name)!r} would stand outside of its folder"
        )
    return path


def _written(archive: Path, content: IO[bytes], path: Path, most_bytes: int) -> int:
    """Write one member; how many bytes may still come."""
    with path.open("xb") as file:
        while block := content.read(_BLOCK_BYTES):
            most_bytes -= len(block)
            if most_bytes < 0:
                raise RefusedArchive(f"{archive}: its members are larger than they should be")
            file.write(block)
    return most_bytes


def _members(archive: Path) -> Iterator[tuple[str, IO[bytes]]]:
    """Name and content of each file; folders follow from the names."""
    if zipfile.is_zipfile(archive):
        yield from _zipped(archive)
    else:
        yield from _tarred(archive)


def _zipped(archive: Path) -> Iterator[tuple[str, IO[bytes]]]:
    with zipfile.ZipFile(archive) as opened:
        for member in opened.infolist():
            mode = member.external_attr >> 16
            if mode and stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
                raise _no_file(archive, member.filename)
            if not member.is_dir():
                with opened.open(member) as content:
                    yield member.filename, content


def _tarred(archive: Path) -> Iterator[tuple[str, IO[bytes]]]:
    with _opened_tar(archive) as opened:
        for member in opened:
            if not (member.isfile() or member.isdir()):
                raise _no_file(archive, member.name)
            content = opened.extractfile(member) if member.isfile() else None
            if content is not None:
                yield member.name, content


@contextmanager
def _opened_tar(archive: Path) -> Iterator[tarfile.TarFile]:
    """Read from its start to its end, whatever it is compressed with."""
    with tarfile.open(archive, "r|*") as opened:
        yield opened


def _no_file(archive: Path, name: str) -> RefusedArchive:
    return RefusedArchive(f"{archive}: member {one_line(name)!r} is a link or a device, not a file")
