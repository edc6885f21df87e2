"""Turns the samples of a trained model into files (PNG, plain text), and hashes folders."""

from __future__ import annotations

import base64
import hashlib
import io
import math
import re
from binascii import Error
from collections.abc import Iterator
from pathlib import Path

from suite.schema import Result, Specimen

_FOLDERS = {
    "attention": "attention",
    "positions": "positions",
    "text": "samples",
    "alignment": "alignment",
    "translation": "translations",
    "images": "images",
    "patch_attention": "patch_attention",
    "grid_positions": "positions",
    "filters": "filters",
    "captioned_images": "images",
    "caption": "captions",
    "word_attention": "word_attention",
    "asked_images": "images",
    "drawn_images": "drawings",
}
_CELL = 10  # pixels to a side
_MAX_SIDE = 1024  # cells
_MODES = {1: "L", 3: "RGB"}  # of pictures, by their channels
_LIGHT, _MIDDLE, _DARK = (255, 255, 255), (0, 114, 178), (6, 32, 58)  # red, green, blue


def sample_files(result: Result) -> dict[str, bytes]:
    """Path -> content, as ``attention/layer1_head2.png`` and ``samples/continuation.txt``.

    A matrix that is not valid (another program may have written the result) is left out. Shades
    grow with the square root of the value, as in reports; the darkest is the largest of its matrix.
    """
    files: dict[str, bytes] = {}
    for specimen in result.specimens:
        folder, name = _FOLDERS[specimen.kind], _file_name(specimen.title)
        text = specimen.text.encode(errors="replace")
        if specimen.kind == "text":
            files.setdefault(f"{folder}/{name}.txt", text)
        elif specimen.kind in ("translation", "caption"):
            lines = (specimen.source, specimen.reference, specimen.text)
            said = "\n".join(lines[specimen.kind == "caption" :])  # whose source is a picture
            files.setdefault(f"{folder}/{name}.txt", said.encode(errors="replace"))
        elif specimen.picture:
            if png := _pictures(specimen):
                files.setdefault(f"{folder}/{name}.png", png)
                if specimen.row_words:
                    said = "\n".join(specimen.row_words)
                    files.setdefault(f"{folder}/{name}.txt", said.encode(errors="replace"))
        elif levels := _levels(specimen):
            png = _png(levels, specimen.num_columns, specimen.num_rows)
            files.setdefault(f"{folder}/{name}.png", png)
            if text:
                files.setdefault(f"{folder}/example.txt", text)
            for side, words in (("rows", specimen.row_words), ("columns", specimen.column_words)):
                if words:
                    said = "\n".join(words)
                    files.setdefault(f"{folder}/{side}.txt", said.encode(errors="replace"))
    return files


def files_in(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, by its path in it; empty where there is no folder."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def digest_of(folder: Path) -> str:
    """SHA-256 over the names and contents of the files in a folder."""
    files = {name: hashlib.sha256(body) for name, body in files_in(folder).items()}
    lines = (f"{name}\0{digest.hexdigest()}\n" for name, digest in files.items())
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _file_name(title: str) -> str:
    """``layer1_head2`` for ``layer 1, head 2``; never a path that leads out of a folder."""
    together = re.sub(r" (?=\d)", "", title)
    return re.sub(r"[^A-Za-z0-9-]+", "_", together).strip("_")[:80] or "unnamed"


def _levels(specimen: Specimen) -> bytes:
    """Decode the matrix, a byte a value; empty where it is not valid."""
    height, width = specimen.num_rows, specimen.num_columns
    levels = _decoded(specimen)
    has_sides = 1 <= height <= _MAX_SIDE and 1 <= width <= _MAX_SIDE
    return levels if has_sides and len(levels) == height * width else b""


def _png(levels: bytes, width: int, height: int) -> bytes:
    from PIL import Image

    image = Image.frombytes("P", (width, height), levels)
    image.putpalette(bytes(part for level in range(256) for part in _colour(level)))
    file = io.BytesIO()
    image.resize((_CELL * width, _CELL * height), Image.Resampling.NEAREST).save(
        file, "PNG", optimize=True
    )
    return file.getvalue()


def _pictures(specimen: Specimen) -> bytes:
    """Its pictures side by side, as they are; empty where they are none."""
    from PIL import Image

    sides, number = specimen.picture, specimen.num_rows
    is_picture = len(sides) == 3 and all(1 <= side <= _MAX_SIDE for side in (*sides, number))
    if not is_picture or sides[2] not in _MODES:
        return b""
    height, width, channels = sides
    levels = _decoded(specimen)
    if len(levels) != number * math.prod(sides):
        return b""
    together = Image.new(_MODES[channels], (number * width, height))
    for place in range(number):
        own = levels[place * math.prod(sides) : (place + 1) * math.prod(sides)]
        picture = Image.frombytes(_MODES[channels], (width, height), own)
        together.paste(picture, (place * width, 0))
    file = io.BytesIO()
    together.save(file, "PNG", optimize=True)
    return file.getvalue()


def _decoded(specimen: Specimen) -> bytes:
    """Its levels; empty where they are none."""
    try:
        return base64.b64decode(specimen.levels, validate=True)
    except (Error, ValueError):
        return b""


def _colour(level: int) -> Iterator[int]:
    """From light over middle to dark."""
    place = 2 * (level / 255) ** 0.5
    start, end = (_LIGHT, _MIDDLE) if place < 1 else (_MIDDLE, _DARK)
    share = place % 1 if place < 2 else 1.0
    return (round(a + share * (b - a)) for a, b in zip(start, end, strict=True))
