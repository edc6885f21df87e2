"""Download public data sets for `bakeoff data fetch`, check their digests and unpack them.

A download gets its final name, which tasks open, only once it is complete and has the recorded
digest.
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
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import pooch
from filelock import FileLock, Timeout
from rich.console import Console
from rich.progress import DownloadColumn, Progress

from bakeoff.suite.errors import REFUSED, UnavailableError, one_line
from bakeoff.suite.tasks.public.sets import PublicSet
from bakeoff.suite.tasks.task import TaskError

_BLOCK_BYTES = 1 << 20
_SECONDS_WITHOUT_A_BYTE = 60.0
_MAX_MEMBERS = 2_000_000
# Disable transfer compression: an archive must arrive exactly as published.
_HEADERS = {"User-Agent": "bakeoff", "Accept-Encoding": "identity"}
_DAMAGES = (
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    OSError,
    ValueError,
    RuntimeError,  # raised for a zip that is encrypted or has an unknown compression
)


class FetchUnavailable(UnavailableError):
    """Raised if the network, the server or the disk fails; the message is one sentence."""


class RefusedArchive(TaskError):
    """Raised for an archive with a harmful member."""

    exit_code = REFUSED


def fetch(public: PublicSet, folder: Path, say: Callable[[str], None] = print) -> Path:
    """Download the set into `folder`, except for files that are already there and intact.

    Returns:
        The path of its file, or of the first of several.

    Raises:
        TaskError: if an existing file of that name or the downloaded file is not the published one.
        FetchUnavailable: if it cannot be downloaded or stored.
    """
    path, *_ = [_fetch_file(each, folder, say) for each in public.files]
    return path


def _fetch_file(public: PublicSet, folder: Path, say: Callable[[str], None]) -> Path:
    path = folder / public.file
    if os.path.exists(path):  # also False for a name that is too long
        _refuse_altered(public, path, "move it away and fetch again")
        say(f"{public.name}: {path} already exists")
    else:
        _download(public, path)
        say(f"{public.name}: {path}, SHA-256 {pooch.file_hash(str(path))}, {_proven(public)}")
    if public.is_unpacked and not (unpacked := folder / public.name / "unpacked").exists():
        unpack(path, unpacked, most_bytes=public.most_bytes)
        say(f"{public.name}: unpacked into {unpacked}")
    return path


def _proven(public: PublicSet) -> str:
    if public.sha256:
        return "as published"
    if public.md5:
        return "its MD5 is as published; no other digest is recorded"
    return "no digest is recorded"


def _refuse_altered(public: PublicSet, path: Path, remedy: str) -> None:
    name, kind, expected = "SHA-256", "sha256", public.sha256
    if not expected:
        name, kind, expected = "MD5", "md5", public.md5
    if expected and (found := pooch.file_hash(str(path), kind)) != expected:
        raise TaskError(
            f"{path} is not the published {public.name}: {name} is {found}, expected"
            f" {expected}; {remedy}"
        )


def _download(public: PublicSet, path: Path) -> None:
    """Download to a file of another name, check its digest, then rename it."""
    partial = path.with_name(path.name + ".part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _refuse_full_disk(public, path.parent)
        with FileLock(partial, blocking=False), ExitStack() as at_end:
            at_end.callback(partial.unlink, missing_ok=True)
            _downloader(public, at_end)(public.url, str(partial), None)
            _refuse_altered(public, partial, "nothing was kept")
            os.replace(partial, path)
    except Timeout:
        raise FetchUnavailable(
            f"another process is downloading {public.name} to {partial}; wait until it ends"
        ) from None
    except OSError as error:  # network errors are OSErrors, too
        raise FetchUnavailable(
            f"{public.name} cannot be fetched from {public.url} to {path}: "
            f"{one_line(error.strerror or str(error))}; no file was kept"
        ) from error


def _refuse_full_disk(public: PublicSet, folder: Path) -> None:
    needed, free = public.num_bytes or 0, shutil.disk_usage(folder).free
    if needed > free:
        raise FetchUnavailable(
            f"{public.name} needs {needed} bytes at {folder}, where {free} are free"
        )


def _downloader(public: PublicSet, at_end: ExitStack) -> pooch.HTTPDownloader:
    """Return a downloader with a progress bar that also closes pooch's open connection."""
    console = Console(stderr=True)
    columns = (*Progress.get_default_columns(), DownloadColumn())
    bar = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
    received = _Received(public, at_end.enter_context(bar))

    def close_at_end(response: Any, *_: object, **__: object) -> None:
        at_end.callback(response.close)

    return pooch.HTTPDownloader(
        progressbar=received,
        chunk_size=_BLOCK_BYTES,
        timeout=_SECONDS_WITHOUT_A_BYTE,
        headers=_HEADERS,
        hooks={"response": close_at_end},
    )


class _Received:
    """A progress bar for pooch that also stops a server that sends too much."""

    total = 0  # number of bytes that the server announces; set by pooch

    def __init__(self, public: PublicSet, bar: Progress) -> None:
        self.public, self.bar = public, bar
        self.task = bar.add_task(public.name, total=public.num_bytes)
        self.num_bytes = 0

    def update(self, num_bytes: int) -> None:
        """Count one more block, of at most `num_bytes` bytes.

        Raises:
            FetchUnavailable: if the file is larger than the set allows.
        """
        self.num_bytes += num_bytes
        limit = self.public.num_bytes or self.public.most_bytes
        if max(self.total, self.num_bytes - _BLOCK_BYTES) > limit:
            raise FetchUnavailable(
                f"{self.public.url} sends more than the {limit} bytes of {self.public.name}; no "
                "file was kept"
            )
        self.bar.update(self.task, completed=self.num_bytes, total=self.total or None)

    def reset(self) -> None:
        """Reset the count at the end of the download, because pooch then counts the whole once."""
        self.num_bytes = 0

    def close(self) -> None:
        """Do nothing, because the bar closes itself."""


def unpack(archive: Path, target: Path, *, most_bytes: int) -> None:
    """Create the folder `target` with all members of a zip or tar archive, or do not create it.

    Raises:
        TaskError: if the file is not an archive, or is damaged; no such folder exists then.
        RefusedArchive: for a member outside of the folder, a link or a device, and for more bytes
            or members than expected.
    """
    beside = tempfile.mkdtemp(prefix=target.name + ".", dir=target.parent)
    try:
        (_unzip if zipfile.is_zipfile(archive) else _untar)(archive, beside, most_bytes)
        os.replace(beside, target)
    except _DAMAGES as error:
        if isinstance(error, TaskError):
            raise
        raise TaskError(f"{archive} cannot be unpacked ({one_line(str(error))})") from error
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _unzip(archive: Path, folder: str, most_bytes: int) -> None:
    check = _MemberCheck(archive, most_bytes)
    with zipfile.ZipFile(archive) as opened:
        for member in opened.infolist():
            kind = stat.S_IFMT(member.external_attr >> 16)
            is_plain = kind in (0, stat.S_IFREG, stat.S_IFDIR)
            check.refuse(member.filename, member.file_size, is_plain=is_plain)
            opened.extract(member, folder)


def _untar(archive: Path, folder: str, most_bytes: int) -> None:
    check = _MemberCheck(archive, most_bytes)
    with tarfile.open(archive, "r|*") as opened:  # a stream, with any compression
        for member in opened:
            check.refuse(member.name, member.size, is_plain=member.isfile() or member.isdir())
            opened.extract(member, folder, filter="data")


@dataclass
class _MemberCheck:
    """A check for harmful members; extraction never writes more bytes than a header states."""

    archive: Path
    bytes_left: int
    members_left: int = _MAX_MEMBERS

    def refuse(self, name: str, num_bytes: int, *, is_plain: bool) -> None:
        """Check the next member.

        Raises:
            RefusedArchive: if the member is harmful; the message has its name.
        """
        path = PurePosixPath(name)
        self.bytes_left -= num_bytes
        self.members_left -= 1
        if not is_plain:
            wrong = f"member {one_line(name)!r} is a link or a device, not a file"
        elif path.is_absolute() or ".." in path.parts or "\\" in name or not path.parts:
            wrong = f"member {one_line(name)!r} would be outside its folder"
        elif self.bytes_left < 0:
            wrong = "its members are larger than they should be"
        elif self.members_left < 0:
            wrong = f"more than {_MAX_MEMBERS} members"
        else:
            return
        raise RefusedArchive(f"{self.archive}: {wrong}")
