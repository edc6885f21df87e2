"""How do specimens become files that any program opens? Matrices as PNG, texts as plain text."""

from __future__ import annotations

import base64
import re
import struct
import zlib
from binascii import Error
from collections.abc import Iterator, Sequence

from suite.schema import Result, Specimen

_FOLDERS = {"attention": "attention", "positions": "positions", "text": "samples"}
_CELL = 10  # pixels to a side
_MAX_SIDE = 1024  # cells
_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_LIGHT, _MIDDLE, _DARK = (255, 255, 255), (0, 114, 178), (6, 32, 58)  # red, green, blue


def specimen_files(result: Result) -> dict[str, bytes]:
    """Path -> content, as ``attention/layer1_head2.png`` and ``samples/continuation.txt``.

    What can be no picture (another program may have written the result) is left out. Shades grow
    with the square root of the value, as in reports; the darkest is the largest of its matrix.
    """
    files: dict[str, bytes] = {}
    for path, content in _contents(result.specimens):
        files.setdefault(path, content)
    return files


def _contents(specimens: Sequence[Specimen]) -> Iterator[tuple[str, bytes]]:
    for specimen in specimens:
        folder, name = _FOLDERS[specimen.kind], _file_name(specimen.title)
        text = specimen.text.encode(errors="replace")
        if specimen.kind == "text":
            yield f"{folder}/{name}.txt", text
        elif rows := _rows(specimen):
            yield f"{folder}/{name}.png", _png(rows)
            if text:
                yield f"{folder}/example.txt", text


def _file_name(title: str) -> str:
    """``layer1_head2`` for ``layer 1, head 2``; nothing that leads out of a folder."""
    together = re.sub(r" (?=\d)", "", title)
    return re.sub(r"[^A-Za-z0-9-]+", "_", together).strip("_")[:80] or "unnamed"


def _rows(specimen: Specimen) -> list[bytes]:
    """A byte a value; empty where there is no such matrix."""
    height, width = specimen.num_rows, specimen.num_columns
    try:
        levels = base64.b64decode(specimen.levels, validate=True)
    except (Error, ValueError):
        return []
    if not (1 <= height <= _MAX_SIDE and 1 <= width <= _MAX_SIDE) or len(levels) != height * width:
        return []
    return [levels[start : start + width] for start in range(0, len(levels), width)]


def _png(rows: Sequence[bytes]) -> bytes:
    """With a palette; see the PNG specification (third edition), sections 5 and 11."""
    lines = [b"\0" + bytes(level for level in row for _ in range(_CELL)) for row in rows]
    pixels = b"".join(line for line in lines for _ in range(_CELL))
    # width, height, bits a pixel, colour type (by palette), and the only methods there are
    header = struct.pack(">IIBBBBB", _CELL * len(rows[0]), _CELL * len(rows), 8, 3, 0, 0, 0)
    chunks = [
        (b"IHDR", header),
        (b"PLTE", b"".join(bytes(_colour(level)) for level in range(256))),
        (b"IDAT", zlib.compress(pixels, 9)),
        (b"IEND", b""),
    ]
    return _SIGNATURE + b"".join(_chunk(kind, content) for kind, content in chunks)


def _chunk(kind: bytes, content: bytes) -> bytes:
    check = zlib.crc32(kind + content)
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", check)


def _colour(level: int) -> Iterator[int]:
    """From light over middle to dark."""
    place = 2 * (level / 255) ** 0.5
    start, end = (_LIGHT, _MIDDLE) if place < 1 else (_MIDDLE, _DARK)
    share = place % 1 if place < 2 else 1.0
    return (round(a + share * (b - a)) for a, b in zip(start, end, strict=True))
