"""Tiny ImageNet: 110,000 colour photos of 64 x 64 pixels in 200 classes.

Made for the course CS231n of Stanford University from ImageNet (Deng et al. 2009).

    split        images
    training     the first 450 of the 500 for training of each class, 90,000
    validation   the other 50 of each class, 10,000
    test         the published validation images, 10,000; the published test has no labels

Pixels are scaled to 0..1, then standardised by the mean and standard deviation of each channel over
the 100,000. The photos are JPEG files: another decoder may give values that differ by one. The file
does not ship: `bakeoff data fetch tiny_imagenet` downloads it. Floors that compare with every image
would need tens of gigabytes, and are not computed.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterable
from functools import cache

import numpy as np
from PIL import Image

from bakeoff.suite.tasks.bases.images import ImageTask
from bakeoff.suite.tasks.bases.labelled_data import Examples, LabelledData
from bakeoff.suite.tasks.data_files import malformed, read_verified
from bakeoff.suite.tasks.public.sets import source_of

SOURCE = source_of("tiny_imagenet")
IMAGE_SIDE = 64
NUM_CLASSES = 200
NUM_OF_CLASS = 500
NUM_VALIDATION_OF_CLASS = 50
FOLDER = "tiny-imagenet-200"


class TinyImagenet(ImageTask):
    """Classification of photos that are read whole, `[64, 64, 3]`."""

    name = "tiny_imagenet"
    source = SOURCE
    floors = ("uniform", "majority")
    fixed_length = IMAGE_SIDE**2
    input_size = 3
    grid = (IMAGE_SIDE, IMAGE_SIDE)
    output_size = NUM_CLASSES
    pixel_mean = (0.4802, 0.4481, 0.3975)
    pixel_standard_deviation = (0.2770, 0.2691, 0.2821)

    @staticmethod
    @cache
    def data() -> LabelledData:
        """Return the photos of all splits; classes are numbered in the order of their names."""
        try:
            with zipfile.ZipFile(io.BytesIO(read_verified(SOURCE))) as archive:
                return _read(archive)
        except (zipfile.BadZipFile, KeyError, ValueError, OSError) as error:
            raise malformed(SOURCE, f"no zip archive of images ({error})") from error


def _read(archive: zipfile.ZipFile) -> LabelledData:
    classes = sorted(archive.read(f"{FOLDER}/wnids.txt").decode().split())
    if len(classes) != NUM_CLASSES:
        raise malformed(SOURCE, f"{len(classes)} classes where {NUM_CLASSES} are expected")
    last = NUM_OF_CLASS - NUM_VALIDATION_OF_CLASS
    training, validation = (
        [
            (f"{FOLDER}/train/{name}/images/{name}_{number}.JPEG", label)
            for label, name in enumerate(classes)
            for number in numbers
        ]
        for numbers in (range(last), range(last, NUM_OF_CLASS))
    )
    lines = archive.read(f"{FOLDER}/val/val_annotations.txt").decode().splitlines()
    files = (line.split("\t")[:2] for line in lines)
    test = [(f"{FOLDER}/val/images/{file}", classes.index(name)) for file, name in files]
    return LabelledData(
        training=_examples(archive, training),
        held_out={
            "validation": _examples(archive, validation),
            "test": _examples(archive, test),
        },
    )


def _examples(archive: zipfile.ZipFile, files: Iterable[tuple[str, int]]) -> Examples:
    paths, labels = zip(*files, strict=True)
    pixels = np.empty((len(paths), IMAGE_SIDE, IMAGE_SIDE, 3), dtype=np.uint8)
    for place, path in enumerate(paths):
        with Image.open(io.BytesIO(archive.read(path))) as image:  # some images are grey
            pixels[place] = np.asarray(image.convert("RGB"))
    return Examples(inputs=pixels, labels=np.array(labels, dtype=np.int64))
