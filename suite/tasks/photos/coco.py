"""A small part of COCO: the 5,000 photos of val2017, with five captions each.

Lin et al. 2014, "Microsoft COCO" (arXiv:1405.0312); captions: Chen et al. 2015 (arXiv:1504.00325).
See `bakeoff.suite.tasks.photos.photo_captions` for symbols and scores.

    split        photos, in the order of the SHA-256 of their id, written in digits
    training     the first 4,000
    validation   the next 500
    test         the last 500

This division is our own: all of COCO would be 19 GB of photos, and the published test splits are in
the part that is left out. The five captions with the lowest ids are taken for each photo, without
captions that contain no word; if fewer than five remain, the first ones are repeated.

The archives do not ship: `bakeoff data fetch coco` downloads them.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
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

SOURCE = source_of("coco")
CAPTIONS = "annotations/captions_val2017.json"
NUM_PHOTOS = 5_000
NUM_HELD_OUT = 500  # number of photos of each held-out split


class CocoCaptions(PhotoCaptions):
    """Captioning of photos of COCO."""

    name = "coco_captions"
    source = SOURCE
    folder = "val2017"

    @classmethod
    def photos(cls) -> Photos:
        """Return all photos by split, in the order of the division."""
        return _photos()


@cache
def _photos() -> Photos:
    source = SOURCE.files[0]
    with opened_zip(source, "captions") as archive:
        content = archive.read(CAPTIONS)
    try:
        files, captions = _read(content)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise malformed(source, f"{CAPTIONS} is not as published ({error})") from error
    if len(files) != NUM_PHOTOS:
        raise malformed(source, f"{len(files)} photos where {NUM_PHOTOS} are expected")
    for photo, file in files.items():
        if not captions[photo]:
            raise malformed(source, f"{CAPTIONS} has no caption of {file}")
    return _divided({photo: Photo(file, captions[photo]) for photo, file in files.items()})


def _read(content: bytes) -> tuple[dict[int, str], dict[int, tuple[str, ...]]]:
    """Return the file and the captions of each photo, by its id; five captions, or none."""
    told = json.loads(content)
    files = {int(image["id"]): str(image["file_name"]) for image in told["images"]}
    captions: defaultdict[int, list[str]] = defaultdict(list)
    for each in sorted(told["annotations"], key=lambda each: int(each["id"])):
        if said := words_of(each["caption"]):
            captions[int(each["image_id"])].append(said)
    return files, {
        photo: tuple((captions[photo] * NUM_REFERENCES)[:NUM_REFERENCES]) for photo in files
    }


def _divided(photos: dict[int, Photo]) -> Photos:
    ordered = [photos[photo] for photo in sorted(photos, key=_place)]
    last = len(ordered) - NUM_HELD_OUT
    first = last - NUM_HELD_OUT
    return {"training": ordered[:first], "validation": ordered[first:last], "test": ordered[last:]}


def _place(photo: int) -> bytes:
    """Return the key by which photos are ordered."""
    return hashlib.sha256(str(photo).encode()).digest()
