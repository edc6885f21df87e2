"""Writes a file whole or not at all, and only where its bytes change."""

from __future__ import annotations

import os
import secrets
from collections.abc import Collection
from pathlib import Path


def write_whole(path: Path, content: bytes) -> bool:
    """Write a file so that a reader, at any moment, sees the old bytes or the new ones.

    Returns:
        Whether the file changed.

    Raises:
        OSError: if it cannot be written; the old file is then untouched.
    """
    if path.is_file() and path.read_bytes() == content:
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name[:80]}.{secrets.token_hex(4)}.tmp")
    try:
        with partial.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)
    return True


def remove_stale(folder: Path, suffixes: Collection[str], keep: Collection[str]) -> None:
    """Remove files of these suffixes that are not to be kept; nothing else is touched."""
    for path in sorted(folder.glob("*")):
        if path.suffix in suffixes and path.name not in keep and not path.name.startswith("."):
            path.unlink()
