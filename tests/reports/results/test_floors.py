"""Test that floors are in tables and figures and change nothing else there."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from matplotlib.figure import Figure

from bakeoff.reports.compare import Selection, compare_selections
from bakeoff.reports.document import Drawing, ReportTable
from bakeoff.reports.export.printers import to_csv, to_latex, to_markdown
from bakeoff.reports.pages.ablation import page
from bakeoff.reports.pages.failures import failure_groups
from bakeoff.reports.plots import scores
from bakeoff.reports.plots.scores import score_figure
from bakeoff.reports.plots.style import drawing_style
from bakeoff.reports.render import render
from bakeoff.reports.results.frame import FrameError, about_from_json, about_to_json, results_frame
from bakeoff.reports.results.series import Series, without_controls
from bakeoff.reports.tables.comparison import comparison_table, primary
from bakeoff.reports.view import Sweep
from bakeoff.suite.schema import About
from tests.reports import conftest as synthetic
from tests.reports.conftest import known, series_of

TASK = "shakespeare_characters"
FLOORS = {"uniform": 6.340, "unigram": 4.801, "3-gram": 3.50, "5-gram": 2.40}


def _about(floors: tuple[str, ...] = tuple(FLOORS)) -> About:
    said: About = synthetic.about()
    metrics = {**said.metrics, TASK: {**said.metrics[TASK], "floors": (synthetic.BITS,)}}
    return replace(said, probes=(*said.probes, "floors"), metrics=metrics, floors={TASK: floors})


def _with_floors(values: dict[str, Any] | None = None, **of_one: Any) -> Sweep:
    """Return the synthetic sweep with floors for one task; `of_one` changes the last row."""
    shown = values or FLOORS
    plain, said = synthetic.sweep(), _about(tuple(shown))
    rows = [
        synthetic.row(said, label, TASK, "floors", synthetic.BITS, value=value, trial_id="floors")
        for label, value in shown.items()
    ]
    rows[-1] |= of_one
    kept = [
        {name: None if value != value else value for name, value in row.items()}
        for row in plain.results.to_dict("records")
    ]
    return Sweep(about=said, results=results_frame([*rows, *kept]), curves=plain.curves)


def _measured(sweep: Sweep) -> tuple[Series, ...]:
    return without_controls(series_of(sweep))


def _table(sweep: Sweep, task: str = TASK) -> ReportTable:
    return comparison_table(sweep.about, _measured(sweep), task)


def test_a_table_ends_with_its_floors() -> None:
    table = _table(_with_floors())
    assert [row.name for row in table.rows] == [*synthetic.VARIANTS, *FLOORS]
    assert [row.is_floor for row in table.rows] == [False] * 5 + [True] * 4
    last = table.rows[-1]
    assert (last.note, last.coverage) == ("floor", "1 of 1")
    score, change, *others = last.entries
    assert score.text == "2.400"
    mean = known(table.rows[3].entries[0].estimate.point)
    assert change.estimate.point == pytest.approx(2.40 - mean)
    assert (change.interval, change.tone, change.note) == ("", "", "")
    assert change.text.startswith("−0.0")
    assert {entry.text for entry in others} == {"–"}
    assert any("Floors need no architecture" in note for note in table.footnotes)
    other = _table(_with_floors(), "majority")  # a task without floors
    assert not any(row.is_floor for row in other.rows)
    assert not any("loors" in note for note in other.footnotes)


@pytest.mark.slow
def test_floors_change_nothing_of_the_variants() -> None:
    """Use a distant floor, which would widen a mean, an interval, or the number of digits."""
    plain = synthetic.sweep()
    with_floors = _with_floors({**FLOORS, "5-gram": 3.0})
    assert _table(with_floors).rows[:5] == _table(plain).rows
    one, other = page(with_floors, ["quick"]), page(plain, ["quick"])
    assert one.coverage.num_ok == other.coverage.num_ok + 4
    assert one.coverage.num_total == other.coverage.num_total + 4
    plain = [replace(each.answer, drawings=(), besides=()) for each in (one, other)]
    assert plain[0] == plain[1]
    besides = [said for said in one.answer.besides if "without an architecture" not in said]
    assert besides == [*other.answer.besides]
    assert [s.exhibits[1:] for s in one.findings] == [s.exhibits[1:] for s in other.findings]


def test_a_skipped_floor_says_why() -> None:
    sweep = _with_floors(value=None, status="skipped", reason="no library")
    table = _table(sweep)
    assert table.rows[-1].coverage == "skipped: no library"
    assert table.rows[-1].entries[0].text == "skipped"
    assert table.rows[-1].entries[1].text == "–"
    (told,) = (t for t in failure_groups(sweep.about, _measured(sweep)) if t.probe == "floors")
    assert (told.variants, told.fate, told.reason) == (("5-gram",), "skipped", "no library")


def test_floors_that_are_not_yet_measured_are_missing() -> None:
    sweep = replace(synthetic.sweep(), about=_about())
    assert {row.coverage for row in _table(sweep).rows[-4:]} == {"0 of 1; 1 missing"}
    (told,) = (t for t in failure_groups(sweep.about, _measured(sweep)) if t.probe == "floors")
    assert (told.variants, told.fate, told.seeds) == (tuple(FLOORS), "missing", (0,))
    assert _figure(sweep) is not None


def test_files_say_which_rows_are_floors() -> None:
    table = _table(_with_floors())
    rows = list(csv.DictReader(io.StringIO(to_csv(table))))
    assert [row["is_floor"] for row in rows] == ["no"] * 5 + ["yes"] * 4
    assert [row["is_baseline"] for row in rows][5:] == ["no"] * 4
    assert "| 5-gram (floor) | 2.400 |" in to_markdown(table)
    latex = to_latex(table).splitlines()
    first = next(i for i, line in enumerate(latex) if line.startswith("uniform (floor)"))
    assert latex[first - 1] == r"\midrule"
    assert latex.count(r"\midrule") == 2
    assert "is_floor" not in to_csv(_table(synthetic.sweep()))


def test_floors_are_among_the_first_of_very_many_rows() -> None:
    table = _table(_with_floors())
    variants = [replace(row, name=f"v={i}") for i in range(400) for row in table.rows[:1]]
    shown = to_markdown(replace(table, rows=(*variants, *table.rows[3:])))
    assert "| 5-gram (floor) |" in shown
    assert "305 of 406 rows are shown" in shown


@pytest.mark.whole
def test_a_page_shows_them_apart_and_is_the_same_in_any_order(tmp_path: Path) -> None:
    sweep = _with_floors()
    assert render("heads", [sweep], tmp_path).read_text().count('class="is-floor"') == 4
    shuffled = replace(sweep, results=sweep.results.sample(frac=1, random_state=1))
    assert _table(shuffled) == _table(sweep)
    assert _figure(shuffled) == _figure(sweep)


def test_a_floor_that_is_not_announced_is_refused() -> None:
    sweep = _with_floors()
    with pytest.raises(FrameError, match="variant '3-gram' is not known"):
        replace(sweep, about=synthetic.about())


def test_what_was_said_before_there_were_floors_still_loads() -> None:
    old = json.loads(about_to_json(synthetic.about()))
    assert old.pop("floors") == {}
    assert about_from_json(json.dumps(old)) == synthetic.about()


def test_two_selections_with_floors_are_compared() -> None:
    a, b = (
        Selection(name=name, title=name, about=sweep.about, results=sweep.results)
        for name, sweep in (("a", synthetic.sweep()), ("b", _with_floors()))
    )
    only = [c.key["variant"] for c in compare_selections(a, b) if c.outcome == "only in B"]
    assert set(only) == set(FLOORS)
    of_floors = [c for c in compare_selections(b, b) if c.key["variant"] in FLOORS]
    assert [(c.key["variant"], c.is_certain) for c in of_floors] == [(f, False) for f in FLOORS]


def _figure(sweep: Sweep) -> Drawing | None:
    return score_figure(sweep.about, known(primary(_measured(sweep), TASK)))


def test_a_figure_draws_near_floors_and_names_far_ones() -> None:
    drawing = known(_figure(_with_floors()))
    ET.fromstring(drawing.svg)
    assert "Dotted lines are floors" in drawing.caption
    assert "5-gram: 2.4 bit" in drawing.svg
    dotted = re.findall(r"stroke-dasharray: 1\.1[^;]*", drawing.svg)
    # 5-gram, at 2.40; the others are beyond three times the range of the variants
    assert len(dotted) == 1
    assert "floors" not in known(_figure(synthetic.sweep())).caption


@pytest.mark.parametrize("value", [2.0, 2.41, 2.45, 1e6, -1e6, 0.0])
def test_the_variants_keep_a_third_of_the_figure(value: float) -> None:
    low, high = scores._limits(2.40, 2.50, [value, 2.52])
    assert low <= 2.40 < 2.52 <= high
    assert 0.1 / (high - low) >= 1 / 3 - 1e-9


def test_names_of_floors_never_overlap() -> None:
    """Compare the bounding boxes of the drawn texts, in points."""
    close = {"uniform": 2.431, "majority": 2.43, "Nadaraya-Watson": 2.429, "TF-IDF": 9.0, "m": 8.0}
    sweep = _with_floors(close)
    series = next(s for s in _measured(sweep) if s.task == TASK and s.is_score)
    with drawing_style():
        figure = Figure(figsize=(7.2, 3), layout="constrained")
        axes = figure.add_subplot()
        axes.set_xlim(2.4, 2.5)
        axes.set_yticks([0], ["n" * 44])  # the longest name of a variant
        scores.draw_floors(axes, series, tuple(close))
        figure.draw_without_rendering()
        boxes = [text.get_window_extent() for text in axes.texts]
    assert len(boxes) == 5
    for index, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[:index])
        assert box.x0 >= figure.bbox.x0
        assert box.x1 <= figure.bbox.x1


def test_many_floors_take_no_room_from_the_variants() -> None:
    """Check that each distant floor has its own line and the figure grows from the third on."""
    few, many = (
        known(_figure(_with_floors({f"floor {n}": 9.0 + n for n in range(count)})))
        for count in (2, 5)
    )
    heights = [
        float(known(ET.fromstring(each.svg).get("height")).removesuffix("pt"))
        for each in (few, many)
    ]
    assert heights[1] - heights[0] == pytest.approx(3 * 11.0, abs=0.5)
