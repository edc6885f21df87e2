"""Import the user's code, in the process of a trial, as it was when the sweep was planned.

A module keeps its `__file__`, so that data files beside it are found. Its source comes from the
plan, and so do the lines that tracebacks, Triton and TorchScript read.
"""

from __future__ import annotations

import hashlib
import linecache
import os
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType

from bakeoff.suite.events import PlannedCode
from bakeoff.suite.tasks.own.data import use_located


class ChangedFile(RuntimeError):
    """Raised if a file that the user's classes declare has changed since the plan."""


def import_only(code: PlannedCode | None) -> None:
    """Let this process import the planned modules, and nothing else from the user's folders.

    The process must only run trials of one sweep.
    """
    sys.meta_path[:] = [each for each in sys.meta_path if not isinstance(each, _PlannedFinder)]
    if code is None:
        return
    use_located(code.data)
    if not code.modules:  # own data alone run no code, and this process may serve other trials
        return
    sys.meta_path.insert(0, _PlannedFinder(code))
    folders = {os.path.realpath(folder) for folder in code.folders}
    sys.path[:] = [entry for entry in sys.path if os.path.realpath(entry) not in folders]
    for module in code.modules.values():
        # Without a modification time linecache does not check the file.
        if module.source is not None:
            lines = module.source.splitlines(keepends=True)
            linecache.cache[module.file] = (len(module.source), None, lines, module.file)


def refuse_changed_files() -> None:
    """Raise if a declared file differs from the planned one.

    Raises:
        ChangedFile: The message names its path.
    """
    for finder in sys.meta_path:
        if isinstance(finder, _PlannedFinder):
            finder.refuse_changed_files()


def planned_folders() -> tuple[str, ...]:
    """Return the user's folders, which are not on the import path here."""
    found = (each for each in sys.meta_path if isinstance(each, _PlannedFinder))
    return next((finder.code.folders for finder in found), ())


class _PlannedFinder(MetaPathFinder):
    """The first finder of a process that runs the user's code."""

    def __init__(self, code: PlannedCode) -> None:
        self.code = code

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find a planned module.

        Raises:
            ImportError: For a user's module that was not planned.
        """
        planned = self.code.modules.get(fullname)
        if planned is None:
            self._refuse_unplanned(fullname, path)
            return None
        folders = None if planned.folders is None else list(planned.folders)
        if not planned.file:
            spec = ModuleSpec(fullname, None, is_package=True)
            spec.submodule_search_locations = folders
            return spec
        if planned.source is None:
            return spec_from_file_location(fullname, planned.file)
        return spec_from_file_location(
            fullname,
            planned.file,
            submodule_search_locations=folders,
            loader=_PlannedLoader(fullname, planned.file, planned.source),
        )

    def _refuse_unplanned(self, fullname: str, path: Sequence[str] | None) -> None:
        """Raise for an unplanned module of a planned package; others are not on the path anyway."""
        if fullname.rpartition(".")[0] not in self.code.modules:
            return
        found = PathFinder.find_spec(fullname, path)
        if found is not None and found.loader is not None:
            raise ImportError(
                f"{found.origin} was not planned, since no import statement of what was planned "
                f"names it; write `import {fullname}` at the top of the module that needs it",
                name=fullname,
            )

    def refuse_changed_files(self) -> None:
        """Raise `ChangedFile` in the same cases as the function `refuse_changed_files`."""
        for path, sha256 in self.code.digests.items():
            try:
                is_same = hashlib.sha256(Path(path).read_bytes()).hexdigest() == sha256
            except OSError:
                is_same = False
            if not is_same:
                raise ChangedFile(f"{path} was changed after the sweep was planned")


class _PlannedLoader(SourceFileLoader):
    """A loader of the planned source; the other attributes of the module are unchanged."""

    def __init__(self, fullname: str, path: str, source: str) -> None:
        super().__init__(fullname, path)
        self._source = source

    def get_code(self, fullname: str) -> CodeType | None:
        """Return the compiled source."""
        found: CodeType = self.source_to_code(self._source, self.path)
        return found

    def get_source(self, fullname: str) -> str | None:
        """Return the source."""
        return self._source
