"""Find the user's own data, prepare them once, and make tasks of them.

A file is read once: its reader writes arrays into a folder beside the fetched data, named by the
content of the file and the fields of the definition, and every process maps these arrays into
memory. So a trial uses the data that were planned, even if the file is edited meanwhile.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, ClassVar, NamedTuple

import numpy as np
from filelock import FileLock
from numpy.typing import NDArray

from bakeoff.models.errors import did_you_mean
from bakeoff.models.model_spec import content_hash
from bakeoff.suite.spec.own_data import OwnData, own_data
from bakeoff.suite.tasks.data_files import fetched_folder
from bakeoff.suite.tasks.task import DataSource, Task, TaskError

_READERS: Mapping[str, str] = {
    "TextFile": "bakeoff.suite.tasks.own.text_file:TextFileReader",
    "Table": "bakeoff.suite.tasks.own.table:TableReader",
    "SavedDataset": "bakeoff.suite.tasks.own.saved_dataset:SavedDatasetReader",
    "Pairs": "bakeoff.suite.tasks.own.pairs:PairsReader",
    "Arrays": "bakeoff.suite.tasks.own.arrays:ArraysReader",
    "ImageFolder": "bakeoff.suite.tasks.own.image_folder:ImageFolderReader",
}
_FACTS = "facts.json"
_LOCK = "preparing.lock"


class Located(NamedTuple):
    """The path of own data, and the SHA-256 of their content."""

    path: Path
    sha256: str


@dataclass(frozen=True)
class Prepared:
    """The arrays and facts that a reader has written.

    Attributes:
        folder: The folder of the arrays.
    """

    folder: Path

    @cached_property
    def facts(self) -> dict[str, Any]:
        """The numbers and texts that the reader has stored."""
        found: dict[str, Any] = json.loads((self.folder / _FACTS).read_text())
        return found

    def array(self, name: str) -> NDArray[Any]:
        """Return an array, mapped into memory and read-only."""
        found: NDArray[Any] = np.load(
            self.folder / f"{name}.npy", mmap_mode="r", allow_pickle=False
        )
        return found


class Reader(ABC):
    """The way in which one kind of own data is read.

    Attributes:
        version: A number that increases whenever a change of the code changes a task.
    """

    version: ClassVar[int] = 1

    def __init__(self, data: Any) -> None:
        self.data = data

    def files(self, path: Path) -> Sequence[Path]:
        """Return the files that the data consist of, in a fixed order.

        Raises:
            TaskError: if there is no such file.
        """
        if path.is_dir():
            raise TaskError(f"{path} is a folder; give the path of a file")
        if not path.exists():
            near = [each.name for each in path.parent.iterdir()] if path.parent.is_dir() else []
            raise TaskError(f"{path} does not exist{did_you_mean(path.name, near)}")
        if not path.is_file():
            raise TaskError(f"{path} is not a regular file")
        return (path,)

    @abstractmethod
    def prepare(self, path: Path, to: Path) -> dict[str, Any]:
        """Write arrays into the folder `to` (by `numpy.save`), and return facts for JSON.

        Memory is bounded: a large file is read in parts.

        Raises:
            TaskError: if the content does not suit the definition; one sentence that names the file
                and, where it can, row and column.
        """

    @abstractmethod
    def task(self, prepared: Prepared) -> dict[str, Any]:
        """Return ``base``, the class of the task, and the class attributes that depend on the data.

        `own_data_task` adds `name`, `source`, `version` and `prepared`.
        """


# Spelling -> the path that was planned last.
_PATHS: dict[str, Path] = {}
# Spelling -> what the trials of this process use, even if the file is edited meanwhile.
_PINNED: dict[str, Located] = {}
_FOLDERS: ContextVar[tuple[str, ...]] = ContextVar("folders of own data", default=())


@contextmanager
def looked_for_in(folders: Iterable[str]) -> Iterator[None]:
    """Look for relative paths in these folders first, then in the current one."""
    token = _FOLDERS.set((*folders, os.curdir))
    try:
        yield
    finally:
        _FOLDERS.reset(token)


def located(spelling: str) -> Located:
    """Return where own data are, and the digest of their content.

    Raises:
        TaskError: if they do not exist or cannot be read.
    """
    folders = _FOLDERS.get()
    if not folders and spelling in _PINNED:
        return _PINNED[spelling]
    data = own_data(spelling)
    path = _PATHS.get(spelling)
    if folders or path is None:
        path = _path_of(data, folders or (os.curdir,))
    if folders:
        _PINNED.pop(spelling, None)
        _PATHS[spelling] = path
    return Located(path, _digest_of(_reader(data), path))


def use_located(places: Mapping[str, tuple[str, str]]) -> None:
    """Use these paths and digests, by spelling, until the data are planned again."""
    _PINNED.update({name: Located(Path(path), sha256) for name, (path, sha256) in places.items()})


def files_of(spelling: str) -> Sequence[Path]:
    """Return the files of own data."""
    return _reader(own_data(spelling)).files(located(spelling).path)


def described(spelling: str) -> str:
    """Return the path of own data and what was found there, in one or two sentences."""
    place, data = located(spelling), own_data(spelling)
    return f"{place.path}: {_prepared(data, _reader(data), place).facts['summary']}"


def own_data_task(spelling: str) -> type[Task]:
    """Return the task on own data.

    Raises:
        TaskError: if the data cannot be found or read, or do not suit their definition.
    """
    return _task(spelling, located(spelling))


def _path_of(data: OwnData, folders: Iterable[str]) -> Path:
    if "://" in data.path:
        raise TaskError(f"{data.path} is an address; download the file and give its path")
    places = [Path(folder, os.path.expanduser(data.path)).absolute() for folder in folders]
    return next((place for place in places if os.path.exists(place)), places[0])


def _digest_of(reader: Reader, path: Path) -> str:
    """Return the SHA-256 of the file, or of the names and digests of the files of a folder."""
    try:
        files = reader.files(path)
        digests = {os.path.relpath(file, path): _of_file(file) for file in files}
    except OSError as error:
        wrong = error.filename or path
        raise TaskError(f"{wrong} cannot be read ({error.strerror or error})") from error
    if list(files) == [path]:
        return digests[os.curdir]
    return hashlib.sha256(json.dumps(digests, sort_keys=True).encode()).hexdigest()


def _of_file(file: Path) -> str:
    try:
        stat = file.stat()
        return _digest(str(file), stat.st_mtime_ns, stat.st_size, stat.st_ino)
    except OSError as error:
        raise TaskError(f"{file} cannot be read ({error.strerror or error})") from error


@cache
def _digest(file: str, *state: int) -> str:
    with open(file, "rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _reader(data: OwnData) -> Reader:
    found: Reader = resolve_name(_READERS[type(data).__name__])(data)
    return found


@cache
def _task(spelling: str, place: Located) -> type[Task]:
    data = own_data(spelling)
    reader = _reader(data)
    prepared = _prepared(data, reader, place)
    found = reader.task(prepared)
    base: type[Task] = found.pop("base")
    source = DataSource(
        name=data.short_name,
        title=f"{data.path}: {prepared.facts['summary']}",
        licence="not stated",
        origin="the user's own data",
        sha256=place.sha256,
        file="",  # `own_data_of` compares the content
    )
    added = {
        "name": data.short_name,
        "source": source,
        "version": reader.version,
        "prepared": prepared,
    }
    return type(type(data).__name__, (base,), {"__doc__": str(data), **found, **added})


def _prepared(data: OwnData, reader: Reader, place: Located) -> Prepared:
    """Return the prepared data; if no process has prepared them, read the file."""
    above = fetched_folder() / "own"
    content = [type(data).__name__, reader.version, data.definition, place.sha256]
    folder = above / content_hash(content)
    if (folder / _FACTS).exists():
        return Prepared(folder)
    try:
        above.mkdir(parents=True, exist_ok=True)
        with FileLock(above / _LOCK):  # one for all data, because no lock file can be removed
            if not (folder / _FACTS).exists():
                _prepare(reader, place, folder)
    except OSError as error:
        raise TaskError(
            f"{place.path} cannot be prepared in {above} ({error.strerror or error}); the "
            "environment variable BAKEOFF_DATA names another folder"
        ) from error
    return Prepared(folder)


def _prepare(reader: Reader, place: Located, folder: Path) -> None:
    if _digest_of(reader, place.path) != place.sha256:
        raise TaskError(f"{place.path} was changed after it had been planned")
    half_written = Path(tempfile.mkdtemp(dir=folder.parent, prefix="unfinished-"))
    try:
        facts = reader.prepare(place.path, half_written)
        (half_written / _FACTS).write_text(json.dumps(facts, ensure_ascii=False))
        half_written.replace(folder)
    finally:
        shutil.rmtree(half_written, ignore_errors=True)
