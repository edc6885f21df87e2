"""Does the figure show each point where it is, hollow where it is noisy, and name its lines?"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from functools import cache

from reports.document import Drawing
from reports.growth_figures import growth_figure
from reports.results.frame import Sweep
from reports.results.length_sweep import Growth, find, growths
from suite.schema import About, Status
from tests.reports import mixers_alone

TIME, MEMORY = "forward_backward_seconds", "forward_backward_peak_bytes"


@cache
def _sweep() -> Sweep:
    return mixers_alone.sweep()


@cache
def _growths() -> tuple[Growth, ...]:
    return growths(_sweep().about, _sweep().results)


def _growth(metric: str) -> Growth:
    found = find(_growths(), metric)
    assert found is not None
    return found


def _drawn(metric: str, about: About | None = None) -> Drawing:
    made = growth_figure(about or _sweep().about, _growth(metric), "A title")
    assert made is not None
    return made


def test_every_point_is_drawn_and_the_noisy_one_is_hollow() -> None:
    svg = _drawn(TIME).svg
    hollow = re.findall(r"<use [^>]*fill: #ffffff[^>]*>", svg)
    assert len(hollow) == 1
    assert "Hollow points are noisy" in _drawn(TIME).caption
    assert not re.findall(r"<use [^>]*fill: #ffffff[^>]*>", _drawn(MEMORY).svg)
    assert "Hollow" not in _drawn(MEMORY).caption


def test_it_is_sound_titled_and_told_in_words() -> None:
    drawing = _drawn(TIME)
    root = ET.fromstring(drawing.svg)
    assert root.attrib["role"] == "img"
    assert drawing.name == "mixer_alone-forward_backward_seconds-by-length"
    first = mixers_alone.SECONDS["mixer=lstm"](64, 64) * 2.8
    assert f"mixer=lstm: from {first * 1e3:.2f}"[:20] in drawing.svg
    assert "baseline (attention, kernel=fused): from" in drawing.svg
    assert "tokens to" in drawing.svg


def test_two_figures_share_no_id() -> None:
    ids = re.findall(r'\bid="([^"]+)"', _drawn(TIME).svg + _drawn(MEMORY).svg)
    assert len(ids) == len(set(ids))


def test_guides_have_the_slopes_that_they_are_named_for() -> None:
    """Two grey paths from one corner, over the same width; one rises twice as far."""
    grey = re.findall(r'<path d="M ([\d.]+) ([\d.]+) \nL ([\d.]+) ([\d.]+) \n"[^>]*style="([^"]*)"',
                      _drawn(MEMORY).svg)  # fmt: skip
    guides = [
        tuple(map(float, points)) for *points, style in grey
        if "#9aa0a6" in style and "stroke-dasharray" in style
        and float(points[2]) - float(points[0]) > 100
    ]  # fmt: skip
    assert len(guides) == 2
    slow, steep = sorted(guides, key=lambda ends: ends[1] - ends[3])
    assert slow[:3] == steep[:3]
    assert abs((steep[1] - steep[3]) / (slow[1] - slow[3]) - 2) < 0.01


def test_too_many_variants_are_named_as_missing() -> None:
    names = tuple(f"v={number}" for number in range(30))
    readings = {name: _growth(TIME).readings["mixer=lstm"] for name in names}
    growth = Growth(**{**vars(_growth(TIME)), "readings": readings})
    made = growth_figure(mixers_alone.about(variants=names, baseline="v=0"), growth, "T")
    assert made is not None
    assert "Drawn are 12 of 30 variants." in made.caption


def test_nothing_to_draw() -> None:
    growth = _growth(TIME)
    one = {
        variant: {place: some for place, some in at.items() if place == 64}
        for variant, at in growth.readings.items()
    }
    alone = Growth(**{**vars(growth), "readings": one, "places": (64,)})
    assert growth_figure(_sweep().about, alone, "T") is None
    none = Growth(**{**vars(growth), "readings": {}, "places": ()})
    assert growth_figure(_sweep().about, none, "T") is None


def test_a_point_that_failed_is_left_out() -> None:
    rows = _sweep().results.copy()
    lost = (rows["variant"] == "mixer=lstm") & (rows["at"] == "length=4096")
    rows.loc[lost, ["value", "status"]] = [float("nan"), str(Status.OUT_OF_MEMORY)]
    growth = find(growths(_sweep().about, rows), TIME)
    assert growth is not None
    made = growth_figure(_sweep().about, growth, "T")
    assert made is not None
    assert re.search(r"mixer=lstm: from [^;]* at 2,048", made.svg)
