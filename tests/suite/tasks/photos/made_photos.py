"""Make small archives of photos and captions in the formats of the published ones."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from hashlib import sha256
from types import ModuleType

import pytest
from PIL import Image

from bakeoff.suite.tasks import caption_metrics, data_files
from bakeoff.suite.tasks.batch import UNSCORED, Batch
from bakeoff.suite.tasks.photos import coco, flickr8k, photo_captions
from bakeoff.suite.tasks.photos.coco import CocoCaptions
from bakeoff.suite.tasks.photos.flickr8k import LISTS, Flickr8kCaptions
from bakeoff.suite.tasks.photos.photo_captions import PhotoCaptions

Members = dict[str, bytes]
Kind = type[PhotoCaptions]
Put = Callable[..., None]
COLOURS = {"red": (200, 30, 30), "green": (30, 180, 40), "blue": (20, 30, 210)}
SIZES = {"training": 9, "validation": 3, "test": 4}
MODULES: dict[Kind, ModuleType] = {Flickr8kCaptions: flickr8k, CocoCaptions: coco}


def packed(members: Mapping[str, bytes]) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name), content)
    return made.getvalue()


def jpeg(colour: str, *, wide: int = 150, high: int = 90, mode: str = "RGB") -> bytes:
    """Return a picture that is black at both ends, outside the square crop in the middle."""
    image = Image.new("RGB", (wide, high))
    image.paste(COLOURS[colour], ((wide - high) // 2 - 8, 0, (wide + high) // 2 + 8, high))
    made = io.BytesIO()
    image.convert(mode).save(made, "JPEG", quality=95)
    return made.getvalue()


def said_of(colour: str, number: int) -> list[str]:
    """Return captions in the style of Flickr8k."""
    return [
        f"A {colour} dog runs .",
        f"Two {colour} dogs play .",
        f"The dog is {colour}",
        f"A dog , {colour}-eyed , runs on the grass .",
        f"Dog number n{number} !",
    ]


NAMES = {
    split: [f"{split[:2]}{number}_{number:x}.jpg" for number in range(count)]
    for split, count in SIZES.items()
}
COLOUR_OF = {
    name: [*COLOURS][number % 3] for names in NAMES.values() for number, name in enumerate(names)
}


def flickr_text() -> Members:
    lines = [
        f"{name}#{number}\t{caption}"
        for place, (name, colour) in enumerate(COLOUR_OF.items())
        for number, caption in enumerate(said_of(colour, place))
    ]
    lines.insert(0, "2258277193_586949ec62.jpg.1#0\tPeople waiting")  # in no split, as published
    lists = {file: "\n".join(NAMES[split]) + "\n" for split, (file, _) in LISTS.items()}
    files = {"Flickr8k.token.txt": "\n".join(lines) + "\n", **lists, "readme.txt": "Please cite"}
    return {"__MACOSX/._Flickr8k.token.txt": b"\x00"} | {
        name: text.encode() for name, text in files.items()
    }


def flickr_photos() -> Members:
    photos = {f"Flicker8k_Dataset/{name}": jpeg(colour) for name, colour in COLOUR_OF.items()}
    return photos | {"__MACOSX/Flicker8k_Dataset/._tr0_0.jpg": b"\x00"}


IDS = [139, 285, 632, 724, 776, 785, 802, 872, 885, 1000, 1268, 1296, 1353, 1425, 1490, 1503]


def coco_told() -> dict[str, list[dict[str, object]]]:
    """Return annotations in reverse order; the first photo has a sixth and an empty caption."""
    images, annotations = [], []
    for place, photo in enumerate(IDS):
        images.append({"id": photo, "file_name": f"{photo:012}.jpg", "height": 90, "width": 150})
        for number, caption in enumerate(said_of([*COLOURS][place % 3], place)):
            one = {"image_id": photo, "id": 10 * place + number + 2, "caption": caption + "\n"}
            annotations.insert(0, one)
    annotations.append({"image_id": IDS[0], "id": 999, "caption": "A sixth"})
    annotations.append({"image_id": IDS[0], "id": 1, "caption": " . "})
    return {"images": images, "annotations": annotations}


def coco_text(told: object) -> Members:
    return {
        "annotations/instances_val2017.json": b"{}",
        "annotations/captions_val2017.json": json.dumps(told).encode(),
    }


def coco_photos() -> Members:
    return {
        f"val2017/{photo:012}.jpg": jpeg([*COLOURS][place % 3]) for place, photo in enumerate(IDS)
    }


def forget() -> None:
    """Clear all caches of the archives."""
    for remembered in (
        flickr8k._photos,
        coco._photos,
        photo_captions._vocabulary,
        photo_captions._described,
        caption_metrics.rarity_among,
    ):
        remembered.cache_clear()


def putting(monkeypatch: pytest.MonkeyPatch) -> Put:
    """Return a function that replaces the published archives with small ones."""
    small = {split: (file, SIZES[split]) for split, (file, _) in LISTS.items()}
    monkeypatch.setattr(flickr8k, "LISTS", small)
    monkeypatch.setattr(coco, "NUM_PHOTOS", len(IDS))
    monkeypatch.setattr(coco, "NUM_HELD_OUT", 3)

    def put(task: Kind, *archives: bytes) -> None:
        files = []
        for source, content in zip(task.source.files, archives, strict=True):
            path = data_files.path_of(source)
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(content)
            files.append(replace(source, sha256=sha256(content).hexdigest(), md5=""))
        source = replace(files[0], beside=tuple(files[1:]))
        monkeypatch.setattr(MODULES[task], "SOURCE", source)
        monkeypatch.setattr(task, "source", source)

    return put


def asked(task: PhotoCaptions, batch: Batch) -> list[str]:
    return [task.text(row[row != UNSCORED].tolist()) for row in batch.targets]


def references(task: PhotoCaptions, batch: Batch) -> list[list[str]]:
    return [[task.text(each) for each in row] for row in task.metric.right(batch)]
