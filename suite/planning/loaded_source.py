"""Remember the text of each of the user's modules as it was imported, and compare it with the file.

A file may be edited between its import and the moment at which its content is hashed.
"""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, FunctionType, ModuleType

from suite.import_order import OURS


class RecordingLoader(SourceFileLoader):
    """Keeps the bytes that a module was made from, and writes no bytecode beside the user's file.

    Attributes:
        body: The bytes; None before the import.
    """

    body: bytes | None = None

    def get_code(self, fullname: str) -> CodeType | None:
        """Read the file, and compile it."""
        self.body = self.get_data(self.path)
        found: CodeType = self.source_to_code(self.body, self.path)
        return found


class _RecordingFinder(MetaPathFinder):
    """Finds the user's modules, and gives each a `RecordingLoader`."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        top = fullname.partition(".")[0]
        if top in OURS or top in sys.stdlib_module_names:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is None or type(spec.loader) is not SourceFileLoader or not spec.origin:
            return None
        if is_installed(spec.origin):
            return None
        spec.loader = RecordingLoader(fullname, spec.loader.path)
        return spec


@contextmanager
def recorded() -> Iterator[None]:
    """Record the user's modules that are imported in the block."""
    finder = _RecordingFinder()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


def forget_changed() -> None:
    """Let the modules that plans have imported be imported anew, if one was edited since.

    All of them, since one that imports the edited module holds what this was.
    """
    specs = {name: getattr(each, "__spec__", None) for name, each in list(sys.modules.items())}
    loaders = {name: getattr(spec, "loader", None) for name, spec in specs.items()}
    ours = {name: each for name, each in loaders.items() if isinstance(each, RecordingLoader)}
    if any(map(_is_edited, ours.values())):
        for name in ours:
            del sys.modules[name]


def _is_edited(loader: RecordingLoader) -> bool:
    try:
        return loader.body is not None and loader.body != Path(loader.path).read_bytes()
    except OSError:
        return True


@cache
def is_installed(place: str) -> bool:
    """Return True for what an installation holds, Python's own library included."""
    path = Path(place).resolve()
    libraries = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib")]
    return bool({"site-packages", "dist-packages"} & set(path.parts)) or any(
        path.is_relative_to(Path(library).resolve()) for library in libraries
    )


def is_changed(module: ModuleType, body: bytes) -> bool:
    """Return True if the module was imported from other bytes than these.

    Of a module that was not imported by a plan, only functions and methods are compared.
    """
    loader = getattr(module.__spec__, "loader", None)
    if isinstance(loader, RecordingLoader):
        return loader.body is not None and loader.body != body
    if type(loader) is not SourceFileLoader:  # another one may have rewritten the text
        return False
    try:
        known = set(_codes_in(compile(body, loader.path, "exec", dont_inherit=True)))
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return True
    found = (function.__code__ for function in _functions_of(vars(module), module.__name__))
    return any(code.co_filename == loader.path and code not in known for code in found)


def _codes_in(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _codes_in(constant)


def _functions_of(names: dict[str, object], module: str) -> Iterator[FunctionType]:
    for value in list(names.values()):
        plain = getattr(value, "__func__", getattr(value, "fget", value))  # a method, a property
        if isinstance(plain, FunctionType) and plain.__module__ == module:
            yield plain
        elif isinstance(value, type) and value.__module__ == module:
            yield from _functions_of(dict(vars(value)), module)
