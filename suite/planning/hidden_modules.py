"""Refuse a module beside an ablation's file that another module of the same name hides.

The file's folder comes last on the import path, so that nothing in it disturbs the packages that
others import. What the file itself imports must then not be another module without a word.
"""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from suite.import_order import OURS
from suite.planning.own_modules import OwnModule
from suite.spec import SpecError

_CLASS = re.compile(r"([^\W\d]\w*(?:\.[^\W\d]\w*)*):[^\W\d]\w*")


def refuse_hidden(path: Path) -> None:
    """Refuse a module in the file's folder that it imports, and that Python finds elsewhere.

    Raises:
        SpecError: with both places.
    """
    waiting, seen = [(path.stem, path)], {path.stem}
    while waiting:
        name, file = waiting.pop()
        is_package = file.name == "__init__.py"
        module = OwnModule(
            name, file, file.read_bytes(), (str(file.parent),) if is_package else None
        )
        for wanted in (*module.imported, *_classes_named_in(module)):
            top = wanted.partition(".")[0]
            beside = _file_of(path.parent, wanted)
            if wanted in seen or beside is None or top in OURS:
                continue
            seen.add(wanted)
            waiting.append((wanted, beside))
            _refuse_elsewhere(path.parent, top, file)


def _classes_named_in(module: OwnModule) -> Iterator[str]:
    """Yield the modules of classes that a text names, as ``mine:Mixer``."""
    for text in module.texts:
        if found := _CLASS.fullmatch(text):
            yield found[1]


def _file_of(folder: Path, name: str) -> Path | None:
    place = folder.joinpath(*name.split("."))
    files = (place / "__init__.py", place.with_name(f"{place.name}.py"))
    return next((file for file in files if name and file.is_file()), None)


def _refuse_elsewhere(folder: Path, top: str, importer: Path) -> None:
    beside = _file_of(folder, top) or folder / top
    other = _origin(top)
    if other and os.path.realpath(other) != os.path.realpath(beside):
        raise SpecError(
            f"{importer} imports {top}, and Python finds {other} under this name, not {beside}; "
            "rename the latter."
        )


def _origin(top: str) -> str:
    """Return where Python has found the module, or would; empty for a folder without its file."""
    module = sys.modules.get(top)
    spec = importlib.util.find_spec(top) if module is None else getattr(module, "__spec__", None)
    if spec is None or spec.origin is None:
        return ""
    return str(spec.origin) if spec.has_location else "Python's own module"
