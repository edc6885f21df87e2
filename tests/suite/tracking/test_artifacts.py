"""Tests for samples as files: standard image formats, and names that stay in their folder."""

from __future__ import annotations

import base64
import io
from dataclasses import replace
from typing import get_args

import numpy as np
import pytest
from PIL import Image

from bakeoff.suite.schema import Sample
from bakeoff.suite.schema.sample import SampleKind
from bakeoff.suite.tracking.artifacts import sample_files
from tests.suite.heads_sweep import HEADS

MAP = Sample(
    kind="attention",
    title="layer 1, head 2",
    text="a\nb",
    num_rows=3,
    num_columns=3,
    levels=base64.b64encode(bytes([255, 0, 0, 64, 191, 0, 20, 150, 105])).decode(),
)


def files(*samples: Sample) -> dict[str, bytes]:
    return sample_files(replace(HEADS.result(HEADS.trial()), samples=samples))


def test_no_kind_is_without_a_folder() -> None:
    for kind in get_args(SampleKind):
        assert files(replace(PICTURES, kind=kind), replace(MAP, kind=kind, title="other"))


def test_captions_stand_beside_their_pictures() -> None:
    found = files(
        replace(PICTURES, kind="captioned_images", row_words=("a dog", "a key")),
        Sample(kind="caption", title="picture 1", text="a cat", reference="a dog"),
        replace(PICTURES, kind="drawn_images", title="drawn"),
    )
    assert list(found) == [
        "images/pixels.png",
        "images/pixels.txt",
        "captions/picture1.txt",
        "drawings/drawn.png",
    ]
    assert found["images/pixels.txt"] == b"a dog\na key"
    assert found["captions/picture1.txt"] == b"a dog\na cat"


def test_every_file_is_in_the_folder_of_its_kind() -> None:
    found = files(
        MAP,
        replace(MAP, kind="positions", title="cosine similarity", text=""),
        Sample(kind="text", title="prompt", text="ROM"),
        Sample(kind="text", title="continuation", text="EO\n\u2014"),
    )
    assert list(found) == [
        "attention/layer1_head2.png",
        "attention/example.txt",
        "positions/cosine_similarity.png",
        "samples/prompt.txt",
        "samples/continuation.txt",
    ]
    assert found["samples/continuation.txt"].decode() == "EO\n\u2014"
    assert found["attention/example.txt"] == b"a\nb"


def test_a_picture_shows_the_matrix_darker_where_there_is_more() -> None:
    picture = Image.open(io.BytesIO(files(MAP)["attention/layer1_head2.png"]))
    picture.verify()
    picture = Image.open(io.BytesIO(files(MAP)["attention/layer1_head2.png"])).convert("L")
    assert picture.size == (30, 30)
    middles = np.asarray(picture)[5::10, 5::10].astype(int)
    by_darkness = np.argsort(-middles.ravel(), kind="stable")
    levels = np.frombuffer(base64.b64decode(MAP.levels), dtype=np.uint8)
    assert list(levels[by_darkness]) == sorted(levels)
    assert middles.max() == 255
    assert middles.min() < 60


PICTURES = Sample(
    kind="images",
    title="pixels",
    num_rows=2,
    num_columns=6,
    picture=(2, 1, 3),
    levels=base64.b64encode(bytes([255, 0, 0, 0, 255, 0, 1, 2, 3, 4, 5, 6])).decode(),
)


def test_small_pictures_stand_side_by_side_as_they_are() -> None:
    grey = replace(PICTURES, kind="patch_attention", title="last layer", picture=(2, 3, 1))
    found = files(
        PICTURES, grey, replace(grey, kind="filters"), replace(grey, kind="grid_positions")
    )
    assert list(found) == [
        "images/pixels.png",
        "patch_attention/last_layer.png",
        "filters/last_layer.png",
        "positions/last_layer.png",
    ]
    coloured = np.asarray(Image.open(io.BytesIO(found["images/pixels.png"])))
    assert coloured.tolist() == [[[255, 0, 0], [1, 2, 3]], [[0, 255, 0], [4, 5, 6]]]
    plain = np.asarray(Image.open(io.BytesIO(found["filters/last_layer.png"])))
    assert plain.tolist() == [[255, 0, 0, 1, 2, 3], [0, 255, 0, 4, 5, 6]]


@pytest.mark.parametrize(
    "changes",
    [
        {"levels": "no base64!"},
        {"levels": "AAAA"},
        {"num_rows": 0},
        {"num_rows": 10**9},
        {"picture": (2, 1)},
        {"picture": (2, 1, 2)},
        {"picture": (-2, -1, 3)},
    ],
)
def test_what_is_no_picture_is_left_out(changes: dict[str, object]) -> None:
    assert files(replace(PICTURES, **changes)) == {}  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "changes",
    [
        {"levels": "no base64!"},
        {"levels": "AAAA"},
        {"num_rows": 0},
        {"num_columns": -3},
        {"num_rows": 10**9},
        {"levels": "\u00e9"},
    ],
)
def test_what_is_no_matrix_is_left_out(changes: dict[str, object]) -> None:
    assert files(replace(MAP, **changes)) == files() == {}  # type: ignore[arg-type]


def test_titles_lead_nowhere_and_never_overwrite() -> None:
    titles = ["../../etc/passwd", "/abs", "..", "", "a/b", "a b", "x" * 500]
    found = files(*(Sample(kind="text", title=title, text=title) for title in titles))
    assert set(found) == {
        "samples/etc_passwd.txt",
        "samples/abs.txt",
        "samples/unnamed.txt",
        "samples/a_b.txt",
        f"samples/{'x' * 80}.txt",
    }
    assert found["samples/a_b.txt"] == b"a/b"  # the first one is kept
    assert files(Sample(kind="text", title="t", text="\ud800"))["samples/t.txt"] == b"?"
