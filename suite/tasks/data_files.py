"""Reads one data file, or says in one sentence why it cannot.

The digest is checked before a byte is decompressed, so what the decompressor and the parsers see
is what shipped, or was published. Files that ship are xz over plain bytes, never a pickle. Each
task keeps what it parsed for the life of the process, so a file is read and checked once. Files
that `bakeoff data fetch` brings lie in a folder of their own; generated data have no file, unless
they are composed of what is in one, and so nothing that could be damaged.
"""

from __future__ import annotations

import hashlib
import lzma
import os
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path

from suite.tasks.task import DataSource, TaskError

DATA_FOLDER = Path(__file__).with_name("data")
FETCHED_FOLDER_VARIABLE = "BAKEOFF_DATA"  # in the environment, in place of the default


def fetched_folder() -> Path:
    """Where fetched files lie, unless somebody says otherwise."""
    named = os.environ.get(FETCHED_FOLDER_VARIABLE)
    return Path(named) if named else Path.home() / ".cache" / "bakeoff"


def path_of(source: DataSource) -> Path:
    """Where the file of a data set lies, or ought to; it must have one."""
    assert source.file, "generated data have no file"
    return (fetched_folder() if source.is_fetched else DATA_FOLDER) / source.file


def is_absent(source: DataSource) -> bool:
    """Whether the data could be fetched, and none was yet; nothing is wrong then."""
    return source.is_fetched and not any(os.path.exists(path_of(each)) for each in source.files)


def refuse_damaged(source: DataSource) -> None:
    """Refuse data that are not those that the task was defined on.

    Raises:
        TaskError: if there are files, and one is missing, unreadable or another one.
    """
    for each in source.files:
        if each.file:
            with opened_verified(each):
                pass


def read_verified(source: DataSource) -> bytes:
    """The file as it stands on disk, still compressed, its digest compared with the recorded one.

    Raises:
        TaskError: if the file is missing, unreadable or not the one that it should be.
    """
    with opened_verified(source) as file:
        return file.read()


@contextmanager
def opened_verified(source: DataSource) -> Iterator[BufferedReader]:
    """The same file, open at its beginning, for what is too large to be held in memory.

    Raises:
        TaskError: if the file is missing, unreadable or not the one that it should be.
    """
    path = path_of(source)
    try:
        with path.open("rb") as file:
            _refuse_other(source, file)
            file.seek(0)
            yield file
    except FileNotFoundError:
        raise TaskError(f"data file {path} is missing; {_remedy(source)}") from None
    except OSError as error:
        raise TaskError(f"data file {path} cannot be read ({error.strerror or error})") from error


def _refuse_other(source: DataSource, file: BufferedReader) -> None:
    """Refuse a file that has not the recorded digest; it is read to its end."""
    name, expected = ("SHA-256", source.sha256) if source.sha256 else ("MD5", source.md5)
    hashed = hashlib.sha256() if source.sha256 else hashlib.md5(usedforsecurity=False)
    found = hashlib.file_digest(file, lambda: hashed).hexdigest()
    if found != expected:
        origin = "was published" if source.is_fetched else "shipped"
        raise TaskError(
            f"data file {path_of(source)} is not the one that {origin}: {name} of its"
            f" {file.tell()} bytes is {found}, expected {expected}; {_remedy(source)}"
        )


def read_content(source: DataSource) -> bytes:
    """The decompressed content of the file.

    Raises:
        TaskError: as `read_verified`, and if the file is no whole xz stream.
    """
    packed = read_verified(source)
    try:
        return lzma.decompress(packed, format=lzma.FORMAT_XZ)
    except lzma.LZMAError as error:
        raise malformed(source, f"not a whole xz stream ({error})") from error


def malformed(source: DataSource, problem: str) -> TaskError:
    """The error of a parser that finds `problem` in the content of a file."""
    return TaskError(f"data file {path_of(source)} is malformed: {problem}")


def _remedy(source: DataSource) -> str:
    if source.is_fetched:
        return f"`bakeoff data fetch {source.name}` brings it"
    return f"reinstall bakeoff, or rebuild the file with tools/build_{source.name}.py"
