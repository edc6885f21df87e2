"""Locate the code of this package, and that of the running program."""

from __future__ import annotations

import os
import sys
from pathlib import Path

NAME = "bakeoff"
PACKAGE = Path(__file__).parents[1]
SHIPPED_VERDICTS = PACKAGE / "ablations" / "published_results.csv"  # `make pages` writes it
# In a checkout, the folders of the package are links to folders of the repository.
_FOLDERS = tuple(
    folder.resolve() for folder in (PACKAGE, *(each for each in PACKAGE.iterdir() if each.is_dir()))
)


def is_ours(place: Path) -> bool:
    """Return True for a file or folder of this package."""
    return any(place.resolve().is_relative_to(folder) for folder in _FOLDERS)


def program_folder() -> str:
    """Return the folder of the running program, which Python puts first on the import path."""
    file = getattr(sys.modules.get("__main__"), "__file__", None)
    return os.path.dirname(os.path.realpath(file)) if file else ""
