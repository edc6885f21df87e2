"""Fashion-MNIST with all of its images, so that accuracies compare with published ones.

    split        images
    training     the first 55,000 of the 60,000 for training
    validation   the other 5,000
    test         all 10,000 for testing

Published results train on all 60,000. Pixels are scaled as in
`bakeoff.suite.tasks.images.fashion_mnist`, by the mean and the standard deviation of the shipped
images. The files do not ship: `bakeoff data fetch fashion_mnist_full` downloads them.
"""

from __future__ import annotations

import gzip
import zlib
from functools import cache

from bakeoff.suite.tasks.bases.labelled_data import LabelledData
from bakeoff.suite.tasks.data_files import malformed, read_verified
from bakeoff.suite.tasks.images.fashion_mnist import FashionMnistImages, divided, read_arrays
from bakeoff.suite.tasks.public.sets import source_of

SOURCE = source_of("fashion_mnist_full")
NUM_TRAINING = 55_000
SIZES = (60_000, 10_000)  # numbers of published images


class FashionMnistFull(FashionMnistImages):
    """Classification of images that are read whole, `[28, 28, 1]`."""

    name = "fashion_mnist_full"
    source = SOURCE

    @staticmethod
    @cache
    def data() -> LabelledData:
        """Return the images of all splits, read once per process."""
        packed = [read_verified(each) for each in SOURCE.files]
        try:
            content = b"".join(map(gzip.decompress, packed))
        except (OSError, EOFError, zlib.error) as error:
            raise malformed(SOURCE, f"not a whole gzip file ({error})") from error
        return divided(read_arrays(SOURCE, content, *SIZES), NUM_TRAINING)
