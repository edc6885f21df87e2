"""Does the picture show the ratios and crossovers that the table has?"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from functools import cache

import pytest

from reports.analysis.crossover import crossover
from reports.analysis.time_comparison import compare
from reports.crossover_figure import crossover_figure
from reports.document import Drawing
from reports.results.frame import Sweep, results_frame
from reports.results.length_sweep import Growth, find, growths
from reports.stats.number_format import as_ratio
from tests.reports import mixers_alone


@cache
def _sweep() -> Sweep:
    return mixers_alone.sweep()


def _growth(sweep: Sweep | None = None) -> Growth:
    chosen = sweep or _sweep()
    found = find(growths(chosen.about, chosen.results), "forward_backward_seconds")
    assert found is not None
    return found


@cache
def _drawn() -> Drawing:
    made = crossover_figure(_sweep().about, _growth(), "forward and backward")
    assert made is not None
    return made


def test_every_other_variant_is_a_line_with_its_ratios_in_words() -> None:
    svg = _drawn().svg
    ET.fromstring(svg)
    growth = _growth()
    for variant in _sweep().about.variants[1:]:
        ends = [
            compare(growth.of(variant, at), growth.of("baseline", at)).ratio.point
            for at in (64, 4096)
        ]
        assert None not in ends
        first, last = (as_ratio(end) for end in ends if end is not None)
        assert f"{variant}: from {first} at 64 tokens to {last} at 4,096 tokens" in svg


def test_every_crossover_is_a_diamond_on_the_line() -> None:
    """As many as the table has; the place in words is the table's."""
    growth, drawing = _growth(), _drawn()
    found = [crossover(growth, v, "baseline") for v in _sweep().about.variants[1:]]
    placed = [one for one in found if one.place is not None]
    assert len(placed) >= 2
    for one in placed:
        assert f"{one.kind}: {one.text}" in drawing.svg
    # markers of one variant share a definition: diamonds are those used with their own stroke
    diamonds = re.findall(r"<use [^>]*fill: #ffffff[^>]*stroke-width: 1\.8[^>]*>", drawing.svg)
    assert len(diamonds) == len(placed)
    assert "A diamond marks" in drawing.caption


def test_noise_and_the_baseline_are_told() -> None:
    caption = _drawn().caption
    assert "baseline (attention, kernel=fused)" in caption
    assert "Hollow points are noisy" in caption


@pytest.mark.parametrize("kept", [("baseline",), ("mixer=lstm", "mixer=conv")])
def test_without_a_pair_there_is_no_picture(kept: tuple[str, ...]) -> None:
    rows = _sweep().results
    few = Sweep(_sweep().about, rows[rows["variant"].isin(list(kept))], _sweep().curves)
    assert crossover_figure(few.about, _growth(few), "forward and backward") is None


def test_one_process_has_points_without_intervals() -> None:
    rows = _sweep().results
    first = Sweep(_sweep().about, rows[rows["seed"] == 0], _sweep().curves)
    made = crossover_figure(first.about, _growth(first), "forward and backward")
    assert made is not None
    assert "95 % intervals" not in made.caption


def test_hostile_names_stay_text() -> None:
    name = r"<script>$\input{x}$</script>"
    rows = _sweep().results.to_dict("records")
    for row in rows:
        row["variant"] = name if row["variant"] == "mixer=lstm" else row["variant"]
    said = mixers_alone.about(
        variants=tuple(name if v == "mixer=lstm" else v for v in _sweep().about.variants)
    )
    made = crossover_figure(
        said, _growth(Sweep(said, results_frame(rows), _sweep().curves)), "forward"
    )
    assert made is not None
    assert "<script" not in made.svg
    ET.fromstring(made.svg)
