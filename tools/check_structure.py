"""Check that every class name is used once; part of `make lint`.

Prints one line for each name that is defined twice and exits with 1 if there is any.
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

FOLDERS = ("suite", "reports", "models")
SHARED_NAMES = frozenset({"Config"})  # every mixer and architecture has a Config of its own


def ambiguous_names(root: Path) -> Iterator[str]:
    """Yield one sentence for each class name that is defined in two places below `root`."""
    places: dict[str, list[str]] = defaultdict(list)
    for file in (file for folder in FOLDERS for file in sorted((root / folder).rglob("*.py"))):
        for node in ast.walk(ast.parse(file.read_text(), filename=str(file))):
            if isinstance(node, ast.ClassDef) and node.name not in SHARED_NAMES:
                places[node.name].append(f"{file.relative_to(root).as_posix()}:{node.lineno}")
    for name, found in sorted(places.items()):
        if len(found) > 1:
            yield f"class {name} is defined {len(found)} times: {', '.join(found)}"


if __name__ == "__main__":
    found = list(ambiguous_names(Path(__file__).parents[1]))
    print("\n".join(found), end="\n" if found else "")
    sys.exit(bool(found))
