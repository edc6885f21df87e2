"""Captions on a page: each beside its picture, words over where they look, nothing that harms."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from reports.document import Drawing
from reports.pages.captions import captions_section
from reports.pages.images import opening_picture, pictures_section
from reports.results.frame import about_from_json, about_to_json
from suite.schema import About, Specimen
from tests.reports.conftest import known
from tests.reports.pages.test_images import TASK, about, specimen

ASKED = ("a dog left of a key", "a key", "an apple", "a dog above a cat")
WORDS = ("a", "dog", "left", "of", "a", "key")


def told(seed: int = 0, looks: bool = True) -> list[Specimen]:
    """What a captioner leaves; the dog is looked at in row 1, column 2."""
    rng = np.random.default_rng(seed)
    found = [specimen("captioned_images", "pixels", rng.random((4, 8, 8, 3)), row_words=ASKED)]
    for number in range(1, 5):
        found.append(
            Specimen(
                kind="caption",
                title=f"picture {number}",
                text=f"a cat of <b>{seed}</b>",
                reference=ASKED[number - 1],
            )
        )
    maps = np.full((len(WORDS), 3, 3, 1), 0.05)
    maps[1, 0, 1] = 0.6
    made = specimen("word_attention", "picture 1", maps, row_words=WORDS)
    return [*found, *([made] if looks else [])]


FULL = about({"heads=8": told(), "heads=1": told(1), "heads=2": told(2, looks=False)})


def drawings(said: About) -> dict[str, Drawing]:
    section = captions_section(said, None)
    found = section.drawings if section else ()
    return {each.name.removeprefix(f"{TASK}-"): each for each in found}


def in_words(drawing: Drawing) -> str:
    return known(ET.fromstring(drawing.svg)[1].text)


def test_without_captions_there_is_no_section() -> None:
    assert captions_section(about({"heads=8": []}), None) is None
    assert opening_picture(about({"heads=8": []}, opens_with="words")) is None


def test_each_picture_has_what_is_asked_for_and_what_each_model_writes() -> None:
    said = in_words(drawings(FULL)["captions"])
    assert said.startswith("Picture 1: asked for: a dog left of a key; heads=8 (baseline): a cat")
    assert said.count("a cat of") == 12


def test_the_words_stand_over_the_picture_and_say_where_they_look() -> None:
    found = drawings(FULL)["words-1"]
    assert "heads=8 (baseline): most at a: row 1, column 1; dog: row 1, column 2" in in_words(found)
    assert "heads=2" not in in_words(found)  # it does not look
    assert all(word in found.svg for word in ("dog", "key"))
    assert found.svg.count("<defs") >= 1


def test_the_opening_picture_is_not_shown_again_nor_by_the_section_on_images() -> None:
    opens = replace(FULL, opens_with="words")
    picture = opening_picture(opens)
    assert picture is not None
    assert picture.name.endswith("words-1")
    section = captions_section(opens, picture)
    assert section is not None
    assert picture.name not in {each.name for each in section.drawings}
    assert pictures_section(opens, picture) is None


@pytest.mark.parametrize(
    "changes",
    [
        {"levels": "%"},
        {"row_words": ("a",)},
        {"title": "picture 0"},
        {"title": "picture 9"},
        {"title": "elsewhere"},
        {"low": -3.0},
    ],
)
def test_what_does_not_fit_is_left_out(changes: dict[str, Any]) -> None:
    *others, looks = told()
    harmed = about({"heads=8": [*others, replace(looks, **changes)]})
    assert list(drawings(harmed)) in (["captions"], ["captions", "words-1"])


def test_captions_survive_the_file_and_are_escaped_on_the_page(tmp_path: Any) -> None:
    again = about_from_json(about_to_json(FULL))
    assert again == FULL
    assert "<b>" not in "".join(each.svg for each in drawings(again).values())
