"""Fashion-MNIST as sequences: 28 x 28 grey images of ten kinds of clothes.

Xiao, Rasul, Vollgraf 2017, "Fashion-MNIST: a novel image dataset for benchmarking machine learning
algorithms" (arXiv:1708.07747). The shipped file is a subset, so accuracies of this task compare
with each other and lie below the published ones, which train on 60,000 images.

    split        images                                         per class
    training     the first 9,000 of the 60,000 for training     841 to 937
    validation   the next 1,000 of them                          90 to 111
    test         the first 2,000 of the 10,000 for testing      188 to 219

An image is read in one of three ways: whole, by models that cut or convolve the image themselves;
pixel by pixel in rows, 784 tokens of one feature (a stand-in for the "Image" task of the Long Range
Arena, Tay et al. 2020); or as 4 x 4 patches, row by row, 49 tokens of 16 features (the first step
of a vision transformer, Dosovitskiy et al. 2020). Pixels are scaled to 0..1, then standardised by
the mean and standard deviation over the training images. There is no augmentation.
"""

from __future__ import annotations

from functools import cache
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from bakeoff.models.interface import InputKind
from bakeoff.suite.tasks.bases.images import IMAGE_FLOORS, refuse_rest, take_images
from bakeoff.suite.tasks.bases.labelled_data import Examples, LabelledData, LabelledTask
from bakeoff.suite.tasks.data_files import read_content
from bakeoff.suite.tasks.task import Batch, DataSource

SOURCE = DataSource(
    name="fashion_mnist",
    title="Fashion-MNIST, the first 10,000 training and the first 2,000 test images",
    licence="MIT",
    origin="Debian package dataset-fashion-mnist 0.0~git20200523.55506a9-1,"
    " https://github.com/zalandoresearch/fashion-mnist",
    sha256="ca566f5acc675641d9ac1c7611cbed4b41ad082b830bd50dd911cf775d63f9a0",
    file="fashion-mnist.idx.xz",
)
NUM_CLASSES = 10
IMAGE_SIDE = 28
PATCH_SIDE = 4
NUM_TRAINING = 9_000
NUM_VALIDATION = 1_000
NUM_TEST = 2_000
# Statistics of the training images, with pixels scaled to 0..1.
PIXEL_MEAN = 0.2857
PIXEL_STANDARD_DEVIATION = 0.3534


class _FashionMnist(LabelledTask):
    """Base class of the three ways to read an image, which differ in their patches."""

    source = SOURCE
    input_kind: ClassVar[InputKind] = "vectors"
    output_size = NUM_CLASSES
    floors: ClassVar[tuple[str, ...]] = ("uniform", "majority", "logistic_regression")
    patch_side: ClassVar[int]

    @staticmethod
    @cache
    def data() -> LabelledData:
        """Return the images of all splits, read once per process."""
        sizes = (NUM_TRAINING + NUM_VALIDATION, NUM_TEST)
        return divided(read_arrays(SOURCE, read_content(SOURCE), *sizes), NUM_TRAINING)

    def batch_of(self, examples: Examples) -> Batch:
        """Return the examples as a batch of standardised pixels."""
        pixels = self.laid_out(examples.inputs).astype(np.float32)
        inputs = (torch.from_numpy(pixels) / 255 - PIXEL_MEAN) / PIXEL_STANDARD_DEVIATION
        return Batch(inputs={"inputs": inputs}, targets=torch.from_numpy(examples.labels.copy()))

    def laid_out(self, pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Return `[images, 28, 28]` pixels in the shape that a model reads."""
        return cut_into_patches(pixels, self.patch_side)


class FashionMnistImages(_FashionMnist):
    """Classification of images that are read whole, `[28, 28, 1]`."""

    name = "fashion_mnist_images"
    architecture = "vit"
    floors = IMAGE_FLOORS
    input_kind: ClassVar[InputKind] = "image"
    fixed_length = IMAGE_SIDE**2
    input_size = 1
    grid = (IMAGE_SIDE, IMAGE_SIDE)
    pixel_mean = (PIXEL_MEAN,)
    pixel_standard_deviation = (PIXEL_STANDARD_DEVIATION,)

    def laid_out(self, pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Return `[images, 28, 28]` pixels as `[images, 28, 28, 1]`."""
        return pixels[..., None]


class FashionMnistPixels(_FashionMnist):
    """Classification of images that are read pixel by pixel, row by row."""

    name = "fashion_mnist_pixels"
    patch_side = 1
    fixed_length = IMAGE_SIDE**2
    input_size = 1


class FashionMnistPatches(_FashionMnist):
    """Classification of images as 4 x 4 patches; patches and pixels are ordered row by row."""

    name = "fashion_mnist_patches"
    patch_side = PATCH_SIDE
    fixed_length = (IMAGE_SIDE // PATCH_SIDE) ** 2
    input_size = PATCH_SIDE**2


def divided(parts: list[Examples], num_training: int) -> LabelledData:
    """Return the published images as splits; the last training images are for validation."""
    first, test = parts
    return LabelledData(
        training=first[:num_training],
        held_out={"validation": first[num_training:], "test": test},
    )


def cut_into_patches(pixels: NDArray[np.uint8], side: int) -> NDArray[np.uint8]:
    """Return `[images, 28, 28]` pixels as `[images, (28 / side)**2, side**2]`."""
    across = IMAGE_SIDE // side
    grid = pixels.reshape(-1, across, side, across, side)  # (image, row, y, column, x)
    return grid.swapaxes(2, 3).reshape(-1, across * across, side * side)


def read_arrays(source: DataSource, content: bytes, *sizes: int) -> list[Examples]:
    """Return images for each size, stored as adjacent IDX arrays of pixels and labels.

    Raises:
        TaskError: if the content is different.
    """
    found, shape = [], (IMAGE_SIDE, IMAGE_SIDE)
    for size in sizes:
        images, content = take_images(source, content, (size, *shape), NUM_CLASSES)
        found.append(images)
    refuse_rest(source, content)
    return found
