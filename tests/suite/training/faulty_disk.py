"""Simulate a disk that fails at the N-th operation, and a power cut after any operation."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from bakeoff.suite.training import checkpoint
from bakeoff.suite.training import tensor_io as atomic_files

ERRORS = {"ENOSPC": errno.ENOSPC, "EIO": errno.EIO, "EDQUOT": errno.EDQUOT, "EROFS": errno.EROFS}
OPERATIONS = (
    "open",
    "write",
    "fsync",
    "close",
    "replace",
    "rename",
    "mkdir",
    "unlink",
    "rmdir",
    "listdir",
    "scandir",
)


class Watched:
    """A stand-in for `os` that passes each operation to `watch`, which may raise."""

    def __init__(self, watch: Callable[..., None]) -> None:
        self._watch = watch

    def __getattr__(self, name: str) -> Any:
        real = getattr(os, name)
        if name not in OPERATIONS:
            return real

        def operation(*arguments: Any) -> Any:
            if name == "close":  # a file whose close fails is closed nevertheless
                real(*arguments)
                return self._watch(name, arguments, None)
            if name != "open":
                self._watch(name, arguments, None)
                return real(*arguments)
            file = real(*arguments)
            try:
                self._watch(name, arguments, file)
            except OSError:
                os.close(file)
                raise
            return file

        return operation


def watch(patch: pytest.MonkeyPatch, observer: Callable[..., None]) -> None:
    for module in (atomic_files, checkpoint):
        patch.setattr(module, "os", Watched(observer))


@dataclass
class Failing:
    """A watcher that fails at operation number `at`, from 0, once or from then on."""

    at: int
    error: int
    is_for_good: bool = False
    count: int = 0

    def __call__(self, name: str, arguments: tuple[Any, ...], file: int | None) -> None:
        number, self.count = self.count, self.count + 1
        if number == self.at or (self.is_for_good and number > self.at):
            raise OSError(self.error, os.strerror(self.error), name)


@dataclass
class Node:
    """A file or a folder: its current state, and the state that survives a power cut."""

    content: bytes = b""
    lasting: bytes = b""
    names: dict[str, Node] | None = None
    lasting_names: dict[str, Node] = field(default_factory=dict)


@dataclass
class Tape:
    """A recording of all operations below a folder, which can be replayed up to any of them."""

    root: Path
    steps: list[tuple[str, tuple[Any, ...]]] = field(default_factory=list)
    _paths: dict[int, str] = field(default_factory=dict)

    def __call__(self, name: str, arguments: tuple[Any, ...], file: int | None) -> None:
        if name == "open":
            self._paths[file or 0] = self._below(arguments[0])
            if arguments[1] & os.O_CREAT:
                self.steps.append(("create", (self._paths[file or 0],)))
        elif name == "write":
            self.steps.append((name, (self._paths[arguments[0]], bytes(arguments[1]))))
        elif name == "fsync":
            self.steps.append((name, (self._paths[arguments[0]],)))
        elif name in ("replace", "rename", "mkdir", "unlink", "rmdir"):
            self.steps.append((name, tuple(map(self._below, arguments))))

    def note(self, generation: int) -> None:
        """Record that `generation` must survive from now on."""
        self.steps.append(("published", (generation,)))

    def _below(self, path: Any) -> str:
        return str(Path(path).relative_to(self.root))

    def crashes(self) -> Iterator[tuple[Node, int]]:
        """Yield the state after each operation and the generation that must survive."""
        root, published = Node(names={}), 0
        yield root, published
        for name, arguments in self.steps:
            if name == "published":
                published = arguments[0]
            else:
                _play(root, name, arguments)
            yield root, published


def _parent(root: Node, path: str) -> tuple[Node, str]:
    *above, name = Path(path).parts
    for part in above:
        assert root.names is not None
        root = root.names[part]
    return root, name


def _play(root: Node, name: str, arguments: tuple[Any, ...]) -> None:
    if name == "fsync" and arguments[0] == ".":
        root.lasting_names = dict(root.names or {})
        return
    parent, last = _parent(root, arguments[0])
    names = parent.names
    assert names is not None
    if name in ("create", "mkdir"):
        names[last] = Node(names={} if name == "mkdir" else None)
    elif name == "write":
        names[last].content += arguments[1]
    elif name == "fsync":
        names[last].lasting = names[last].content
        names[last].lasting_names = dict(names[last].names or {})
    elif name in ("replace", "rename"):
        to, new = _parent(root, arguments[1])
        assert to.names is not None
        to.names[new] = names.pop(last)
    else:
        del names[last]


def restore(node: Node, path: Path, loses: str) -> None:
    """Write the files that remain after a power cut.

    `loses` names the data that never reached the disk: ``data`` of files, with names kept; half of
    it (``half``); or ``names`` too.
    """
    if node.names is None:
        kept = len(node.content) // 2 if loses == "half" else 0
        is_lasting = node.content == node.lasting
        path.write_bytes(node.lasting if is_lasting else node.lasting or node.content[:kept])
        return
    path.mkdir()
    for name, below in (node.lasting_names if loses == "names" else node.names).items():
        restore(below, path / name, loses)
