"""Check the rules about names that no linter knows; part of `make lint`.

- A class name is used once.
- Only `models` knows an architecture, so that a new one is one file and one line of the registry.
  A task may name the architecture that it takes by default.
- No file or folder has a name that fits everything, as "utils" does.

Prints one line for each finding and exits with 1 if there is any.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

from bakeoff.models.registry import ARCHITECTURES

FOLDERS = ("suite", "reports", "models")
SHARED_NAMES = frozenset({"Config"})  # every mixer and architecture has a Config of its own
EMPTY_NAMES = frozenset({"utils", "util", "helpers", "helper", "common", "misc", "core"})
_TESTS_OF_TYPE = ("isinstance", "issubclass")

Trees = Mapping[str, ast.Module]


def findings(root: Path) -> Iterator[str]:
    """Yield one sentence for each broken rule below `root`."""
    files = (file for folder in FOLDERS for file in sorted((root / folder).rglob("*.py")))
    trees = {f.relative_to(root).as_posix(): ast.parse(f.read_text(), str(f)) for f in files}
    yield from _ambiguous_names(trees)
    yield from _known_architectures(trees)
    for name in trees:
        if EMPTY_NAMES & set(name.removesuffix(".py").split("/")):
            yield f"{name}: the name does not say what the file holds"


def _ambiguous_names(trees: Trees) -> Iterator[str]:
    places: dict[str, list[str]] = defaultdict(list)
    for name, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and node.name not in SHARED_NAMES:
                places[node.name].append(f"{name}:{node.lineno}")
    for name, found in sorted(places.items()):
        if len(found) > 1:
            yield f"class {name} is defined {len(found)} times: {', '.join(found)}"


def _known_architectures(trees: Trees) -> Iterator[str]:
    homes = {name for home in ARCHITECTURES.values() for name in home.split(":")}
    words = homes | ARCHITECTURES.keys()
    classes = {
        node.name
        for name, tree in trees.items()
        if name.startswith(("models/architectures/", "models/architecture.py"))
        for node in tree.body
        if isinstance(node, ast.ClassDef)
    }
    for name, tree in trees.items():
        if not name.startswith("models/"):
            defaults = _defaults_of_tasks(tree) if name.startswith("suite/tasks/") else set()
            for node in ast.walk(tree):
                known = _named(node, defaults) & words | _tested(node) & classes
                if isinstance(node, ast.Expr):  # a docstring
                    defaults.add(node.value)
                if known:
                    yield f"{name}: names the architecture {', '.join(sorted(known))}"


def _defaults_of_tasks(tree: ast.Module) -> set[ast.expr]:
    """Return the values that classes assign to ``architecture``."""
    return {
        node.value
        for kind in ast.walk(tree)
        if isinstance(kind, ast.ClassDef)
        for node in kind.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "architecture"
    }


def _named(node: ast.AST, spared: set[ast.expr]) -> set[str]:
    """Return the words of a string, or the module of an import."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in spared:
        return set(re.findall(r"\w+", node.value))
    if isinstance(node, ast.ImportFrom):
        return {str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)}
    return {alias.name for alias in node.names} if isinstance(node, ast.Import) else set()


def _tested(node: ast.AST) -> set[str]:
    """Return the classes of an `isinstance`, an `issubclass` or a `case`."""
    if isinstance(node, ast.MatchClass):
        return {ast.unparse(node.cls)}
    is_test = isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    if is_test and node.func.id in _TESTS_OF_TYPE:
        return set(re.findall(r"\w+", ast.unparse(node.args[1])))
    return set()


if __name__ == "__main__":
    found = list(findings(Path(__file__).parents[1]))
    print("\n".join(found), end="\n" if found else "")
    sys.exit(bool(found))
