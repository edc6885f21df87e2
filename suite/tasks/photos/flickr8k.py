"""Flickr8k: 8,000 photos of people and animals in action, with five captions each.

Hodosh, Young and Hockenmaier 2013, "Framing image description as a ranking task"
(https://doi.org/10.1613/jair.3994). See `bakeoff.suite.tasks.photos.photo_captions` for symbols
and scores.

    split        photos, as its authors divided them
    training     6,000
    validation   1,000
    test         1,000

The archives do not ship: `bakeoff data fetch flickr8k` downloads them. Its authors provide them on
request; these copies belong to a tutorial of J. Brownlee. Photos in none of the three lists are not
read.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from bakeoff.suite.tasks.data_files import malformed
from bakeoff.suite.tasks.photos.photo_captions import (
    NUM_REFERENCES,
    Photo,
    PhotoCaptions,
    Photos,
    opened_zip,
    words_of,
)
from bakeoff.suite.tasks.public.sets import source_of

SOURCE = source_of("flickr8k")
CAPTIONS = "Flickr8k.token.txt"
# The file that lists the photos of each split, and their number.
LISTS: Mapping[str, tuple[str, int]] = {
    "training": ("Flickr_8k.trainImages.txt", 6_000),
    "validation": ("Flickr_8k.devImages.txt", 1_000),
    "test": ("Flickr_8k.testImages.txt", 1_000),
}


class Flickr8kCaptions(PhotoCaptions):
    """Captioning of photos of Flickr8k."""

    name = "flickr8k_captions"
    source = SOURCE
    folder = "Flicker8k_Dataset"  # spelled like this in the archive

    @classmethod
    def photos(cls) -> Photos:
        """Return all photos by split, in the order of the lists."""
        return _photos()


@cache
def _photos() -> Photos:
    text = SOURCE.files[0]
    with opened_zip(text, "captions") as archive:
        captions = _captions(archive.read(CAPTIONS).decode())
        listed = {split: archive.read(name).decode().split() for split, (name, _) in LISTS.items()}
    for split, (name, count) in LISTS.items():
        if len({*listed[split]}) != count or len(listed[split]) != count:
            raise malformed(text, f"{name} does not list {count} photos, each once")
    return {
        split: [Photo(file, _five(file, captions)) for file in files]
        for split, files in listed.items()
    }


def _captions(lines: str) -> dict[str, dict[str, str]]:
    """Return each photo's captions by number, from lines like `NAME.jpg#0`, a tab, a caption.

    Raises:
        ValueError: if a line has another form.
    """
    found: dict[str, dict[str, str]] = {}
    for line in lines.splitlines():
        key, caption = line.split("\t")
        file, number = key.split("#")
        found.setdefault(file, {})[number] = words_of(caption)
    return found


def _five(file: str, captions: Mapping[str, Mapping[str, str]]) -> tuple[str, ...]:
    """Return the captions of a photo in the order of their numbers.

    Raises:
        TaskError: if there are not five of them.
    """
    numbered = captions.get(file, {})
    found = tuple(numbered.get(str(number), "") for number in range(NUM_REFERENCES))
    if not all(found):
        wrong = f"{CAPTIONS} has not {NUM_REFERENCES} captions of {file}"
        raise malformed(SOURCE.files[0], wrong)
    return found
