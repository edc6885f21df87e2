"""Test that figures show times, ratios and crossovers at their places, and label their lines."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from functools import cache

import pytest

from bakeoff.reports.analysis.crossover import crossover
from bakeoff.reports.analysis.time_comparison import compare
from bakeoff.reports.document import Drawing
from bakeoff.reports.plots.length_sweep import crossover_figure, growth_figure
from bakeoff.reports.results.length_sweep import Growth, find, growths
from bakeoff.reports.results.spoken_names import shown_name
from bakeoff.reports.stats.intervals import as_ratio
from bakeoff.reports.view import Sweep
from bakeoff.suite.schema import Status
from tests.reports import mixers_alone
from tests.reports.conftest import known
from tests.reports.mixers_alone import whole

TIME, MEMORY = "forward_backward_seconds", "forward_backward_peak_bytes"
HOLLOW = r"<use [^>]*fill: #ffffff[^>]*>"


@cache
def _growth(metric: str = TIME) -> Growth:
    return known(find(growths(whole().about, whole().results), metric))


@cache
def _drawn(metric: str = TIME) -> Drawing:
    return known(growth_figure(whole().about, _growth(metric), "A title"))


def _ratios(sweep: Sweep) -> Drawing | None:
    growth = known(find(growths(sweep.about, sweep.results), TIME))
    return crossover_figure(sweep.about, growth, "forward and backward")


@cache
def _drawn_ratios() -> Drawing:
    return known(_ratios(whole()))


def test_every_point_is_drawn_and_the_noisy_one_is_hollow() -> None:
    assert len(re.findall(HOLLOW, _drawn().svg)) == 1
    assert "Hollow points are noisy" in _drawn().caption
    assert not re.findall(HOLLOW, _drawn(MEMORY).svg)
    assert "Hollow" not in _drawn(MEMORY).caption


def test_it_is_titled_and_described() -> None:
    drawing = _drawn()
    assert ET.fromstring(drawing.svg).attrib["role"] == "img"
    assert drawing.name == "mixer_alone-forward_backward_seconds-by-length"
    first = mixers_alone.SECONDS["mixer=lstm"](64, 64) * 2.8
    assert f"LSTM: from {first * 1e3:.2f}"[:14] in drawing.svg
    assert "attention: from" in drawing.svg
    assert "tokens to" in drawing.svg


def test_two_figures_share_no_id() -> None:
    ids = re.findall(r'\bid="([^"]+)"', _drawn().svg + _drawn(MEMORY).svg)
    assert len(ids) == len(set(ids))


def test_guides_have_the_slopes_that_they_are_named_for() -> None:
    """Compare two grey paths from one corner over equal widths; one rises twice as far."""
    grey = re.findall(
        r'<path d="M ([\d.]+) ([\d.]+) \nL ([\d.]+) ([\d.]+) \n"[^>]*style="([^"]*)"',
        _drawn(MEMORY).svg,
    )
    guides = [
        tuple(map(float, points))
        for *points, style in grey
        if "#9aa0a6" in style
        and "stroke-dasharray" in style
        and float(points[2]) - float(points[0]) > 100
    ]
    slow, steep = sorted(guides, key=lambda ends: ends[1] - ends[3])
    assert slow[:3] == steep[:3]
    assert abs((steep[1] - steep[3]) / (slow[1] - slow[3]) - 2) < 0.01


def test_too_many_variants_are_counted() -> None:
    names = tuple(f"v={number}" for number in range(30))
    growth = replace(_growth(), readings=dict.fromkeys(names, _growth().readings["mixer=lstm"]))
    about = mixers_alone.about(variants=names, baseline="v=0")
    assert "12 of 30 variants are drawn." in known(growth_figure(about, growth, "T")).caption


@pytest.mark.parametrize("places", [(64,), ()])
def test_without_two_points_there_is_no_figure(places: tuple[int, ...]) -> None:
    readings = {
        variant: {place: some for place, some in at.items() if place in places}
        for variant, at in _growth().readings.items()
    }
    growth = replace(_growth(), readings=readings, places=places)
    assert growth_figure(whole().about, growth, "T") is None


def test_a_point_that_failed_is_left_out() -> None:
    rows = whole().results.copy()
    lost = (rows["variant"] == "mixer=lstm") & (rows["at"] == "length=4096")
    rows.loc[lost, ["value", "status"]] = [float("nan"), str(Status.OUT_OF_MEMORY)]
    growth = known(find(growths(whole().about, rows), TIME))
    made = known(growth_figure(whole().about, growth, "T"))
    assert re.search(r"LSTM: from [^;]* at 2,048", made.svg)


def test_every_other_variant_is_a_line_with_its_ratios_in_words() -> None:
    svg, growth = _drawn_ratios().svg, _growth()
    ET.fromstring(svg)
    for variant in whole().about.variants[1:]:
        first, last = (
            as_ratio(known(compare(growth.of(variant, at), growth.of("baseline", at)).ratio.point))
            for at in (64, 4096)
        )
        name = shown_name(whole().about, variant)
        assert f"{name}: from {first} at 64 tokens to {last} at 4,096 tokens" in svg


def test_every_crossover_is_a_diamond_on_the_line() -> None:
    """Compare their number and their places in words with the table."""
    drawing = _drawn_ratios()
    found = [crossover(_growth(), v, "baseline") for v in whole().about.variants[1:]]
    placed = [one for one in found if one.place is not None]
    assert len(placed) >= 2
    assert all(f"{one.kind}: {one.text}" in drawing.svg for one in placed)
    # markers of one variant share a definition: diamonds are those used with their own stroke
    diamonds = re.findall(r"<use [^>]*fill: #ffffff[^>]*stroke-width: 1\.8[^>]*>", drawing.svg)
    assert len(diamonds) == len(placed)
    for said in (
        "A diamond marks",
        "baseline (attention)",
        "Hollow points are noisy",
    ):
        assert said in drawing.caption


@pytest.mark.parametrize("kept", [("baseline",), ("mixer=lstm", "mixer=conv")])
def test_without_a_pair_there_are_no_ratios(kept: tuple[str, ...]) -> None:
    rows = whole().results
    assert _ratios(replace(whole(), results=rows[rows["variant"].isin(list(kept))])) is None


def test_one_process_has_points_without_intervals() -> None:
    rows = whole().results
    first = replace(whole(), results=rows[rows["seed"] == 0])
    assert "95 % intervals" not in known(_ratios(first)).caption
