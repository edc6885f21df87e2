"""Convert the samples of a trained model to files (PNG, plain text), and hash folders."""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bakeoff.suite.schema import Result, Sample

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
_CELL = 10  # pixels per side of a matrix entry
# Colours (red, green, blue) of a matrix, from the smallest to the largest value.
_COLOURS = ((255, 255, 255), (0, 114, 178), (6, 32, 58))


def sample_files(result: Result) -> dict[str, bytes]:
    """Return path -> content, for example of ``attention/layer1_head2.png``.

    A matrix that is not valid (another program may have written the result) is left out. The shade
    increases with the square root of the value, as in reports; the darkest is the largest of its
    matrix.
    """
    files: dict[str, bytes] = {}
    for sample in result.samples:
        folder = _FOLDERS[sample.kind]
        for name, content in _files_of(sample, _file_name(sample.title)):
            body = content if isinstance(content, bytes) else content.encode(errors="replace")
            files.setdefault(f"{folder}/{name}", body)
    return files


def _files_of(sample: Sample, name: str) -> Iterator[tuple[str, bytes | str]]:
    """Yield the names and contents of the files of a sample."""
    if sample.kind == "text":
        yield f"{name}.txt", sample.text
    elif sample.kind == "translation":
        yield f"{name}.txt", "\n".join((sample.source, sample.reference, sample.text))
    elif sample.kind == "caption":
        yield f"{name}.txt", "\n".join((sample.reference, sample.text))
    elif (levels := sample.decoded()) is not None:
        if levels.ndim == 2:
            yield f"{name}.png", _matrix_png(levels)
            words = {"rows": sample.row_words, "columns": sample.column_words}
            texts = {"example": sample.text, **{k: "\n".join(v) for k, v in words.items()}}
        elif levels.ndim == 4 and levels.shape[3] in (1, 3):
            yield f"{name}.png", _pictures_png(levels)
            texts = {name: "\n".join(sample.row_words)}
        else:
            texts = {}
        yield from ((f"{place}.txt", text) for place, text in texts.items() if text)


def files_in(folder: Path) -> dict[str, bytes]:
    """Return every file below a folder, by its relative path; empty if there is no folder."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def digest_of(folder: Path) -> str:
    """Return the SHA-256 over the names and contents of the files in a folder."""
    files = {name: hashlib.sha256(body) for name, body in files_in(folder).items()}
    lines = (f"{name}\0{digest.hexdigest()}\n" for name, digest in files.items())
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _file_name(title: str) -> str:
    """Return ``layer1_head2`` for ``layer 1, head 2``; never a path out of the folder."""
    together = re.sub(r" (?=\d)", "", title)
    return re.sub(r"[^A-Za-z0-9-]+", "_", together).strip("_")[:80] or "unnamed"


def _matrix_png(levels: NDArray[np.uint8]) -> bytes:
    """Draw a matrix `[rows, columns]`, one square per value."""
    from PIL import Image

    image = Image.fromarray(levels, mode="P")
    places = 2 * np.sqrt(np.arange(256) / 255)
    colours = [np.interp(places, (0, 1, 2), part) for part in zip(*_COLOURS, strict=True)]
    image.putpalette(np.rint(np.stack(colours, axis=1)).astype(np.uint8).tobytes())
    size = (_CELL * image.width, _CELL * image.height)
    return _png(image.resize(size, Image.Resampling.NEAREST))


def _pictures_png(levels: NDArray[np.uint8]) -> bytes:
    """Draw `[pictures, rows, columns, channels]` side by side."""
    from PIL import Image

    together = np.concatenate(levels, axis=1)
    return _png(Image.fromarray(together[..., 0] if together.shape[2] == 1 else together))


def _png(image: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, "PNG", optimize=True)
    return file.getvalue()
