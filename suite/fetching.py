"""`bakeoff data fetch`: bring a public data set into a folder, whole and proven, or leave none.

A download goes to a file of another name, which the next call goes on with; only what is complete
and has the recorded digest gets the name that tasks look for.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import IO, cast
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from suite.errors import UnavailableError
from suite.tasks.public_sets import PublicSet
from suite.tasks.task import TaskError
from suite.unpacking import unpack

_BLOCK_BYTES = 1 << 20
_SECONDS_WITHOUT_A_BYTE = 60.0
_RANGE_NOT_SATISFIABLE = 416
_PARTIAL_CONTENT = 206


class FetchUnavailable(UnavailableError):
    """The network, the server or the disk does not give what is needed: one sentence."""


def fetch(public: PublicSet, folder: Path, say: Callable[[str], None] = print) -> Path:
    """Bring the set into `folder`; what is there already and right is left alone.

    Returns:
        The path of its file.

    Raises:
        TaskError: if a file of that name is there and is another one, or what came is.
        FetchUnavailable: if it cannot be had or kept; what came so far is gone on with next time.
    """
    path = folder / public.file
    if os.path.exists(path):  # False, too, for a name that is too long to be one
        _refuse_altered(public, path)
        say(f"{public.name}: {path} is there already")
    else:
        _bring(public, path, say)
    if public.is_unpacked and not (unpacked := folder / public.name / "unpacked").exists():
        unpack(path, unpacked, most_bytes=public.most_bytes)
        say(f"{public.name}: unpacked into {unpacked}")
    return path


def _refuse_altered(public: PublicSet, path: Path) -> None:
    found = _sha256(path)
    if public.sha256 and found != public.sha256:
        raise TaskError(
            f"{path} is not the published {public.name}: SHA-256 is {found}, expected"
            f" {public.sha256}; move it away and fetch again"
        )


def _bring(public: PublicSet, path: Path, say: Callable[[str], None]) -> None:
    """Download, prove, and give it its name."""
    partial = path.with_name(path.name + ".part")
    with _held(public, partial) as file:
        _download(public, file, partial.with_name(partial.name + ".etag"))
        found = _sha256(partial)
        if public.sha256 and found != public.sha256:
            _remove(partial)
            raise TaskError(
                f"what {public.url} gave is not the published {public.name}: SHA-256 is {found},"
                f" expected {public.sha256}; nothing was kept"
            )
        os.replace(partial, path)
        _make_durable(path.parent)
    partial.with_name(partial.name + ".etag").unlink(missing_ok=True)
    proven = "as published" if public.sha256 else "nobody recorded what it should be"
    say(f"{public.name}: {path}, SHA-256 {found}, {proven}")


@contextmanager
def _held(public: PublicSet, partial: Path) -> Iterator[IO[bytes]]:
    """The partial file, open to go on with; no other process downloads into it."""
    try:
        partial.parent.mkdir(parents=True, exist_ok=True)
        with partial.open("ab+") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield file
    except BlockingIOError:
        raise FetchUnavailable(
            f"another process is downloading {public.name} to {partial}; wait for its end"
        ) from None
    except OSError as error:
        raise FetchUnavailable(
            f"{public.name} cannot be kept at {partial}: {error.strerror or error}"
        ) from error


def _download(public: PublicSet, file: IO[bytes], etag: Path) -> None:
    """Append what is missing; begin anew where the server cannot or will not go on."""
    num_there = file.seek(0, os.SEEK_END)
    if public.num_bytes is not None and num_there >= public.num_bytes:
        return
    _refuse_full_disk(public, Path(file.name), num_there)
    try:
        with _asked(public, num_there, etag) as response:
            if not _goes_on(response, num_there):
                file.truncate(0)
                num_there = 0
            etag.write_text(response.headers.get("ETag") or "")
            _copy(public, response, file, num_there)
    except (HTTPException, OSError) as error:
        if isinstance(error, HTTPError):
            error.close()
            if error.code == _RANGE_NOT_SATISFIABLE:
                file.truncate(0)
        raise FetchUnavailable(_broken(public, file, error)) from error


def _asked(public: PublicSet, num_there: int, etag: Path) -> HTTPResponse:
    headers = {"User-Agent": "bakeoff"}
    known = etag.read_text() if etag.exists() else ""
    if num_there:
        headers["Range"] = f"bytes={num_there}-"
        if known:
            headers["If-Range"] = known
    request = Request(public.url, headers=headers)
    answer = urlopen(request, timeout=_SECONDS_WITHOUT_A_BYTE)  # nosec  # B310: from our own table
    return cast("HTTPResponse", answer)


def _goes_on(response: HTTPResponse, num_there: int) -> bool:
    starts = response.headers.get("Content-Range", "")
    return response.status == _PARTIAL_CONTENT and starts.startswith(f"bytes {num_there}-")


def _copy(public: PublicSet, response: HTTPResponse, file: IO[bytes], num_there: int) -> None:
    """All that comes, onto the disk.

    Raises:
        FetchUnavailable: if less came than was announced, or more than may.
    """
    announced = response.headers.get("Content-Length")
    expected = public.num_bytes or (num_there + int(announced) if announced else None)
    while block := response.read(_BLOCK_BYTES):
        num_there += len(block)
        if num_there > (public.num_bytes or public.most_bytes):
            file.truncate(0)
            raise FetchUnavailable(
                f"{public.url} gives more than the"
                f" {public.num_bytes or public.most_bytes} bytes of {public.name}; nothing was kept"
            )
        file.write(block)
    file.flush()
    os.fsync(file.fileno())
    if expected is not None and num_there < expected:
        raise FetchUnavailable(
            f"{public.url} broke off after {num_there} of {expected} bytes; the same command goes"
            " on from there"
        )


def _broken(public: PublicSet, file: IO[bytes], error: Exception) -> str:
    file.flush()
    reason = error if isinstance(error, HTTPError) else getattr(error, "reason", None) or error
    num_there = os.fstat(file.fileno()).st_size
    kept = f"; the same command goes on after {num_there} bytes" if num_there else ""
    return f"{public.url} cannot be had ({reason}){kept}"


def _refuse_full_disk(public: PublicSet, partial: Path, num_there: int) -> None:
    missing = (public.num_bytes or 0) - num_there
    free = shutil.disk_usage(partial.parent).free
    if missing > free:
        raise FetchUnavailable(
            f"{public.name} needs {missing} bytes more at {partial.parent}, where {free} are free"
        )


def _remove(partial: Path) -> None:
    partial.unlink()
    partial.with_name(partial.name + ".etag").unlink(missing_ok=True)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _make_durable(folder: Path) -> None:
    """The new name of a file in it outlasts a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
