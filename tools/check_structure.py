"""Checks the limits on files, folders, functions and class names; part of `make lint`.

Prints one line for each limit that is exceeded and exits with 1 if there is any.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

WINGS = ("suite", "reports", "models")
MOST_LOOSE_FILES = {"suite": 11, "reports": 5}
MOST_FILES_IN_A_FOLDER = 24
MOST_LINES_OF_A_FILE = 500
MOST_LINES_OF_A_FUNCTION = 40
SHARED_NAMES = frozenset({"Config"})  # every mixer and architecture has a Config of its own
Function = ast.FunctionDef | ast.AsyncFunctionDef


def violations(root: Path) -> Iterator[str]:
    """One sentence for each limit that is exceeded below `root`."""
    files = [file for wing in WINGS for file in sorted((root / wing).rglob("*.py"))]
    trees = {file: ast.parse(file.read_text(), filename=str(file)) for file in files}
    names = {file: file.relative_to(root).as_posix() for file in files}
    yield from _crowded(root, files)
    yield from _long(trees, names)
    yield from _ambiguous(trees, names)


def _crowded(root: Path, files: list[Path]) -> Iterator[str]:
    held = Counter(file.parent.relative_to(root) for file in files)
    for folder, count in sorted(held.items()):
        most = MOST_LOOSE_FILES.get(str(folder), MOST_FILES_IN_A_FOLDER)
        if count > most:
            yield (
                f"{folder}: {count} Python files, at most {most} are allowed; move files that "
                "belong together into a folder of their own"
            )


def _long(trees: dict[Path, ast.Module], names: dict[Path, str]) -> Iterator[str]:
    for file, tree in trees.items():
        lines = len(file.read_text().splitlines())
        if lines > MOST_LINES_OF_A_FILE:
            yield f"{names[file]}: {lines} lines, at most {MOST_LINES_OF_A_FILE} are allowed"
        for node in ast.walk(tree):
            if isinstance(node, Function) and (size := _size(node)) > MOST_LINES_OF_A_FUNCTION:
                yield (
                    f"{names[file]}:{node.lineno}: {node.name} has {size} lines, at most "
                    f"{MOST_LINES_OF_A_FUNCTION} are allowed"
                )


def _size(function: Function) -> int:
    """Lines without those of the docstring, which may hold a table and an example."""
    first = function.body[0]
    is_documented = ast.get_docstring(function) is not None
    lines = [function, *([first] if is_documented else [])]
    sizes = [(node.end_lineno or 0) - node.lineno + 1 for node in lines]
    return sizes[0] - sum(sizes[1:])


def _ambiguous(trees: dict[Path, ast.Module], names: dict[Path, str]) -> Iterator[str]:
    places: dict[str, list[str]] = defaultdict(list)
    for file, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and node.name not in SHARED_NAMES:
                places[node.name].append(f"{names[file]}:{node.lineno}")
    for name, found in sorted(places.items()):
        if len(found) > 1:
            yield f"class {name} is defined {len(found)} times: {', '.join(found)}"


if __name__ == "__main__":
    exceeded = list(violations(Path(__file__).parents[1]))
    print("\n".join(exceeded), end="\n" if exceeded else "")
    sys.exit(bool(exceeded))
