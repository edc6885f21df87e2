"""Test pictures of trained models: they are correct, small, reproducible and harmless."""

from __future__ import annotations

import base64
import io
import re
import xml.etree.ElementTree as ET
from typing import Any

import numpy as np
import pytest
from PIL import Image

from bakeoff.reports.document import Exhibit, Section
from bakeoff.reports.export.printers import to_csv, to_latex, to_markdown
from bakeoff.reports.pages.samples import sample_sections
from bakeoff.suite.schema import About, Sample
from tests.reports import conftest as synthetic
from tests.reports.conftest import known

pytestmark = pytest.mark.whole

TEXT = "ROMEO\nWhat light through yonder "
SIZE = len(TEXT)
TASK = "shakespeare_characters"
_MOST_BYTES = 60_000


def matrix(title: str, values: np.ndarray, kind: str = "attention", text: str = TEXT) -> Sample:
    low = 0.0 if kind == "attention" else float(values.min())
    high = float(values.max())
    levels = np.round((values - low) / (high - low) * 255).astype(np.uint8).tobytes()
    return Sample(
        kind=kind,
        title=title,
        text=text,
        num_rows=len(values),
        num_columns=len(values),  # type: ignore[arg-type]
        levels=base64.b64encode(levels).decode(),
        low=low,
        high=high,
    )


def maps(seed: int, layers: int = 2, heads: int = 4) -> list[Sample]:
    """Return maps where the first head attends to the previous token, the others anywhere."""
    rng = np.random.default_rng(seed)
    found = []
    for layer in range(1, layers + 1):
        for head in range(1, heads + 1):
            weights = np.tril(rng.exponential(size=(SIZE, SIZE)) ** 2)
            if head == 1:
                weights += 200 * np.eye(SIZE, k=-1)
            weights /= weights.sum(axis=1, keepdims=True)
            found.append(matrix(f"layer {layer}, head {head}", weights))
    return found


def cosines(scale: float) -> Sample:
    places = np.arange(64)
    return matrix(
        "cosine similarity", np.cos(scale * (places[:, None] - places)), "positions", text=""
    )


def biases(slope: float, heads: int = 2) -> list[Sample]:
    distance = np.abs(np.arange(SIZE)[:, None] - np.arange(SIZE))
    return [
        matrix(f"layer 1, head {head}", -slope * head * distance, "positions", text="")
        for head in range(1, heads + 1)
    ]


def texts(written: str, prompt: str = "ROMEO\nWhat") -> list[Sample]:
    return [
        Sample(kind="text", title="prompt", text=prompt),
        Sample(kind="text", title="continuation", text=written),
    ]


def about(of_variants: dict[str, list[Sample]], **changes: Any) -> About:
    """Return an `About` with these samples of its variants."""
    found = {variant: tuple(some) for variant, some in of_variants.items()}
    return synthetic.about(samples={TASK: found}, **changes)


@pytest.fixture(scope="module")
def full() -> About:
    variants = ("heads=1", "heads=2", "heads=4", "heads=8", "heads=16")
    return about(
        {
            v: [*maps(i), cosines(0.05), *biases(0.1 * (i + 1)), *texts(f"{v} writes\nverses")]
            for i, v in enumerate(variants)
        },
        variants=variants,
    )


def only_section(said: About) -> Section:
    """Return the only section."""
    (found,) = sample_sections(said)
    return found


_MADE: dict[int, tuple[About, Section]] = {}  # keeps a reference, so that ids are not reused


def section(said: About) -> Section:
    """Return the section, cached per `About` because figures are slow."""
    if id(said) not in _MADE:
        _MADE[id(said)] = said, only_section(said)
    return _MADE[id(said)][1]


def exhibit(said: About, title: str) -> Exhibit:
    (found,) = [e for e in section(said).exhibits if e.title.startswith(title)]
    return found


def test_without_samples_there_is_no_section() -> None:
    for said in (synthetic.about(), about({}), about({"heads=8": []})):
        assert list(sample_sections(said)) == []


def test_every_kind_has_its_exhibit_and_its_task_is_named(full: About) -> None:
    titles = [found.title for found in section(full).exhibits]
    assert titles == [
        f"Attention maps on {TASK}",
        f"Similarity of positions on {TASK}",
        f"Position biases on {TASK}",
        f"Generated text on {TASK}",
    ]


def test_the_baseline_comes_first_and_a_few_others_follow(full: About) -> None:
    views = exhibit(full, "Attention").views
    assert [view.title for view in views] == [
        "8 heads",
        "1 head",
        "4 heads",
        "16 heads",
    ]
    assert all(len(view.drawings) == len(view.tables) == 1 for view in views)


def test_a_figure_says_in_words_where_its_heads_look(full: About) -> None:
    drawing = exhibit(full, "Attention").views[0].drawings[0]
    description = known(ET.fromstring(drawing.svg)[1].text)
    assert re.search(
        r"Layer 2, head 1: on the previous token \(\d\d %\), \d.\d tokens", description
    )
    assert "Layer 2, head 4: spread out" in description


def test_the_table_of_heads_holds_what_the_matrices_hold(full: About) -> None:
    (table,) = exhibit(full, "Attention").views[0].tables
    assert [row.name for row in table.rows] == [
        f"layer {layer}, head {head}" for layer in (1, 2) for head in (1, 2, 3, 4)
    ]
    keys = [column.key for column in table.columns]
    assert "weight_on_next" not in keys  # causal models have no weight on later tokens
    before = table.columns[keys.index("weight_on_previous")].entries["layer 1, head 1"]
    assert before.text == f"{100 * before.estimate.point:.0f}"
    assert before.estimate.point > 0.5
    for printed in (to_csv(table), to_markdown(table), to_latex(table)):
        assert "layer 1, head 1" in printed


def test_pixels_are_the_matrix() -> None:
    """Check that each value has one pixel, white for no weight and darker for more."""
    values = np.zeros((SIZE, SIZE))
    values[np.arange(SIZE), np.arange(SIZE) // 2] = 1.0
    drawn = exhibit(about({"heads=8": [matrix("layer 1, head 1", values)]}), "Attention")
    coded = re.findall(r"data:image/png;base64,\s*([^\"]+)\"", drawn.views[0].drawings[0].svg)
    sizes = {}
    for each in coded:
        picture = Image.open(io.BytesIO(base64.b64decode(each)))
        sizes[picture.size] = np.asarray(picture.convert("L"))
    shades = sizes[SIZE, SIZE]
    assert ((shades < 255) == (values > 0)).all()


def test_figures_are_small_and_the_same_each_time(full: About) -> None:
    again = only_section(full)
    largest = about({"heads=8": maps(3, layers=4, heads=4)})
    for drawing, same in zip(section(full).drawings, again.drawings, strict=True):
        assert drawing == same
        assert len(drawing.svg.encode()) < _MOST_BYTES
    (only,) = section(largest).drawings
    assert len(only.svg.encode()) < _MOST_BYTES


def test_names_and_ids_are_distinct_over_the_section(full: About) -> None:
    made = section(full)
    names = [drawing.name for drawing in made.drawings]
    assert len(set(names)) == len(names) == 4 + 1 + 4
    assert len({table.name for table in made.tables}) == len(made.tables) == 4 + 1
    ids = re.findall(r'\bid="([^"]+)"', "".join(drawing.svg for drawing in made.drawings))
    assert len(set(ids)) == len(ids)


def test_a_matrix_that_all_share_is_drawn_once(full: About) -> None:
    (drawing,) = exhibit(full, "Similarity of positions").drawings
    assert "the same in all 5 variants" in drawing.caption
    assert drawing.svg.count("<image") == 2  # the matrix and its scale
    two = about({"heads=1": [cosines(0.05)], "heads=8": [cosines(0.1)]})
    (drawing,) = exhibit(two, "Similarity of positions").drawings
    assert drawing.svg.count("<image") == 3
    assert "1 head: 1 at distance 0" in drawing.svg


def test_what_is_written_is_quoted_on_one_line(full: About) -> None:
    found = exhibit(full, "Generated text")
    assert found.sentences[-1] == "The prompt: “ROMEO / What”"
    (table,) = found.tables
    assert [row.entries[0].text for row in table.rows][:2] == [
        "heads=8 writes / verses",
        "heads=1 writes / verses",
    ]
    assert table.rows[0].is_baseline


def test_prompts_that_differ_are_not_passed_off_as_one() -> None:
    made = about({"heads=8": texts("a", "one"), "heads=1": texts("b", "two")})
    assert not any("The prompt" in said for said in exhibit(made, "Generated text").sentences)


HOSTILE = '<script>alert("x")</script>\x1b[31m\u202e$\\end{x}|`=1+1'


def test_hostile_names_and_texts_are_harmless() -> None:
    some = [*maps(1, 1, 1), cosines(0.1), *biases(0.1), *texts(HOSTILE, HOSTILE)]
    strange = matrix("layer 1, head 1", np.eye(SIZE), text=(HOSTILE * 2)[:SIZE])
    made = section(
        about({HOSTILE: [strange, *some[1:]], "heads=8": some}, variants=(HOSTILE, "heads=8"))
    )
    for drawing in made.drawings:
        ET.fromstring(drawing.svg)
        assert "<script" not in drawing.svg
        assert "\x1b" not in drawing.svg
        assert re.fullmatch(r"[A-Za-z0-9._-]+", drawing.name)
    said = [text for shown in made.exhibits for text in shown.sentences]
    said += [view.title for shown in made.exhibits for view in shown.views]
    said += [e.text for t in made.tables for row in t.rows for e in row.entries]
    assert not any("\x1b" in text or "\u202e" in text for text in said)
    assert all("\x1b" not in to_latex(table) for table in made.tables)


def test_what_cannot_be_drawn_is_left_out() -> None:
    wrong = Sample(kind="attention", title="layer 1, head 1", num_rows=9, num_columns=9)
    untitled = matrix("somewhere", np.eye(SIZE))
    for some in ({"heads=8": [wrong, untitled]}, {"no such variant": maps(1)}):
        assert list(sample_sections(about(some))) == []


def test_thousands_of_maps_make_a_figure_of_a_few() -> None:
    many = [
        matrix(f"layer {layer}, head {head}", np.eye(SIZE))
        for layer in range(1, 41)
        for head in range(1, 41)
    ]
    (drawing,) = section(about({"heads=8": many})).drawings
    assert drawing.svg.count("<image") == 4 * 4 + 1
