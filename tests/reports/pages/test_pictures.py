"""Test the pictures of vision models, captioners and models that draw, as a page shows them."""

from __future__ import annotations

import base64
import io
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from bakeoff.reports.document import Drawing
from bakeoff.reports.pages.ablation import page
from bakeoff.reports.pages.pictures import opening_picture
from bakeoff.reports.pages.samples import sample_sections
from bakeoff.reports.render import render
from bakeoff.reports.results.frame import about_from_json, about_to_json
from bakeoff.reports.results.samples import pictures
from bakeoff.suite.schema import About, Sample
from tests.reports import conftest as synthetic
from tests.reports.conftest import known

TASK = "shakespeare_characters"  # a task of the synthetic sweep; any other would do
MOST_BYTES = 100_000


def sample(kind: str, title: str, values: np.ndarray, **changes: Any) -> Sample:
    """Return a sample of values `[pictures, rows, columns, channels]`."""
    low, high = float(values.min()), float(values.max())
    levels = np.round((values - low) / max(high - low, 1e-9) * 255).astype(np.uint8)
    made = Sample(
        kind=kind,
        title=title,
        num_rows=len(values),
        num_columns=values[0].size,  # type: ignore[arg-type]
        levels=base64.b64encode(levels.tobytes()).decode(),
        low=low,
        high=high,
        picture=values.shape[1:],
    )
    return replace(made, **changes)


def vision(side: int = 8, patches: int = 4, channels: int = 1, seed: int = 0) -> list[Sample]:
    """Return all samples of a model; a map's largest weight is at row 2, column 3."""
    rng = np.random.default_rng(seed)
    maps = rng.random((3, patches, patches, 1)) / patches**2
    maps[:, 1, 2] = 6 / patches**2
    unit = rng.normal(size=(patches**2, 5))
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    most = min(patches, 8 if patches < 17 else 4)
    lines = [round(i * (patches - 1) / (most - 1)) for i in range(most)]
    chosen = [row * patches + column for row in lines for column in lines]
    cosines = (unit[chosen] @ unit.T).reshape(-1, patches, patches, 1)
    filters = rng.uniform(-1, 1, size=(16, side // patches, side // patches, channels))
    return [
        sample("images", "pixels", rng.random((3, side, side, channels))),
        sample("patch_attention", "last layer", maps),
        sample("patch_attention", "rollout", (maps + 1 / patches**2) / 2),
        sample("grid_positions", "cosine similarity", cosines),
        sample("filters", "principal components", filters, row_words=("42 %",) * 16),
    ]


def about(of_variants: dict[str, list[Sample]], **changes: Any) -> About:
    found = {variant: tuple(some) for variant, some in of_variants.items()}
    return synthetic.about(samples={TASK: found}, **changes)


FULL = about({"heads=8": vision(), "heads=1": vision(seed=1), "heads=2": vision(seed=2)[1:]})


def drawings(said: About, *above: Drawing) -> dict[str, Drawing]:
    sections = sample_sections(said, {each.name for each in above})
    found = (drawing for section in sections for drawing in section.drawings)
    return {each.name.removeprefix(f"{TASK}-"): each for each in found}


def in_words(drawing: Drawing) -> str:
    return known(ET.fromstring(drawing.svg)[1].text)


def decoded(drawing: Drawing) -> list[Image.Image]:
    coded = re.findall(r"data:image/png;base64,\s*([^\"]+)\"", drawing.svg)
    return [Image.open(io.BytesIO(base64.b64decode(each))) for each in coded]


def test_without_pictures_there_is_no_section() -> None:
    assert drawings(synthetic.about()) == drawings(about({"heads=8": []})) == {}
    assert drawings(about({"heads=8": drawn(ways=())})) == {}
    for opens_with in ("attention", "words", "drawings"):
        assert opening_picture(about({"heads=8": []}, opens_with=opens_with)) is None


def test_every_kind_has_its_figure_with_source_and_words() -> None:
    found = drawings(FULL)
    assert list(found) == ["looks", "places", "filters"]
    sources = {"looks": "2005.00928", "places": "2010.11929", "filters": "2010.11929"}
    for name, drawing in found.items():
        assert sources[name] in drawing.caption
        assert "shakespeare characters" in drawing.title
    assert "first validation image of each of the first 3 classes" in found["looks"].caption
    assert "in its own pixels" in found["looks"].caption


def test_what_is_seen_is_said_in_words() -> None:
    found = drawings(FULL)
    looks = in_words(found["looks"])
    assert re.match(r"8 heads: last layer: at most \d\.\d at row 2, column 3", looks)
    assert looks.count("rollout: at most") == 3
    said = in_words(found["filters"])
    assert "16 of 2 x 2 pixels, the first explains 42 % of the variance" in said


def test_the_more_weight_the_more_colour_and_none_below_the_average() -> None:
    maps = np.full((3, 2, 2, 1), 0.1)
    maps[:, 0, 1], maps[:, 1, 1] = 0.5, 0.3  # 2 and 1.2 times the average
    own = [vision()[0], sample("patch_attention", "last layer", maps, low=0.0, high=0.5)]
    own[1] = replace(
        own[1],
        levels=base64.b64encode(np.round(maps / 0.5 * 255).astype(np.uint8).tobytes()).decode(),
    )
    drawing = drawings(about({"heads=8": own}))["looks"]
    over = [
        np.asarray(one.convert("RGBA"))[..., 3]
        for one in decoded(drawing)
        if "transparency" in one.info
    ]
    assert len(over) == 3
    for alpha in over:
        assert alpha[0, 0] == alpha[1, 0] == 0
        assert 0 < alpha[1, 1] < alpha[0, 1]


def test_images_are_drawn_as_they_are_once_for_all_variants() -> None:
    colours = about({"heads=8": vision(channels=3), "heads=1": vision(channels=3, seed=1)[1:]})
    drawing = drawings(colours)["looks"]
    (first, *_) = pictures(colours.samples[TASK]["heads=8"], "images").values()
    plain = [np.asarray(one) for one in decoded(drawing) if one.mode == "RGB"]
    assert len(plain) == 3
    np.testing.assert_allclose(plain[0], 255 * first.values[0], atol=0.51)
    # Three images for each of two ways, and the same ones under each map of two variants.
    assert len(re.findall(r'<use xlink:href="#i\w+-plain-', drawing.svg)) == 2 * 3
    assert len(re.findall(r'<use xlink:href="#i\w+-grey-', drawing.svg)) == 2 * 3 * 2


def test_mean_cosines_are_those_of_neighbours() -> None:
    """Use vectors that depend only on the row: equal within rows, opposite across columns."""
    side = np.array([[1.0] * 4, [-1.0] * 4] * 2)
    cosines = np.einsum("rc,xy->rcxy", side, side).reshape(16, 4, 4, 1)
    drawing = drawings(about({"heads=8": [sample("grid_positions", "any", cosines)]}))["places"]
    assert "row 1.00, column −1.00, others" in drawing.svg


def test_of_a_fine_grid_neighbours_are_those_of_the_places_shown() -> None:
    rows = np.cos(np.arange(14)[:, None] - np.arange(14))[:, None, :, None]  # depends on rows only
    lines = [round(i * 13 / 7) for i in range(8)]
    cosines = np.broadcast_to(rows, (14, 14, 14, 14))[lines][:, lines].reshape(64, 14, 14, 1)
    drawing = drawings(about({"heads=8": [sample("grid_positions", "any", cosines)]}))["places"]
    assert f"row 1.00, column {np.cos(1):.2f}, others" in drawing.svg


def test_every_place_has_its_square_where_it_lies_and_is_darkest_at_itself() -> None:
    cosines = np.eye(16).reshape(16, 4, 4, 1)
    drawing = drawings(about({"heads=8": [sample("grid_positions", "any", cosines)]}))["places"]
    shades = next(np.asarray(one.convert("L")) for one in decoded(drawing) if one.height > 20)
    for row in range(4):
        for column in range(4):
            top, left = 2 + 18 * row, 2 + 18 * column  # lines of two pixels, four pixels per value
            square = shades[top : top + 16, left : left + 16]
            is_dark = np.zeros((16, 16), dtype=bool)
            is_dark[4 * row : 4 * row + 4, 4 * column : 4 * column + 4] = True
            assert (square[is_dark] < 60).all()
            assert (square[~is_dark] > 240).all()


def test_filters_are_black_grey_and_white() -> None:
    filters = np.zeros((16, 4, 4, 1))
    filters[1, 0, 1], filters[1, 3, 2] = -1.0, 1.0
    drawing = drawings(about({"heads=8": [sample("filters", "kernels", filters)]}))["filters"]
    (only,) = decoded(drawing)
    levels = np.asarray(only.convert("L"))
    assert levels.shape == (2 * 18 + 2, 8 * 18 + 2)
    second = levels[2:18, 20:36]
    assert (second[:4, 4:8] < 2).all()
    assert (second[12:, 8:12] > 253).all()
    assert (abs(second[4:12] - 127.5) < 2).all()
    assert "largest kernels of the first convolution" in drawing.caption
    assert "principal" not in drawing.caption


def test_positions_that_variants_share_stand_there_once() -> None:
    shared = about({"heads=8": vision(), "heads=1": vision()})
    drawing = drawings(shared)["places"]
    assert len(decoded(drawing)) == 2  # one picture and its scale
    assert "8 heads and 1 head" in in_words(drawing)


def test_who_has_no_vectors_is_named() -> None:
    said = about({"heads=8": vision(), "heads=1": vision()[:2]})
    assert "1 head has no such vectors." in drawings(said)["places"].caption
    assert "no such vectors" not in drawings(FULL)["places"].caption


@pytest.mark.whole
@pytest.mark.parametrize(
    "sizes", [{"side": 48, "patches": 12, "channels": 3}, {"side": 64, "patches": 32}]
)
def test_figures_are_small_and_the_same_each_time(sizes: dict[str, int]) -> None:
    variants = tuple(f"heads={2**i}" for i in range(6))
    said = about(
        {each: vision(**sizes, seed=i) for i, each in enumerate(variants)}, variants=variants
    )
    found = drawings(said)
    assert len(found) == 3
    assert found == drawings(said)
    for drawing in found.values():
        assert len(drawing.svg.encode()) < MOST_BYTES
        assert len(re.findall(r'\bid="([^"]+)"', drawing.svg)) == len(
            set(re.findall(r'\bid="([^"]+)"', drawing.svg))
        )


@pytest.mark.whole
@pytest.mark.parametrize(
    "opens_with",
    [
        "attention",
        pytest.param("positions", marks=pytest.mark.slow),
        pytest.param("filters", marks=pytest.mark.slow),
    ],
)
def test_a_page_opens_with_the_picture_that_it_is_about(opens_with: str) -> None:
    sweep = synthetic.sweep()
    said = replace(sweep.about, samples=FULL.samples, opens_with=opens_with)
    made = page(replace(sweep, about=said), ("quick",))
    above, below = made.answer.drawings
    name = {"attention": "looks", "positions": "places", "filters": "filters"}[opens_with]
    assert above.name == f"{TASK}-{name}"
    assert below.name.endswith("-by-heads")
    names = [drawing.name for drawing in made.all_drawings]
    assert names[0] == above.name
    assert len(set(names)) == len(names)  # all names are unique
    assert {f"{TASK}-looks", f"{TASK}-places", f"{TASK}-filters"} < set(names)


@pytest.mark.whole
def test_without_being_asked_a_page_opens_with_the_score() -> None:
    sweep = synthetic.sweep()
    made = page(replace(sweep, about=replace(sweep.about, samples=FULL.samples)), ("quick",))
    (first,) = made.answer.drawings
    assert first.name.endswith("-by-heads")
    assert opening_picture(replace(FULL, opens_with="no such kind")) is None


def test_what_is_kept_of_an_ablation_from_before_stays_as_it_was() -> None:
    assert "opens_with" not in about_to_json(FULL)
    plain = Sample(kind="text", title="prompt", text="x")
    assert "picture" not in about_to_json(about({"heads=8": [plain]}))
    asked = replace(FULL, opens_with="filters")
    assert about_from_json(about_to_json(asked)) == asked


WRONG: tuple[dict[str, Any], ...] = (
    {"levels": "no base64!"},
    {"levels": "AAAA"},
    {"num_rows": 0},
    {"num_rows": 10**9},
    {"picture": ()},
    {"picture": (4, 4)},
    {"picture": (4, 4, 2)},
    {"picture": (-4, -4, 1)},
    {"picture": (10**6, 10**6, 1)},
    {"high": 7.0},
    {"low": float("nan")},
    {"low": -9.0},
)


@pytest.mark.parametrize("changes", WRONG)
@pytest.mark.parametrize("place", range(5))
def test_what_is_no_picture_is_left_out(changes: dict[str, Any], place: int) -> None:
    one = vision()[place]
    assert len(pictures([one], one.kind)) == 1
    assert pictures([replace(one, **changes)], one.kind) == {}


def test_pictures_that_do_not_fit_one_another_are_left_out() -> None:
    images, last, *_ = vision()
    two = replace(last, num_rows=2, levels=base64.b64encode(bytes(32)).decode())
    assert drawings(about({"heads=8": [images, two]})) == {}
    few = replace(vision()[3], num_rows=2, levels=base64.b64encode(bytes(32)).decode())
    assert drawings(about({"heads=8": [few]})) == {}
    unknown = replace(vision()[4], title="pretty pictures")
    assert drawings(about({"heads=8": [unknown]})) == {}
    assert drawings(about({"no such variant": vision()})) == {}


ASKED = ("a dog left of a key", "a <b>key</b>", "an apple", "a dog above a cat")
WORDS = ("a", "dog", "left", "of", "a", "key")


def told(seed: int = 0, looks: bool = True) -> list[Sample]:
    """Return the samples of a captioner; attention for the dog is in row 1, column 2."""
    rng = np.random.default_rng(seed)
    found = [sample("captioned_images", "pixels", rng.random((4, 8, 8, 3)), row_words=ASKED)]
    found += [
        Sample(
            kind="caption", title=f"picture {n}", text=f"a cat of <b>{seed}</b>", reference=asked
        )
        for n, asked in enumerate(ASKED, start=1)
    ]
    maps = np.full((len(WORDS), 3, 3, 1), 0.05)
    maps[1, 0, 1] = 0.6
    made = sample("word_attention", "picture 1", maps, row_words=WORDS)
    return [*found, *([made] if looks else [])]


def drawn(seed: int = 0, ways: tuple[str, ...] = ("given back", "drawn")) -> list[Sample]:
    """Return the samples of a model that draws."""
    rng = np.random.default_rng(seed)
    found = [sample("asked_images", "pixels", rng.random((4, 8, 8, 3)), row_words=ASKED)]
    return [*found, *(sample("drawn_images", way, rng.random((4, 8, 8, 3))) for way in ways)]


TOLD = about({"heads=8": told(), "heads=1": told(1), "heads=2": told(2, looks=False)})
MADE = about({"heads=8": drawn(), "heads=1": drawn(1), "heads=2": drawn(2, ways=("drawn",))})


def test_each_picture_has_the_right_caption_and_those_of_the_models() -> None:
    said = in_words(drawings(TOLD)["captions"])
    assert said.startswith("Picture 1: asked for: a dog left of a key; 8 heads: a cat")
    assert said.count("a cat of") == 12


def test_words_are_over_the_picture_and_the_figure_says_where_they_look() -> None:
    found = drawings(TOLD)["words-1"]
    assert "8 heads: most at a: row 1, column 1; dog: row 1, column 2" in in_words(found)
    assert "2 heads" not in in_words(found)  # that variant has no weights
    assert all(word in found.svg for word in ("dog", "key"))
    assert found.svg.count("<defs") >= 1


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
def test_weights_of_words_that_do_not_fit_are_left_out(changes: dict[str, Any]) -> None:
    *others, looks = told()
    assert list(drawings(about({"heads=8": [*others, replace(looks, **changes)]}))) == ["captions"]


def test_each_model_has_a_row_for_what_came_back_and_one_for_what_it_drew() -> None:
    (drawing,) = drawings(MADE).values()
    assert drawing.name == f"{TASK}-drawings"
    assert drawing.svg.count("<image") == 1 + 3
    asked, *models = in_words(drawing).partition(". ")[0].split("; ")
    assert asked == "Four pictures each: asked for"
    assert models == [
        "8 heads, given back, below drawn",
        "1 head, given back, below drawn",
        "2 heads, drawn",
    ]
    assert "1: a dog left of a key." in drawing.caption
    assert "4: a dog above a cat." in drawing.caption


def test_drawings_of_another_size_are_left_out() -> None:
    other = sample("drawn_images", "drawn", np.zeros((3, 8, 8, 3)))
    mixed = about({"heads=8": drawn(), "heads=1": [*drawn(1, ways=()), other]})
    assert drawings(mixed)["drawings"].svg.count("<image") == 1 + 1


@pytest.mark.parametrize(("said", "name"), [(TOLD, "words-1"), (MADE, "drawings")])
def test_the_opening_picture_is_not_shown_again(said: About, name: str) -> None:
    opening = known(opening_picture(replace(said, opens_with=name.partition("-")[0])))
    every = drawings(said)
    assert every[name] == opening
    assert drawings(said, opening) == {k: v for k, v in every.items() if k != name}


@pytest.mark.parametrize("said", [FULL, TOLD, MADE])
def test_samples_survive_the_file_and_are_escaped(said: About) -> None:
    again = about_from_json(about_to_json(said))
    assert again == said
    assert "<b>" not in "".join(each.svg for each in drawings(again).values())


HOSTILE = '<script>alert("x")</script>\x1b[31m\u202e$\\end{x}|`=1+1'


def test_hostile_names_and_words_are_harmless() -> None:
    own = [replace(each, row_words=(HOSTILE,) * each.num_rows) for each in vision()]
    said = about({HOSTILE: own, "heads=8": own}, variants=(HOSTILE, "heads=8"))
    for drawing in drawings(said).values():
        ET.fromstring(drawing.svg)
        assert "<script" not in drawing.svg
        assert "\x1b" not in drawing.svg + drawing.caption
        assert re.fullmatch(r"[A-Za-z0-9._-]+", drawing.name)


@pytest.mark.whole
def test_a_report_holds_the_pictures_as_files(tmp_path: Path) -> None:
    sweep = synthetic.sweep()
    said = replace(sweep.about, samples=FULL.samples, opens_with="attention")
    home = render("heads", [replace(sweep, about=said)], tmp_path).parent
    assert {f"{TASK}-{name}.svg" for name in ("looks", "places", "filters")} <= {
        path.name for path in (home / "figures").iterdir()
    }
    text = (home / "report.md").read_text().replace("\\", "")
    assert text.index(f"{TASK}-looks.svg") < text.index("## ")
    assert text.count(f"{TASK}-looks.svg") == 1
    html = (home / "index.html").read_text()
    assert html.index("Attention maps on") < html.index("</header>")
