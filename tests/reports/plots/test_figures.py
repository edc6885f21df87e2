"""Test that figures show every seed, handle unusual values, and are reproducible."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from itertools import pairwise

import matplotlib
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from bakeoff.reports.document import Drawing
from bakeoff.reports.plots.learning_curves import curves_figure, learning_curves
from bakeoff.reports.plots.line_chart import spread
from bakeoff.reports.plots.scores import score_figure
from bakeoff.reports.plots.style import GREY, MAX_LINES, label, line_look, marker
from bakeoff.reports.results.frame import curves_frame, results_frame
from bakeoff.reports.view import Sweep
from tests.reports import conftest as synthetic
from tests.reports import hostile
from tests.reports.conftest import judged, known

_SVG = "{http://www.w3.org/2000/svg}"
TEXT = "shakespeare_characters"


def _curves(sweep: Sweep, task: str = "majority") -> Drawing:
    curves = known(learning_curves(sweep.about, sweep.curves, judged(sweep, task)))
    return known(curves_figure(sweep.about, curves))


def _drawn(sweep: Sweep, task: str = "majority") -> list[Drawing]:
    """Return the figures of scores and of learning curves."""
    series = judged(sweep, task)
    curves = learning_curves(sweep.about, sweep.curves, series)
    made = [score_figure(sweep.about, series), curves and curves_figure(sweep.about, curves)]
    return [drawing for drawing in made if drawing]


def test_figures_are_well_formed_titled_and_described() -> None:
    drawings = _drawn(synthetic.sweep())
    assert len(drawings) == 2
    for drawing in drawings:
        root = ET.fromstring(drawing.svg)
        title, description = known(root.find(f"{_SVG}title")), known(root.find(f"{_SVG}desc"))
        assert root.attrib["role"] == "img"
        labels = root.attrib["aria-labelledby"].split()
        assert [title.attrib["id"], description.attrib["id"]] == labels
        assert title.text == drawing.title
    assert "8 heads: 0.9" in drawings[0].svg
    assert "16 heads: no result" in drawings[0].svg


def test_ids_are_distinct_over_a_page_and_references_resolve() -> None:
    sweep = synthetic.sweep()
    page = "".join(d.svg for task in synthetic.TASKS for d in _drawn(sweep, task))
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    used = set(re.findall(r'href="#([^"]+)"', page)) | set(re.findall(r"url\(#([^)]+)\)", page))
    assert used
    assert used <= set(ids)


def test_the_same_sweep_gives_the_same_bytes_whatever_the_user_configured() -> None:
    sweep = synthetic.sweep()
    plain = [drawing.svg for drawing in _drawn(sweep)]
    with matplotlib.rc_context({"axes.facecolor": "red", "font.size": 30, "svg.fonttype": "none"}):
        assert [drawing.svg for drawing in _drawn(sweep)] == plain
    assert not re.search(r"\d{4}-\d{2}-\d{2}T|<metadata|<!--|matplotlib\.org", "".join(plain))


def test_every_seed_is_drawn() -> None:
    """Check that each seed has one marker, a white circle in the figure of scores."""
    circles = re.findall(r"<use [^>]*fill: #ffffff[^>]*>", _drawn(synthetic.sweep())[0].svg)
    assert len(circles) == 4 * 3  # four variants with three seeds; the fifth was skipped


def test_a_mean_is_never_one_of_survivors() -> None:
    """Check that the mean of heads=16, which lost a seed after three points, ends there."""
    sweep = synthetic.sweep()
    drawing = _curves(sweep, TEXT)
    points = sweep.curves.query("variant == 'heads=16' and task == @TEXT").groupby("step")["value"]
    assert points.count()[112] == 3
    first, last = points.mean()[38], points.mean()[112]
    assert f"heads=16: from {first:.4g} to {last:.4g}" in drawing.svg
    assert "A mean ends where the first of its seeds ends" in drawing.caption


def test_where_seeds_share_no_step_there_is_a_name_and_no_mean() -> None:
    sweep = synthetic.sweep(is_troubled=False)
    is_moved = (sweep.curves["variant"] == "heads=4") & (sweep.curves["seed"] == 1)
    curves = sweep.curves.assign(step=sweep.curves["step"] + is_moved)
    drawing = _curves(replace(sweep, curves=curves))
    assert "heads=4: from" not in drawing.svg
    assert "heads=2: from" in drawing.svg
    assert "A mean ends where the first of its seeds ends" in drawing.caption


def test_the_band_is_the_interval_over_seeds() -> None:
    """Check that each variant with several seeds has one band, and a single seed has none."""
    sweep = synthetic.sweep(is_troubled=False)
    drawing = _curves(sweep)
    assert drawing.svg.count(band := "fill-opacity: 0.11") == len(synthetic.VARIANTS)
    assert "bands the 95 % intervals" in drawing.caption
    alone = _curves(replace(sweep, curves=sweep.curves[sweep.curves["seed"] == 0]))
    assert band not in alone.svg
    assert "bands" not in alone.caption


def test_without_numbers_there_is_no_figure() -> None:
    sweep = synthetic.sweep()
    assert _drawn(Sweep(sweep.about, results_frame([]), curves_frame([]))) == []
    some = replace(sweep, curves=sweep.curves[sweep.curves["variant"] == "heads=8"])
    assert "4 of 5 variants have no such points." in _curves(some).caption


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1e300])
def test_absurd_points_do_not_break_or_squeeze_the_figure(value: float) -> None:
    sweep = synthetic.sweep()
    curves = sweep.curves.copy()
    curves.loc[curves["step"] == 297, "value"] = curves["value"].where(curves["seed"] > 0, value)
    assert len(_drawn(replace(sweep, curves=curves))) == 2


def test_too_many_variants_for_a_figure() -> None:
    assert [drawn.name for drawn in _drawn(hostile.many(60), "t")] == ["t-bits_per_character"]
    assert _drawn(hostile.many(61), "t") == []


def test_a_long_name_is_wrapped_and_stays_whole() -> None:
    name = "baseline (gated delta, kernel=materialised, norm_placement=res_post, heads=8, dim=64)"
    lines = label(name, width=30).split("\n")
    assert " ".join(lines) == name
    assert max(map(len, lines)) <= 30
    many = label("word " * 100, width=30)
    assert (many.count("\n"), many[-1]) == (3, "…")


def test_names_of_several_lines_are_moved_further_apart() -> None:
    placed = spread([0.5, 0.5, 0.5], [0.1, 0.3, 0.1])
    assert [round(a - b, 6) for a, b in pairwise(placed)] == [0.2, 0.2]


def test_a_figure_of_two_sides_shows_the_others_in_grey() -> None:
    sweep = synthetic.sweep()
    series = judged(sweep)
    plain = known(score_figure(sweep.about, series))
    marked = known(score_figure(sweep.about, series, compared=("heads=1", "heads=8")))
    assert plain.svg.count(GREY) < marked.svg.count(GREY)
    assert "blue" not in plain.caption
    assert marked.caption.endswith(" The claim is about the blue variants.")
    some = known(score_figure(sweep.about, series, variants=["heads=8", "heads=1"]))
    assert some.name == f"{plain.name}-chosen"
    assert some.caption.endswith("2 of 5 variants are shown.")


HEIGHTS = st.lists(st.floats(0, 1), min_size=1, max_size=MAX_LINES + 2)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # busy machines are slow
@given(heights=HEIGHTS)
@example(heights=[0.9, 0.5, 0.1])
def test_names_keep_their_order_and_distance_and_stay_inside(heights: list[float]) -> None:
    ordered = sorted(heights, reverse=True)
    placed = spread(ordered)
    assert all(above - below > 0.0679 for above, below in pairwise(placed))
    assert placed[-1] >= 0
    assert placed[0] <= 1
    if all(above - below > 0.0681 for above, below in pairwise(ordered)):
        assert placed == ordered


def test_no_two_lines_look_alike() -> None:
    looks = {(str(line_look(index)), marker(index)) for index in range(MAX_LINES + 2)}
    assert len(looks) == MAX_LINES + 2
