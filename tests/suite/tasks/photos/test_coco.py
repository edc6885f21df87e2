"""Test the splits of COCO and errors in its archive."""

from __future__ import annotations

from hashlib import sha256

import pytest

from bakeoff.suite.tasks.photos.coco import CocoCaptions
from bakeoff.suite.tasks.photos.photo_captions import LENGTH
from bakeoff.suite.tasks.task import TaskError
from tests.suite.tasks.photos.made_photos import (
    IDS,
    Members,
    Put,
    coco_photos,
    coco_text,
    coco_told,
    packed,
)


def test_coco_is_divided_by_the_digests_of_ids(both: None) -> None:
    ordered = sorted(IDS, key=lambda photo: sha256(str(photo).encode()).hexdigest())
    files = [photo.file for photos in CocoCaptions.photos().values() for photo in photos]
    assert files == [f"{photo:012}.jpg" for photo in ordered]
    by_file = {photo.file: photo for photos in CocoCaptions.photos().values() for photo in photos}
    assert by_file["000000000139.jpg"].captions == (
        "a red dog runs",
        "two red dogs play",
        "the dog is red",
        "a dog red-eyed runs on the grass",
        "dog number n0",
    )


def test_a_photo_of_coco_with_few_captions_has_its_first_ones_again(put: Put) -> None:
    told = coco_told()
    told["annotations"] = [each for each in told["annotations"] if each["id"] not in (12, 14, 16)]
    put(CocoCaptions, packed(coco_text(told)), packed(coco_photos()))
    found = {p.file: p for photos in CocoCaptions.photos().values() for p in photos}
    first, second = "two green dogs play", "a dog green-eyed runs on the grass"
    assert found[f"{IDS[1]:012}.jpg"].captions == (first, second, first, second, first)


def _without(key: str, **kept: object) -> Members:
    return coco_text({name: each for name, each in coco_told().items() if name != key} | kept)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"no archive", r"trainval2017\.zip is malformed: no zip archive of captions"),
        (packed({"annotations/captions_val2017.json": b"{"}), r"val2017\.json is not as published"),
        (packed(_without("images")), r"is not as published .*images"),
        (packed(_without("images", images=[])), "0 photos where 16 are expected"),
        (packed(_without("annotations", annotations=[])), r"no caption of 000000000139\.jpg"),
        (packed(_without("annotations", annotations=[{"id": "x"}])), "not as published"),
        (packed(coco_text([1])), "not as published"),
    ],
    ids=["no archive", "no JSON", "no images", "none", "no captions", "an id", "a list"],
)
def test_damage_inside_coco_is_one_sentence(put: Put, text: bytes, message: str) -> None:
    put(CocoCaptions, text, packed(coco_photos()))
    with pytest.raises(TaskError, match=message) as refusal:
        CocoCaptions(LENGTH).training_batch(0, 2, seed=0)
    assert "\n" not in str(refusal.value)
