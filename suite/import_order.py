"""Keep the names of our packages ours, regardless of the order of the import path.

Many projects have a folder `models` or `reports`. It must not silently be imported in place of
ours, nor ours in place of the project's.
"""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

OURS = ("suite", "models", "ablations", "reports")
ROOT = Path(__file__).resolve().parents[1]


def claim_names() -> None:
    """Import our other packages from the folder that this one is in.

    On a cluster each package has a folder of its own, and Ray puts these first on the path.

    Raises:
        ImportError: If another package of that name has been imported already; the message names
            its path.
    """
    for name in OURS[1:]:
        file = ROOT / name / "__init__.py"
        if not file.is_file():
            continue
        if name not in sys.modules:
            _import_from(name, file)
        elif not _is_at(sys.modules[name], file):
            raise ImportError(_in_the_way(_place_of(sys.modules[name]) or name, name), name=name)
    if not any(isinstance(finder, _Explanation) for finder in sys.meta_path):
        sys.meta_path.append(_Explanation())


def _import_from(name: str, file: Path) -> None:
    spec = importlib.util.spec_from_file_location(
        name, file, submodule_search_locations=[str(file.parent)]
    )
    assert spec is not None, "a .py file has a loader"
    assert spec.loader is not None, "a .py file has a loader"
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)


def _is_at(module: ModuleType, file: Path) -> bool:
    found = getattr(module, "__file__", None)
    return bool(found) and os.path.realpath(str(found)) == str(file)


def _place_of(module: ModuleType) -> str:
    return str(next(iter(getattr(module, "__path__", [])), getattr(module, "__file__", "")))


def _in_the_way(place: str, name: str) -> str:
    return f"{place} has the name of bakeoff's own package {name!r}; rename it"


def program_folder() -> str:
    """Return the folder of the running program, which Python puts first on the import path."""
    file = getattr(sys.modules.get("__main__"), "__file__", None)
    return os.path.dirname(os.path.realpath(file)) if file else ""


class _Explanation(MetaPathFinder):
    """The last finder, which names the folder where a module of our name was expected."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find nothing.

        Raises:
            ImportError: If a user's folder holds a module that our package of that name lacks.
        """
        name, _, rest = fullname.partition(".")
        if name in OURS and rest:
            for entry in dict.fromkeys(sys.path):
                place = Path(entry) / name
                if _holds(place, rest.partition(".")[0]):
                    raise ImportError(_in_the_way(str(place.absolute()), name), name=name)
        return None


def _holds(place: Path, part: str) -> bool:
    """Return True if the folder, or the module of that name, is not ours and has such a part."""
    if place.resolve() == ROOT / place.name:
        return False
    if (place / part).is_dir() or (place / f"{part}.py").is_file():
        return True
    files = (place / "__init__.py", place.with_suffix(".py"))
    texts = (file.read_text(errors="replace") for file in files if file.is_file())
    return any(re.search(rf"\b{re.escape(part)}\b", text) for text in texts)
