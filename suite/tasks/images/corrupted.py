"""Train on clean images, and test also on corrupted ones, see `corruptions`.

A small version of the study of Hendrycks and Dietterich 2019 (arXiv:1903.12261) on ImageNet:
training uses no corruption, and each has a score of its own, as a part: ``corruption=1`` are the
clean images, ``corruption=2`` those with noise, and so on in the order of `CORRUPTIONS`. The score
of the whole is the mean over the parts.

    training     that of the task on clean images
    validation   each image once, the corruptions in turn
    test         each image with each corruption, all images with one before the next

The random numbers for an image depend only on its split, its index there and the corruption. There
are two departures: one severity; and the validation split, on which learning rates are chosen, is
corrupted like the test split, so that the choice optimises the score that is reported.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bakeoff.suite.tasks.bases.labelled_data import Examples, LabelledTask
from bakeoff.suite.tasks.data_order import HELD_OUT_SEED, RandomStream
from bakeoff.suite.tasks.images.corruptions import CORRUPTIONS
from bakeoff.suite.tasks.images.fashion_mnist import FashionMnistImages
from bakeoff.suite.tasks.images.openmoji import OpenmojiGroups
from bakeoff.suite.tasks.task import Batch, Split

_SEED = HELD_OUT_SEED - 1  # used by no training and no split
_PARTS = tuple(f"corruption={number}" for number in range(1, 1 + len(CORRUPTIONS)))


class _Corrupted(LabelledTask):
    """Base class that replaces the held-out splits of a task on images by corrupted ones."""

    part_titles: ClassVar[dict[str, str]] = {
        "corruption": "what was done to the image",
        **dict(zip(_PARTS, CORRUPTIONS, strict=True)),
    }

    def held_out(self, split: Split, batch: int) -> Iterator[Batch]:
        """Yield the split's images with their corruptions, in the order of `corrupted`."""
        examples, kinds = corrupted(type(self), split)
        for first in range(0, len(kinds), batch):
            chosen = slice(first, first + batch)
            found = self.batch_of(examples[chosen])
            part = torch.from_numpy(kinds[chosen].copy())
            yield Batch(inputs=found.inputs, targets=found.targets, part=part)

    def parts(self) -> tuple[str, ...]:
        """Return one part for each corruption, the clean images first."""
        return _PARTS

    def in_parts(self, batch: Batch) -> dict[str, Tensor]:
        """Return the parts that the batch records; training images are clean."""
        part = torch.zeros_like(batch.targets) if batch.part is None else batch.part
        return {at: part == kind for kind, at in enumerate(_PARTS)}


class FashionMnistCorrupted(_Corrupted, FashionMnistImages):
    """The task `fashion_mnist_images`, tested also on corrupted images."""

    name = "fashion_mnist_corrupted"


class OpenmojiCorrupted(_Corrupted, OpenmojiGroups):
    """The task `openmoji_groups`, tested also on corrupted images."""

    name = "openmoji_corrupted"


@cache
def corrupted(task: type[LabelledTask], split: Split) -> tuple[Examples, NDArray[np.int64]]:
    """Return the split's examples and the corruption of each, made once per process."""
    clean = task.data().held_out[split]
    places, kinds = np.arange(len(clean.labels)), np.arange(len(CORRUPTIONS))
    if split == "test":
        kinds, places = (each.ravel() for each in np.meshgrid(kinds, places, indexing="ij"))
    else:
        kinds = places % len(kinds)
    assert task.grid is not None, "images have rows and columns"
    shape = (*task.grid, task.input_size)
    images = [
        _corrupted(clean.inputs[place].reshape(shape), int(kind), int(place), split)
        for kind, place in zip(kinds, places, strict=True)
    ]
    inputs = np.stack(images).reshape(len(places), *clean.inputs.shape[1:])
    return Examples(inputs=inputs, labels=clean.labels[places]), kinds


def _corrupted(image: NDArray[np.uint8], kind: int, place: int, split: Split) -> NDArray[np.uint8]:
    number = ("validation", "test").index(split) * len(CORRUPTIONS) + kind
    stream = RandomStream(_SEED, (number << 32) + place)
    return list(CORRUPTIONS.values())[kind](image, stream)
