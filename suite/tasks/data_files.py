"""Reads one shipped data file, or says in one sentence why it cannot.

The digest is checked before a byte is decompressed, so what the decompressor and the parsers see
is what shipped. Files are xz over plain bytes, never a pickle. Each task keeps what it parsed for
the life of the process, so a file is read and checked once.
"""

from __future__ import annotations

import hashlib
import lzma
from pathlib import Path

from suite.tasks.task import DataSource, TaskError

DATA_FOLDER = Path(__file__).with_name("data")


def read_verified(source: DataSource) -> bytes:
    """The file as it stands on disk, still compressed, its SHA-256 compared with the recorded one.

    Raises:
        TaskError: if the file is missing, unreadable or not the one that shipped.
    """
    path = DATA_FOLDER / source.file
    try:
        packed = path.read_bytes()
    except FileNotFoundError:
        raise TaskError(f"data file {path} is missing; {_remedy(source)}") from None
    except OSError as error:
        raise TaskError(f"data file {path} cannot be read ({error.strerror})") from error
    found = hashlib.sha256(packed).hexdigest()
    if found != source.sha256:
        raise TaskError(
            f"data file {path} is not the one that shipped: SHA-256 of its {len(packed)} bytes"
            f" is {found}, expected {source.sha256}; {_remedy(source)}"
        )
    return packed


def read_content(source: DataSource) -> bytes:
    """The decompressed content of the file.

    Raises:
        TaskError: as `read_verified`, and if the file is no whole xz stream.
    """
    packed = read_verified(source)
    try:
        return lzma.decompress(packed, format=lzma.FORMAT_XZ)
    except lzma.LZMAError as error:
        raise malformed(source, f"not a whole xz stream ({error})") from error


def malformed(source: DataSource, problem: str) -> TaskError:
    """The error of a parser that finds `problem` in the content of a file."""
    return TaskError(f"data file {DATA_FOLDER / source.file} is malformed: {problem}")


def _remedy(source: DataSource) -> str:
    return f"reinstall bakeoff, or rebuild the file with tools/build_{source.name}.py"
