"""Find the user's own code of a plan: the ablation's file, and all of the user's that it imports.

Own is what was imported from outside the installed packages and ours. The plan must be made in this
process: what it imports is read off the interpreter.
"""

from __future__ import annotations

import ast
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from types import ModuleType

from models.registry import mixer_pattern
from suite.schema import Plan
from suite.text import redact

OURS = ("suite", "models", "ablations", "reports")


def source_of(plan: Plan) -> dict[str, str]:
    """Place -> text of the user's files that a plan was made from; empty where there are none.

    Passwords in addresses are left out.
    """
    waiting, found = list(dict.fromkeys(_named_in(plan))), dict[str, str]()
    seen: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name in seen or name not in sys.modules or not _is_own(name.partition(".")[0]):
            continue
        seen.add(name)
        file = getattr(sys.modules[name], "__file__", None)
        with suppress(OSError, SyntaxError, ValueError):  # changed meanwhile
            if file and file.endswith(".py"):
                body = Path(file).read_bytes()
                found[_place(name, file)] = redact(body.decode(errors="backslashreplace"))
                waiting += _modules_in(body, str(sys.modules[name].__package__))
    return dict(sorted(found.items()))


def _place(name: str, file: str) -> str:
    return name.replace(".", "/") + ("/__init__.py" if Path(file).stem == "__init__" else ".py")


def _modules_in(body: bytes, package: str) -> Iterator[str]:
    """Every module that the source may import, and the packages around it."""
    for node in ast.walk(ast.parse(body)):
        names = list(_names_of(node))
        if isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1]
            base = ".".join(filter(None, [*(above if node.level else ()), node.module]))
            names = [base, *(f"{base}.{alias.name}" for alias in node.names)]
        for name in names:
            parts = name.split(".")
            yield from (".".join(parts[: n + 1]) for n in range(len(parts)))


def own_modules(plans: Sequence[Plan]) -> list[str]:
    """Top-level names of the user's modules: those named by the plans, and what these import."""
    waiting = [name for plan in plans for name in _named_in(plan)]
    found: dict[str, None] = {}
    while waiting:
        top = waiting.pop().partition(".")[0]
        if top not in found and _is_own(top):
            found[top] = None
            waiting += [name for file in _loaded_files(top) for name in _names_in(file)]
    return list(found)


def _named_in(plan: Plan) -> Iterator[str]:
    if plan.source_paths:
        yield plan.about.ablation
    for trial in plan.trials:
        for subject in trial.subjects:
            for name in (*mixer_pattern(subject.mixer), subject.architecture):
                module, colon, _ = name.partition(":")
                if colon:
                    yield module


def _loaded_files(top: str) -> list[Path]:
    """Of a top-level name, the source of all that was really imported."""
    # A copy: a thread may import something meanwhile.
    names = [name for name in list(sys.modules) if name == top or name.startswith(f"{top}.")]
    files = (getattr(sys.modules[name], "__file__", None) for name in names)
    return [Path(file) for file in files if file and file.endswith(".py")]


def _names_in(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_bytes())):
        yield from _names_of(node)


def _names_of(node: ast.AST) -> Iterator[str]:
    """Every module that it may import: named in an import, or in a string alone.

    So `import_module("mine.parts")` and ``mixer="mine:Mixer"`` count. That a string may mean
    something else does no harm: only what was imported, and is the user's own, travels.
    """
    match node:
        case ast.Import(names=names):
            yield from (alias.name for alias in names)
        case ast.ImportFrom(module=str(module), level=0):
            yield module
        case ast.Constant(value=str(text)):
            yield text.partition(":")[0]


def _is_own(top: str) -> bool:
    """Imported, from a file or folder that no installation and no package of ours holds."""
    module = sys.modules.get(top)
    if module is None or top in (*OURS, "__main__") or top in sys.stdlib_module_names:
        return False
    held = [Path(place).resolve() for place in places(module)]
    return bool(held) and not any(_is_installed(place) for place in held)


def places(module: ModuleType) -> list[str]:
    """The folders of a package, or the file of a module of Python's."""
    if hasattr(module, "__path__"):
        return list(module.__path__)
    file = getattr(module, "__file__", None)
    return [file] if file and file.endswith(".py") else []


def _is_installed(place: Path) -> bool:
    libraries = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib")]
    return bool({"site-packages", "dist-packages"} & set(place.parts)) or any(
        place.is_relative_to(Path(library).resolve()) for library in libraries
    )
