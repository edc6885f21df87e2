"""Regenerate suite/tasks/data/fashion-mnist.idx.xz from Debian's dataset-fashion-mnist (MIT).

Kept are the first 10,000 training and the first 2,000 test images of Fashion-MNIST.

Layout: four arrays of unsigned bytes back to back, each in the IDX format of the original
(two zero bytes, type 8, number of axes, the sizes as big-endian 32-bit integers, the bytes):
training images [10000, 28, 28], training labels [10000], test images [2000, 28, 28], test
labels [2000].
"""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

from package_files import Recipe, build, debian_archive, member

RECIPE = Recipe(
    download=("apt-get", "download", "dataset-fashion-mnist=0.0~git20200523.55506a9-1"),
    package="dataset-fashion-mnist_*.deb",
    package_sha256="39e172fe32dd318ebb3e512220c3beea2fa47d7e20bab348fb4e0922d6beefc0",
    file="fashion-mnist.idx.xz",
    content_sha256="05abb8a75047c2246d827656a52e382ab19d4fad7ac80c529b12bfb09bfc3bc1",
    file_sha256="ca566f5acc675641d9ac1c7611cbed4b41ad082b830bd50dd911cf775d63f9a0",
)
DATA_SETS = "usr/share/datasets/fashion-mnist"
ARRAYS = (
    ("train-images-idx3-ubyte.gz", 10_000),
    ("train-labels-idx1-ubyte.gz", 10_000),
    ("t10k-images-idx3-ubyte.gz", 2_000),
    ("t10k-labels-idx1-ubyte.gz", 2_000),
)


def first_examples(idx: bytes, num_examples: int) -> bytes:
    """Cut an IDX array down to its first `num_examples` entries along the first axis."""
    num_axes = idx[3]
    sizes = struct.unpack(f">{num_axes}I", idx[4 : 4 + 4 * num_axes])
    start = 4 + 4 * num_axes
    example_bytes = (len(idx) - start) // sizes[0]
    header = idx[:4] + struct.pack(f">{num_axes}I", num_examples, *sizes[1:])
    return header + idx[start : start + num_examples * example_bytes]


def joined_arrays(package: Path) -> bytes:
    archive = debian_archive(package)
    return b"".join(
        first_examples(gzip.decompress(member(archive, f"{DATA_SETS}/{file}")), num_examples)
        for file, num_examples in ARRAYS
    )


if __name__ == "__main__":
    build(RECIPE, joined_arrays)
