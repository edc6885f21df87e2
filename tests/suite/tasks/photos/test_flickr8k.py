"""Test the splits of Flickr8k and errors in its archive."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bakeoff.suite.tasks import data_files
from bakeoff.suite.tasks.data_files import refuse_damaged
from bakeoff.suite.tasks.photos.flickr8k import Flickr8kCaptions
from bakeoff.suite.tasks.photos.photo_captions import LENGTH
from bakeoff.suite.tasks.task import TaskError
from tests.suite.tasks.photos.made_photos import (
    NAMES,
    Members,
    Put,
    flickr_photos,
    flickr_text,
    jpeg,
    packed,
)


def test_flickr8k_is_divided_by_its_lists(both: None) -> None:
    photos = Flickr8kCaptions.photos()
    assert {split: [p.file for p in each] for split, each in photos.items()} == NAMES
    assert photos["validation"][1].captions == (
        "a green dog runs",
        "two green dogs play",
        "the dog is green",
        "a dog green-eyed runs on the grass",
        "dog number n10",
    )


def test_each_archive_is_checked(both: None) -> None:
    source = Flickr8kCaptions.source
    refuse_damaged(source)
    data_files.path_of(source.files[1]).write_bytes(b"other")
    with pytest.raises(TaskError, match=r"Flickr8k_Dataset\.zip is not the one that was published"):
        Flickr8kCaptions(LENGTH).training_batch(0, 1, seed=0)
    assert len(source.digest) == 64


def test_the_published_flickr8k_is_proven_by_md5() -> None:
    source = Flickr8kCaptions.source
    assert all(each.md5 and not each.sha256 for each in source.files)
    assert len(source.digest) == 64
    assert source.digest != replace(source, beside=()).digest


def _changed(old: bytes, new: bytes, name: str = "Flickr8k.token.txt") -> Members:
    text = flickr_text()
    assert old in text[name]
    return text | {name: text[name].replace(old, new, 1)}


BROKEN = flickr_photos() | {"Flicker8k_Dataset/tr1_1.jpg": jpeg("red")[:300]}
NO_PICTURE = flickr_photos() | {"Flicker8k_Dataset/tr1_1.jpg": b"<html>"}
LACKING = {name: photo for name, photo in flickr_photos().items() if "tr1_1" not in name}


@pytest.mark.parametrize(
    ("text", "photos", "message"),
    [
        (b"no archive", b"", r"text\.zip is malformed: no zip archive of captions"),
        (packed({"readme.txt": b""}), b"", r"no zip archive of captions .*token\.txt"),
        (packed(_changed(b"tr0_0.jpg#3\t", b"tr0_0.jpg#7\t")), b"", r"not 5 captions of tr0_0\."),
        (packed(_changed(b"tr0_0.jpg#3\t", b"tr0_0.jpg#3 ")), b"", "no zip archive of captions"),
        (packed(_changed(b"tr0_0.jpg#3\t", b"\xff#3\t")), b"", "no zip archive of captions"),
        (
            packed(_changed(b"te1_1.jpg", b"te0_0.jpg", "Flickr_8k.testImages.txt")),
            b"",
            r"testImages\.txt does not list 4 photos, each once",
        ),
        (packed(flickr_text()), b"none", r"Dataset\.zip is malformed: no zip archive of photos"),
        (packed(flickr_text()), packed(BROKEN), r"malformed: Flicker8k_Dataset/tr1_1\.jpg is no"),
        (packed(flickr_text()), packed(NO_PICTURE), r"tr1_1\.jpg is not a photo \(cannot identify"),
        (packed(flickr_text()), packed(LACKING), r"tr1_1\.jpg is not a photo .*no item named"),
    ],
    ids=[
        "no archive",
        "no captions",
        "a number",
        "no tab",
        "no text",
        "listed twice",
        "no archive of photos",
        "cut off",
        "no picture",
        "no photo",
    ],
)
def test_damage_inside_flickr8k_is_one_sentence(
    put: Put, text: bytes, photos: bytes, message: str
) -> None:
    put(Flickr8kCaptions, text, photos)
    with pytest.raises(TaskError, match=message) as refusal:
        Flickr8kCaptions(LENGTH).training_batch(0, 2, seed=0)
    assert "\n" not in str(refusal.value)
