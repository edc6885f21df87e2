"""Handwritten digits of 8 x 8 pixels: images for tests that must be fast.

Alpaydin and Kaynak 1998, "Cascading classifiers" (Kybernetika 34(4)): the data set that
scikit-learn calls digits. The nearest neighbour is nearly always right, so the data set does not
distinguish good models from each other and answers no question about them.

    split        images
    training     the first 1,257
    validation   the next 180
    test         the last 360

Pixels are whole numbers from 0 to 16, standardised by the mean and standard deviation over the
training images.
"""

from __future__ import annotations

from functools import cache

from bakeoff.suite.tasks.bases.images import ImageTask, refuse_rest, take_images
from bakeoff.suite.tasks.bases.labelled_data import Examples, LabelledData
from bakeoff.suite.tasks.data_files import read_content
from bakeoff.suite.tasks.task import DataSource

SOURCE = DataSource(
    name="digits",
    title="1,797 handwritten digits of 8 x 8 pixels",
    licence="BSD-3-Clause; the data CC BY 4.0",
    origin="PyPI scikit-learn 1.9.1; UCI Machine Learning Repository, doi:10.24432/C50P49",
    sha256="1112656c0dc7b95ddec49e6d1b14de4b62b1f79f7984df0383cb8d817c56958d",
    file="digits.idx.xz",
)
IMAGE_SIDE = 8
NUM_IMAGES, NUM_TRAINING, NUM_VALIDATION = 1_797, 1_257, 180


class DigitsImages(ImageTask):
    """Classification of images that are read whole, `[8, 8, 1]`."""

    name = "digits_images"
    source = SOURCE
    fixed_length = IMAGE_SIDE**2
    input_size = 1
    grid = (IMAGE_SIDE, IMAGE_SIDE)
    output_size = 10
    white = 16
    pixel_mean = (4.893 / 16,)
    pixel_standard_deviation = (6.007 / 16,)

    @staticmethod
    @cache
    def data() -> LabelledData:
        """Return the images of all splits, read once per process."""
        shape = (NUM_IMAGES, IMAGE_SIDE, IMAGE_SIDE, 1)
        content = read_content(SOURCE)
        images, content = take_images(SOURCE, content, shape[:3], DigitsImages.output_size)
        refuse_rest(SOURCE, content)
        images = Examples(inputs=images.inputs.reshape(shape), labels=images.labels)
        first_test = NUM_TRAINING + NUM_VALIDATION
        return LabelledData(
            training=images[:NUM_TRAINING],
            held_out={
                "validation": images[NUM_TRAINING:first_test],
                "test": images[first_test:],
            },
        )
