"""Regenerate suite/tasks/data/digits.idx.xz from scikit-learn 1.9.1 (BSD-3-Clause).

The package has 1,797 images of handwritten digits, 8 x 8 pixels from 0 to 16, the test set of
Alpaydin and Kaynak 1998 in the UCI Machine Learning Repository.

Layout: an array of pixels [1797, 8, 8] and one of labels [1797], in the order of the original, as
unsigned bytes in the IDX format (two zero bytes, type 8, number of axes, the sizes as big-endian
32-bit integers, the bytes), back to back.
"""

from __future__ import annotations

import gzip
import struct
import zipfile
from pathlib import Path

from package_files import Recipe, build, pip_download

RECIPE = Recipe(
    download=pip_download(
        "scikit-learn==1.9.1",
        "--only-binary",
        ":all:",
        "--python-version",
        "3.11",
        "--platform",
        "manylinux_2_28_x86_64",
    ),
    package="scikit_learn-1.9.1-cp311-*.whl",
    package_sha256="52a0703bbc07ad27f560fa63fa68e4c54dd735bfbbf65b4dd3c225dc7547b6df",
    file="digits.idx.xz",
    content_sha256="663fb76c4498a2e6a9ea2c09e2b4c4ed5dacbb5707e8f598be22c9624f62bb4e",
    file_sha256="1112656c0dc7b95ddec49e6d1b14de4b62b1f79f7984df0383cb8d817c56958d",
)
TABLE = "sklearn/datasets/data/digits.csv.gz"


def arrays(table: str) -> bytes:
    """Turn lines of 64 pixels and a label into the two arrays."""
    rows = [[int(float(number)) for number in line.split(",")] for line in table.split()]
    pixels = bytes(pixel for *image, _ in rows for pixel in image)
    labels = bytes(row[-1] for row in rows)
    head = bytes([0, 0, 8])
    return (
        head
        + bytes([3])
        + struct.pack(">3I", len(rows), 8, 8)
        + pixels
        + head
        + bytes([1])
        + struct.pack(">I", len(rows))
        + labels
    )


def content_of(package: Path) -> bytes:
    with zipfile.ZipFile(package) as archive:
        return arrays(gzip.decompress(archive.read(TABLE)).decode())


if __name__ == "__main__":
    build(RECIPE, content_of)
