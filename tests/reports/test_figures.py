"""Do figures show every seed, hold no surprises, and come out the same each time?"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from types import ModuleType
from typing import Any

import matplotlib
import pytest

from reports.curves import curve_figure
from reports.document import Drawing
from reports.figures import score_figure
from reports.results.frame import Sweep, curves_frame, results_frame
from reports.results.series import Series, all_series
from reports.tables.comparison import primary

_SVG = "{http://www.w3.org/2000/svg}"


def _judged(sweep: Any, task: str) -> Series:
    found = primary(all_series(sweep.about, sweep.results), task)
    assert found is not None
    return found


def _drawn(sweep: Any, task: str = "majority") -> list[Drawing]:
    judged = _judged(sweep, task)
    made = [
        score_figure(sweep.about, judged),
        curve_figure(sweep.about, sweep.curves, judged, "step"),
        curve_figure(sweep.about, sweep.curves, judged, "flops"),
    ]
    return [drawing for drawing in made if drawing]


def test_figures_are_well_formed_titled_and_described(synthetic: ModuleType) -> None:
    drawings = _drawn(synthetic.sweep())
    assert len(drawings) == 3
    for drawing in drawings:
        root = ET.fromstring(drawing.svg)
        labels = root.attrib["aria-labelledby"].split()
        described = [root.find(f"{_SVG}title"), root.find(f"{_SVG}desc")]
        assert root.attrib["role"] == "img"
        assert [item.attrib["id"] for item in described if item is not None] == labels
        assert described[0] is not None
        assert described[0].text == drawing.title
    assert "heads=8: 0.9" in drawings[0].svg
    assert "heads=16: no result" in drawings[0].svg


def test_ids_are_distinct_over_a_page_and_references_resolve(synthetic: ModuleType) -> None:
    sweep = synthetic.sweep()
    page = "".join(d.svg for task in synthetic.TASKS for d in _drawn(sweep, task))
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    used = set(re.findall(r'href="#([^"]+)"', page)) | set(re.findall(r"url\(#([^)]+)\)", page))
    assert used
    assert used <= set(ids)


def test_the_same_sweep_gives_the_same_bytes_whatever_the_user_configured(
    synthetic: ModuleType,
) -> None:
    sweep = synthetic.sweep()
    plain = [drawing.svg for drawing in _drawn(sweep)]
    with matplotlib.rc_context({"axes.facecolor": "red", "font.size": 30, "svg.fonttype": "none"}):
        assert [drawing.svg for drawing in _drawn(sweep)] == plain
    assert not re.search(r"\d{4}-\d{2}-\d{2}T|<metadata|<!--|matplotlib\.org", "".join(plain))


def test_every_seed_is_drawn(synthetic: ModuleType) -> None:
    """One marker a seed: white circles in the figure of scores."""
    figure = _drawn(synthetic.sweep())[0].svg
    circles = re.findall(r"<use [^>]*fill: #ffffff[^>]*>", figure)
    assert len(circles) == 4 * 3  # four variants with three seeds; the fifth was skipped


def test_a_mean_is_never_one_of_survivors(synthetic: ModuleType) -> None:
    """heads=16 lost a seed after three points: its mean ends there, and the caption says so."""
    sweep = synthetic.sweep()
    judged = _judged(sweep, "shakespeare_characters")
    drawing = curve_figure(sweep.about, sweep.curves, judged, "step")
    assert drawing is not None
    points = sweep.curves.query("variant == 'heads=16' and step == 112")
    points = points[points["task"] == "shakespeare_characters"]
    assert len(points) == 3
    assert f"heads=16: from {_first_mean(sweep):.4g} to {points['value'].mean():.4g}" in drawing.svg
    assert "A mean ends where the first of its seeds ends" in drawing.caption


def _first_mean(sweep: Any) -> float:
    chosen = sweep.curves.query("variant == 'heads=16' and step == 38")
    return float(chosen[chosen["task"] == "shakespeare_characters"]["value"].mean())


def test_the_band_is_the_interval_over_seeds(synthetic: ModuleType) -> None:
    """One band a variant with several seeds, and none of a single seed."""
    sweep = synthetic.sweep(is_troubled=False)
    judged = _judged(sweep, "majority")
    drawing = curve_figure(sweep.about, sweep.curves, judged, "step")
    assert drawing is not None
    assert len(re.findall(r'id="[^"]*FillBetween[^"]*"', drawing.svg)) == len(synthetic.VARIANTS)
    assert "bands its 95 % interval" in drawing.caption
    first = sweep.curves[sweep.curves["seed"] == 0]
    alone = curve_figure(sweep.about, first, judged, "step")
    assert alone is not None
    assert "FillBetween" not in alone.svg
    assert "bands" not in alone.caption


def test_curves_against_time_need_the_step_times(synthetic: ModuleType) -> None:
    sweep = synthetic.sweep()
    judged = _judged(sweep, "majority")
    assert curve_figure(sweep.about, sweep.curves, judged, "seconds") is None
    drawing = curve_figure(sweep.about, sweep.curves, judged, "seconds", {"heads=8": 0.02})
    assert drawing is not None
    assert drawing.name == "majority-validation_accuracy-by-seconds"
    assert "4 of 5 variants have no such points." in drawing.caption


def test_nothing_to_draw(synthetic: ModuleType) -> None:
    empty = Sweep(synthetic.about(), results_frame([]), curves_frame([]))
    assert _drawn(empty) == []


def test_without_flops_there_is_one_view(synthetic: ModuleType) -> None:
    sweep = synthetic.sweep()
    blind = Sweep(sweep.about, sweep.results, sweep.curves.assign(flops=float("nan")))
    assert [drawing.name for drawing in _drawn(blind)] == [
        "majority-accuracy", "majority-validation_accuracy-by-step",
    ]  # fmt: skip


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1e300])
def test_absurd_points_do_not_break_or_squeeze_the_figure(
    synthetic: ModuleType, value: float
) -> None:
    sweep = synthetic.sweep()
    curves = sweep.curves.copy()
    curves.loc[curves["step"] == 297, "value"] = curves["value"].where(curves["seed"] > 0, value)
    drawn = _drawn(Sweep(sweep.about, sweep.results, curves))
    assert len(drawn) == 3


def test_dollars_are_dollars_and_unknown_letters_are_boxes(synthetic: ModuleType) -> None:
    """`$\\input{x}$` would raise inside matplotlib's mathtext; a missing glyph would warn."""
    names = (r"$\input{x}$", r"$\frac$", "長さ=1", "\u202eevil\x1b[31m", "n" * 400)
    spec = synthetic.ACCURACY
    said = synthetic.about(
        variants=names, baseline=names[0], tasks=("t $x",), probes=("quality",),
        metrics={"t $x": {"quality": (spec,)}}, claim=None,
    )  # fmt: skip
    rows = [
        synthetic.row(said, name, "t $x", "quality", spec, seed=seed, value=seed + 0.5)
        for name in names
        for seed in range(3)
    ]
    sweep = Sweep(said, results_frame(rows), curves_frame([]))
    (drawing,) = _drawn(sweep, "t $x")
    ET.fromstring(drawing.svg)


def test_too_many_variants_for_a_figure(synthetic: ModuleType) -> None:
    names = tuple(f"v={i}" for i in range(61))
    said = synthetic.about(
        variants=names, baseline="v=0", tasks=("t",), probes=("quality",), claim=None,
        metrics={"t": {"quality": (synthetic.BITS,)}},
    )  # fmt: skip
    rows = [synthetic.row(said, name, "t", "quality", synthetic.BITS, value=1.0) for name in names]
    assert _drawn(Sweep(said, results_frame(rows), curves_frame([])), "t") == []
