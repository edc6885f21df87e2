"""Images of other tasks at half of their resolution, for training before those tasks.

A model is trained on few pixels, and at the end on all of them: Touvron et al. 2019 (FixRes,
arXiv:1906.06423); DeiT (arXiv:2012.12877, section 5). With `start="fashion_mnist_14"`, training on
`fashion_mnist_images` begins with a model trained on this task, whose positions are interpolated.

Each pixel is the mean of 2 x 2. Splits and labels are those of the whole images. Pixels are scaled
to 0..1, then standardised by the mean and standard deviation of each channel over the halved
training images. There is no augmentation.
"""

from __future__ import annotations

from functools import cache
from typing import ClassVar

import numpy as np

from bakeoff.suite.tasks.bases.images import ImageTask
from bakeoff.suite.tasks.bases.labelled_data import Examples, LabelledData, LabelledTask
from bakeoff.suite.tasks.images import fashion_mnist, openmoji


class _Halved(ImageTask):
    """Base class of the tasks with halved images.

    Attributes:
        whole: The task on all pixels.
    """

    whole: ClassVar[type[LabelledTask]]

    @classmethod
    @cache
    def data(cls) -> LabelledData:
        """Return the halved images of all splits, made once per process."""
        whole = cls.whole.data()
        held_out = {split: cls.halved(images) for split, images in whole.held_out.items()}
        return LabelledData(training=cls.halved(whole.training), held_out=held_out)

    @classmethod
    def halved(cls, images: Examples) -> Examples:
        """Return images `[images, rows, columns, channels]` with the mean of each 2 x 2 pixels."""
        assert cls.grid is not None, "images have rows and columns"
        rows, columns = cls.grid
        squares = images.inputs.reshape(-1, rows, 2, columns, 2, cls.input_size)
        means = squares.mean(axis=(2, 4), dtype=np.float32)  # multiples of 1/4 are exact
        return Examples(inputs=means, labels=images.labels)


class FashionMnistHalved(_Halved):
    """Classification of images that are read whole, `[14, 14, 1]`."""

    name = "fashion_mnist_14"
    whole = fashion_mnist.FashionMnistImages
    source = fashion_mnist.SOURCE
    fixed_length = 14 * 14
    input_size = 1
    grid = (14, 14)
    output_size = fashion_mnist.NUM_CLASSES
    pixel_mean = (0.2857,)
    pixel_standard_deviation = (0.3305,)


class OpenmojiHalved(_Halved):
    """Classification of emoji that are read whole, `[16, 16, 3]`."""

    name = "openmoji_groups_16"
    whole = openmoji.OpenmojiGroups
    source = openmoji.SOURCE
    fixed_length = 16 * 16
    input_size = 3
    grid = (16, 16)
    output_size = len(openmoji.GROUPS)
    pixel_mean = (0.8422, 0.8224, 0.7816)
    pixel_standard_deviation = (0.2401, 0.2599, 0.3186)
