"""Read text files in parts, and divide examples into splits."""

from __future__ import annotations

import codecs
import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bakeoff.suite.tasks.task import TaskError

TRAINING, VALIDATION, TEST = 0, 1, 2
_NUM_PARTS, _TEST_PARTS, _VALIDATION_PART = 10, (0, 1), 2
_BYTES_AT_ONCE = 1 << 22


def text_parts(path: Path, encoding: str = "utf-8") -> Iterator[str]:
    """Yield the text of a file in parts of a few megabytes, without a byte order mark.

    Each end of a line becomes one line feed.

    Raises:
        TaskError: if the file is not text in that encoding; the message names the first wrong byte.
    """
    try:
        with path.open(encoding="utf-8-sig" if encoding == "utf-8" else encoding) as file:
            while part := file.read(_BYTES_AT_ONCE):
                yield part
    except UnicodeError:
        raise TaskError(
            f"{path} is not {encoding}: {_first_wrong(path, encoding)}; convert the file, or give "
            "its encoding= where the data have that field"
        ) from None


def _first_wrong(path: Path, encoding: str) -> str:
    """Return where the first byte is that the encoding does not allow."""
    decoder = codecs.getincrementaldecoder(encoding)()
    num_bytes, line = 0, 1
    with path.open("rb") as file:
        while part := file.read(_BYTES_AT_ONCE):
            waiting = len(decoder.getstate()[0])
            try:
                decoder.decode(part)
            except UnicodeDecodeError as error:
                place = num_bytes - waiting + error.start
                line += part[: max(0, error.start - waiting)].count(b"\n")
                return f"byte {place + 1}, in line {line}, is {error.object[error.start]:#04x}"
            num_bytes += len(part)
            line += part.count(b"\n")
    return "it ends in the middle of a character"


def with_validation(given: NDArray[np.uint8], digests: NDArray[np.uint64]) -> NDArray[np.uint8]:
    """Return given splits; if none is for validation, a hash chooses one in ten for training."""
    if (given == VALIDATION).any():
        return given
    is_moved = (given == TRAINING) & (splits_of(digests) == VALIDATION)
    return np.where(is_moved, np.uint8(VALIDATION), given)


def num_repeated(splits: NDArray[np.uint8], digests: NDArray[np.uint64]) -> int:
    """Return how many test examples have the content of a training example."""
    return int(np.isin(digests[splits == TEST], digests[splits == TRAINING]).sum())


def digests_of(contents: Iterable[bytes], count: int = -1) -> NDArray[np.uint64]:
    """Return a number of 64 bits for each content; different contents rarely have the same.

    Args:
        contents: The contents.
        count: Their number, which saves memory if it is known.
    """
    digests = (hashlib.blake2b(content, digest_size=8).digest() for content in contents)
    numbers = (int.from_bytes(digest) for digest in digests)
    return np.fromiter(numbers, dtype=np.uint64, count=count)


def splits_of(digests: NDArray[np.uint64]) -> NDArray[np.uint8]:
    """Return the split of each example: of ten parts seven train, one validates, two test.

    Equal contents have the same digest, and so the same split.
    """
    parts = (digests % np.uint64(_NUM_PARTS)).astype(np.uint8)
    found = np.full(len(parts), TRAINING, dtype=np.uint8)
    found[np.isin(parts, _TEST_PARTS)] = TEST
    found[parts == _VALIDATION_PART] = VALIDATION
    return found
