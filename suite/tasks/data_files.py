"""Read one data file, or raise an error of one sentence that states the problem.

The digest is checked before a byte is decompressed, so the decompressor and the parsers only
process the bytes that shipped or were published. Files that ship are xz over plain bytes, never a
pickle. Each task keeps its parsed data for the life of the process, so a file is read and checked
once. Files from `bakeoff data fetch` are in a folder of their own. Generated data have no file that
could be damaged, unless they are composed of the content of one.
"""

from __future__ import annotations

import hashlib
import lzma
import os
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path

from bakeoff.suite.tasks.task import DataSource, TaskError

DATA_FOLDER = Path(__file__).with_name("data")
FETCHED_FOLDER_VARIABLE = "BAKEOFF_DATA"  # environment variable that replaces the default


def fetched_folder() -> Path:
    """Return the folder of fetched files: the environment variable's or the default one."""
    named = os.environ.get(FETCHED_FOLDER_VARIABLE)
    return Path(named) if named else Path.home() / ".cache" / "bakeoff"


def path_of(source: DataSource) -> Path:
    """Return the path of a data set's file, whether or not it exists; the set must have one."""
    assert source.file, "generated data have no file"
    return (fetched_folder() if source.is_fetched else DATA_FOLDER) / source.file


def is_absent(source: DataSource) -> bool:
    """Return True if the data can be fetched and none of their files is present (not an error)."""
    return source.is_fetched and not any(os.path.exists(path_of(each)) for each in source.files)


def refuse_damaged(source: DataSource) -> None:
    """Raise if the data are not those that the task was defined on.

    Raises:
        TaskError: if a file of the set is missing, unreadable or different.
    """
    for each in source.files:
        if each.file:
            with opened_verified(each):
                pass


def read_verified(source: DataSource) -> bytes:
    """Return the file as stored, still compressed, after a check of its digest.

    Raises:
        TaskError: if the file is missing, unreadable or different.
    """
    with opened_verified(source) as file:
        return file.read()


@contextmanager
def opened_verified(source: DataSource) -> Iterator[BufferedReader]:
    """Open the file at its start after a check of its digest; for files too large for memory.

    Raises:
        TaskError: if the file is missing, unreadable or different.
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
    """Raise if the file does not have the recorded digest; it is read to its end."""
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
    """Return the decompressed content of the file.

    Raises:
        TaskError: as `read_verified`, or if the file is not a whole xz stream.
    """
    packed = read_verified(source)
    try:
        return lzma.decompress(packed, format=lzma.FORMAT_XZ)
    except lzma.LZMAError as error:
        raise malformed(source, f"not a whole xz stream ({error})") from error


def malformed(source: DataSource, problem: str) -> TaskError:
    """Return the error of a parser that finds `problem` in the content of a file."""
    return TaskError(f"data file {path_of(source)} is malformed: {problem}")


def _remedy(source: DataSource) -> str:
    if source.is_fetched:
        return f"`bakeoff data fetch {source.name}` downloads it"
    return f"reinstall bakeoff, or rebuild the file with tools/build_{source.name}.py"
