"""Base class of tasks on images: the scaling of pixels, the floors, and byte arrays in a file."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from bakeoff.models.interface import InputKind
from bakeoff.suite.tasks.bases.labelled_data import Examples, LabelledTask
from bakeoff.suite.tasks.data_files import malformed
from bakeoff.suite.tasks.task import Batch, DataSource

IMAGE_FLOORS = (
    "uniform",
    "majority",
    "nearest_centroid",
    "logistic_regression",
    "nearest_neighbours",
)


class ImageTask(LabelledTask):
    """Classification of images that are read whole, `[rows, columns, channels]`.

    Attributes:
        white: The largest value of a pixel; black is 0.
    """

    white: ClassVar[int] = 255
    architecture = "vit"
    input_kind: ClassVar[InputKind] = "image"
    floors: ClassVar[tuple[str, ...]] = IMAGE_FLOORS

    def batch_of(self, examples: Examples) -> Batch:
        """Return the examples as a batch of standardised pixels."""
        pixels = torch.from_numpy(examples.inputs.astype(np.float32)) / self.white
        mean, deviation = map(torch.tensor, (self.pixel_mean, self.pixel_standard_deviation))
        inputs = (pixels - mean) / deviation
        return Batch(inputs={"inputs": inputs}, targets=torch.from_numpy(examples.labels.copy()))


def scaled(
    pixels: NDArray[np.uint8] | NDArray[np.float32],
    mean: Sequence[float],
    deviation: Sequence[float],
) -> NDArray[np.float32]:
    """Return pixels from 0 to 255, `[..., 3]`, standardised for a model.

    Args:
        pixels: The pixels, of three channels.
        mean: The mean of each channel, on a scale from 0 to 1.
        deviation: The standard deviation of each channel, on the same scale.
    """
    shift, scale = (np.array(each, dtype=np.float32) for each in (mean, deviation))
    found: NDArray[np.float32] = (pixels.astype(np.float32) / np.float32(255) - shift) / scale
    return found


def take_images(
    source: DataSource, content: bytes, shape: tuple[int, ...], num_classes: int
) -> tuple[Examples, bytes]:
    """Return the images at the head of `content`, IDX arrays of pixels and labels, and the rest.

    Args:
        source: The data source of the content.
        content: The bytes to read from.
        shape: The shape of the pixels, `[images, ...]`.
        num_classes: The number of classes, which every label is below.

    Raises:
        TaskError: if there are no such arrays.
    """
    pixels, content = take_array(source, content, shape)
    labels, content = take_array(source, content, shape[:1])
    if labels.max() >= num_classes:
        place = int(labels.argmax())
        wrong = f"label {labels[place]} of image {place} is not in 0..{num_classes - 1}"
        raise malformed(source, wrong)
    return Examples(inputs=pixels, labels=labels.astype(np.int64)), content


def take_array(
    source: DataSource, content: bytes, shape: tuple[int, ...]
) -> tuple[NDArray[np.uint8], bytes]:
    """Return the IDX array of bytes at the head of `content`, and the bytes after it.

    Raises:
        TaskError: if there is no IDX array of that shape.
    """
    header = bytes([0, 0, 8, len(shape)]) + np.array(shape, dtype=">u4").tobytes()
    end = len(header) + math.prod(shape)
    if content[: len(header)] != header or len(content) < end:
        raise malformed(source, f"no IDX array of bytes of shape {list(shape)} where one belongs")
    array = np.frombuffer(content[len(header) : end], dtype=np.uint8).reshape(shape)
    return array, content[end:]


def refuse_rest(source: DataSource, content: bytes) -> None:
    """Raise if any bytes follow the last array."""
    if content:
        raise malformed(source, f"{len(content)} bytes after the last array")
