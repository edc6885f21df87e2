"""Drawings on a page: what was asked for first, then what each model made of it."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import Any

import numpy as np

from reports.document import Drawing
from reports.pages.drawings import drawings_section
from reports.pages.images import opening_picture, pictures_section
from reports.results.frame import about_from_json, about_to_json
from suite.schema import About, Specimen
from tests.reports.conftest import known
from tests.reports.pages.test_images import TASK, about, specimen

ASKED = ("a dog left of a key", "a <b>key</b>", "an apple", "a dog above a cat")


def made(seed: int = 0, ways: tuple[str, ...] = ("given back", "drawn")) -> list[Specimen]:
    rng = np.random.default_rng(seed)
    found = [specimen("asked_images", "pixels", rng.random((4, 8, 8, 3)), row_words=ASKED)]
    return [*found, *(specimen("drawn_images", way, rng.random((4, 8, 8, 3))) for way in ways)]


FULL = about({"heads=8": made(), "heads=1": made(1), "heads=2": made(2, ways=("drawn",))})


def only(said: About) -> Drawing:
    section = drawings_section(said, None)
    assert section is not None
    (drawing,) = section.drawings
    return drawing


def in_words(drawing: Drawing) -> str:
    return known(ET.fromstring(drawing.svg)[1].text)


def num_images(drawing: Drawing) -> int:
    return drawing.svg.count("<image")


def test_without_drawings_there_is_no_section() -> None:
    assert drawings_section(about({"heads=8": []}), None) is None
    assert opening_picture(about({"heads=8": []}, opens_with="drawings")) is None
    undrawn = about({"heads=8": made(ways=())})
    assert drawings_section(undrawn, None) is None


def test_each_model_has_a_row_for_what_came_back_and_one_for_what_it_drew() -> None:
    drawing = only(FULL)
    assert num_images(drawing) == 1 + 3
    asked, *models = in_words(drawing).partition(". ")[0].split("; ")
    assert asked == "Four pictures each: asked for"
    assert models == [
        "heads=8 (baseline), given back, below drawn",
        "heads=1, given back, below drawn",
        "heads=2, drawn",
    ]
    assert drawing.name == f"{TASK}-drawings"


def test_captions_are_said_and_cannot_harm() -> None:
    drawing = only(FULL)
    assert "1: a dog left of a key." in drawing.caption
    assert "<b>" not in drawing.svg
    assert "4: a dog above a cat." in drawing.caption


def test_a_page_may_open_with_them_and_does_not_show_them_twice() -> None:
    opened = about(dict(FULL.specimens[TASK]), opens_with="drawings")
    picture = opening_picture(opened)
    assert picture is not None
    assert picture.svg == only(FULL).svg
    assert drawings_section(opened, picture) is None
    assert pictures_section(opened, picture) is None


def test_a_frame_keeps_them() -> None:
    again: Any = about_from_json(about_to_json(FULL))
    assert only(again).svg == only(FULL).svg


def test_pictures_of_another_size_are_left_out() -> None:
    """Somebody else may have written the file."""
    other = specimen("drawn_images", "drawn", np.zeros((3, 8, 8, 3)))
    mixed = about({"heads=8": made(), "heads=1": [*made(1, ways=()), other]})
    assert num_images(only(mixed)) == 1 + 1
