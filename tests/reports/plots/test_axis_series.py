"""A metric along numbers is joined by lines; points over kinds, in no order, stand apart."""

import re
from collections.abc import Mapping
from dataclasses import replace

import pytest

from reports.analysis.axis_series import AxisSeries, coordinate_series
from reports.document import Drawing
from reports.plots import axis_series as module
from reports.plots.axis_series import axis_figure
from reports.plots.line_chart import LineChart, draw
from tests.reports import made_along
from tests.reports.conftest import known, series_of

TASK = "mqar_small"


def _series(titles: Mapping[str, str]) -> AxisSeries:
    sweep = made_along.recall()
    said = replace(sweep.about, part_titles={TASK: titles})
    (found,) = coordinate_series(said, series_of(sweep), TASK)
    return found


def _drawn(titles: Mapping[str, str]) -> Drawing:
    series = _series(titles)
    figure = axis_figure(series, series.lines[:3])
    assert figure is not None
    return figure


def _columns(figure: Drawing) -> set[str]:
    """Where points stand, from left to right; what stands beside names is not clipped."""
    clipped = re.findall(r'<g clip-path="[^"]*">\s*((?:<use [^>]*>\s*)+)', figure.svg)
    return set(re.findall(r' x="([0-9.]+)"', "".join(clipped)))


OF_BANDS = {"0"}  # where matplotlib may put the areas
KINDS = {"pairs": "what is asked", "pairs=4": "where it is", "pairs=8": "what it is"}


@pytest.mark.parametrize(
    ("titles", "has_kinds"),
    [
        ({}, False),
        ({"pairs": "pairs", "pairs=4": "1 to 4", "pairs=8": "5 to 8"}, False),
        ({"pairs": "what is asked", "pairs=4": "where it is"}, False),
        (KINDS, True),
    ],
)
def test_places_are_kinds_where_each_has_a_name_without_a_number(
    titles: dict[str, str], has_kinds: bool
) -> None:
    assert _series(titles).has_kinds is has_kinds


def test_points_of_kinds_are_not_joined_and_do_not_hide_each_other() -> None:
    joined, apart = _drawn({}), _drawn(KINDS)
    assert "bands their 95 % intervals" in joined.caption
    assert "bars their 95 % intervals" in apart.caption
    assert len(_columns(joined) - OF_BANDS) == 2
    assert joined.svg.count("fill-opacity") == 3
    assert len(_columns(apart)) == 2 * 3
    for name in ("where it is", "what it is"):
        assert name in apart.svg
        assert name not in joined.svg


def test_a_description_names_the_kinds() -> None:
    assert "at where it is" in _drawn(KINDS).svg


def test_what_was_asked_for_is_a_line_and_more_is_not_better(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In the unit of returns on both axes, whose least one is below zero."""
    sweep = made_along.asked()
    (series,) = coordinate_series(sweep.about, series_of(sweep), "corridor_mixed")
    assert series.places == (-0.1, 0.25, 0.5, 0.9)
    charts: list[LineChart] = []

    def noted(chart: LineChart) -> Drawing:
        charts.append(chart)
        return draw(chart)

    monkeypatch.setattr(module, "draw", noted)
    assert axis_figure(series, series.lines)
    _drawn({})
    chart, other = charts
    (wanted,) = chart.strokes
    assert (wanted.x, wanted.y) == ((-0.1, 0.9), (-0.1, 0.9))
    low, high = chart.y.limits
    assert known(low) < -0.1 < 0.9 < known(high)  # all of it is in the plot
    assert (chart.x.is_log, chart.y.is_log) == (False, False)
    assert "dashed" in chart.caption
    assert "better" not in chart.y.title
    assert "better" in other.y.title
    assert not other.strokes
    assert "dashed" not in other.caption
