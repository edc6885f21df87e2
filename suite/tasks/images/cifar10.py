"""CIFAR-10: 60,000 colour photos of 32 x 32 pixels in ten classes.

Krizhevsky 2009, "Learning multiple layers of features from tiny images".

    split        images
    training     the first 45,000 of the 50,000 for training
    validation   the other 5,000
    test         all 10,000 for testing

Published results train on all 50,000, mostly with shifted and mirrored copies. Pixels are scaled to
0..1, then standardised by the mean and standard deviation of each channel over the 50,000. The
file, the binary version, does not ship: `bakeoff data fetch cifar10` downloads it.
"""

from __future__ import annotations

import io
import tarfile
from functools import cache

import numpy as np

from bakeoff.suite.tasks.bases.images import ImageTask
from bakeoff.suite.tasks.bases.labelled_data import Examples, LabelledData
from bakeoff.suite.tasks.data_files import malformed, read_verified
from bakeoff.suite.tasks.public.sets import source_of

SOURCE = source_of("cifar10")
IMAGE_SIDE = 32
NUM_CLASSES = 10
NUM_IN_FILE = 10_000
NUM_VALIDATION = 5_000
FOLDER = "cifar-10-batches-bin"
TRAINING_FILES = tuple(f"{FOLDER}/data_batch_{number}.bin" for number in range(1, 6))
TEST_FILE = f"{FOLDER}/test_batch.bin"


class Cifar10(ImageTask):
    """Classification of photos that are read whole, `[32, 32, 3]`."""

    name = "cifar10"
    source = SOURCE
    fixed_length = IMAGE_SIDE**2
    input_size = 3
    grid = (IMAGE_SIDE, IMAGE_SIDE)
    output_size = NUM_CLASSES
    pixel_mean = (0.4914, 0.4822, 0.4465)
    pixel_standard_deviation = (0.2470, 0.2435, 0.2616)

    @staticmethod
    @cache
    def data() -> LabelledData:
        """Return the photos of all splits, read once per process."""
        files = _read_files()
        first = _examples(b"".join(files[name] for name in TRAINING_FILES))
        test = _examples(files[TEST_FILE])
        return LabelledData(
            training=first[:-NUM_VALIDATION],
            held_out={"validation": first[-NUM_VALIDATION:], "test": test},
        )


def _read_files() -> dict[str, bytes]:
    wanted, found = {*TRAINING_FILES, TEST_FILE}, {}
    try:
        with tarfile.open(fileobj=io.BytesIO(read_verified(SOURCE)), mode="r|*") as archive:
            for member in archive:
                if member.isfile() and member.name in wanted:
                    content = archive.extractfile(member)
                    assert content is not None, "a regular file has content"
                    found[member.name] = content.read()
    except tarfile.TarError as error:
        raise malformed(SOURCE, f"no tar archive ({error})") from error
    if missing := sorted(wanted - found.keys()):
        raise malformed(SOURCE, f"without {missing[0]}")
    return found


def _examples(records: bytes) -> Examples:
    """Return the examples of records of a label and 32 x 32 bytes each of red, green and blue.

    Raises:
        TaskError: if files hold another number of records, or a label out of range.
    """
    size = 1 + 3 * IMAGE_SIDE**2
    if not records or len(records) % (NUM_IN_FILE * size):
        raise malformed(SOURCE, f"files are not {NUM_IN_FILE} records of {size} bytes each")
    rows = np.frombuffer(records, dtype=np.uint8).reshape(-1, size)
    if rows[:, 0].max() >= NUM_CLASSES:
        raise malformed(SOURCE, f"label {rows[:, 0].max()} is not in 0..{NUM_CLASSES - 1}")
    planes = rows[:, 1:].reshape(-1, 3, IMAGE_SIDE, IMAGE_SIDE)
    pixels = np.ascontiguousarray(planes.transpose(0, 2, 3, 1))
    return Examples(inputs=pixels, labels=rows[:, 0].astype(np.int64))
