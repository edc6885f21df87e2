"""Each view is taken at one budget, by the right scores, and says what it lacks."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from reports.document import Drawing, Exhibit, View
from reports.pages.budgets import budgets_exhibit
from reports.results.frame import Sweep, curves_frame, results_frame
from reports.tables.comparison import primary
from tests.reports import conftest as synthetic
from tests.reports.conftest import ends, entry, known, series_of, t_interval

TASK = "majority"
PER_STEP = 3 * 32 * 29_360_128.0
KINDS = ("equal steps", "equal FLOPs", "equal time")


@pytest.fixture(autouse=True)
def undrawn(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures have tests of their own, and take long; here only those that ask for `drawn`."""
    if "drawn" not in request.fixturenames:
        blank = Drawing(name="", title="", caption="", svg="")
        monkeypatch.setattr("reports.pages.budgets.curves_figure", lambda *_: blank)


@pytest.fixture
def drawn() -> None:
    """Asks for real figures."""


def _exhibit(sweep: Sweep, task: str = TASK) -> Exhibit:
    measured = series_of(sweep)
    return known(budgets_exhibit(sweep, measured, known(primary(measured, task))))


def _view(sweep: Sweep, title: str, task: str = TASK) -> View:
    (found,) = (view for view in _exhibit(sweep, task).views if view.title == title)
    return found


def _paced(**flops: float) -> Sweep:
    """The sweep, with these multiples of FLOPs a step."""
    sweep = synthetic.sweep(is_troubled=False)
    factors = sweep.curves["variant"].map(lambda v: flops.get(v.replace("=", "_"), 1.0))
    return replace(sweep, curves=sweep.curves.assign(flops=sweep.curves["flops"] * factors))


def _interpolated(sweep: Sweep, variant: str, column: str, budget: float) -> np.ndarray:
    """`[seeds]`: the validation score at the budget, by numpy from the rows."""
    rows = sweep.curves.query("variant == @variant and task == @TASK")
    return np.array([
        np.interp(budget, some[column], some["value"])
        for _, some in rows.sort_values("step").groupby("seed")
    ])  # fmt: skip


@pytest.mark.usefixtures("drawn")
def test_there_are_three_views_with_a_table_and_a_figure_each() -> None:
    exhibit = _exhibit(synthetic.sweep())
    assert tuple(view.title for view in exhibit.views) == KINDS
    assert all(len(view.tables) == len(view.drawings) == 1 for view in exhibit.views)
    names = [table.name for table in exhibit.all_tables]
    assert names == [f"{TASK}-at-equal-{kind}" for kind in ("steps", "flops", "time")]
    captions = [drawing.caption for drawing in exhibit.all_drawings]
    assert ["dotted line is the budget" in caption for caption in captions] == [False, True, True]
    assert len({drawing.name for drawing in exhibit.all_drawings}) == 3
    assert any("exploratory" in sentence for sentence in exhibit.sentences)


def test_equal_flops_are_the_least_that_a_variant_spent_in_all() -> None:
    sweep = _paced(heads_1=0.5, heads_16=1.3)
    budget = 0.5 * 297 * PER_STEP
    table = _view(sweep, "equal FLOPs").tables[0]
    for variant in ("heads=1", "heads=8", "heads=16"):
        expected = _interpolated(sweep, variant, "flops", budget)
        found = entry(table, variant, "validation_accuracy").estimate
        assert ends(found) == t_interval(expected)
    said = " ".join(_view(sweep, "equal FLOPs").sentences)
    assert "After 418.6 GFLOP of training" in said
    assert budget == pytest.approx(418.6e9, rel=1e-3)


def test_differences_are_paired_by_seed() -> None:
    sweep = _paced(heads_1=0.5)
    budget = 0.5 * 297 * PER_STEP
    a, b = (_interpolated(sweep, v, "flops", budget) for v in ("heads=1", "heads=8"))
    table = _view(sweep, "equal FLOPs").tables[0]
    found = entry(table, "heads=1", "validation_accuracy_difference")
    assert found.estimate.n == 3
    assert ends(found.estimate) == t_interval(a - b)
    is_worse = found.estimate.high < 0
    assert found.tone == ("better" if found.estimate.low > 0 else "worse" if is_worse else "")


def test_equal_time_is_steps_times_the_measured_step() -> None:
    sweep = synthetic.sweep(is_troubled=False)
    rows = sweep.results.query("metric == 'training_step_seconds' and task == @TASK")
    steps = rows.groupby("variant")["value"].median()
    budget = 297 * steps.min()
    table = _view(sweep, "equal time").tables[0]
    for variant in ("heads=1", "heads=16"):
        expected = _interpolated(sweep, variant, "step", budget / steps[variant]).mean()
        found = entry(table, variant, "validation_accuracy").estimate.point
        assert found == pytest.approx(expected)
        whole = entry(table, variant, "whole_training_seconds").estimate.point
        assert whole == pytest.approx(297 * steps[variant])
    assert "on AMD EPYC 7B13 with 1 thread" in " ".join(_view(sweep, "equal time").sentences)


def test_a_seed_that_diverged_neither_sets_the_budget_nor_vanishes() -> None:
    """heads=16 lost seed 1 after 112 steps; all others went to 297."""
    task = "shakespeare_characters"
    view = _view(synthetic.sweep(), "equal steps", task)
    assert "At 297 training steps" in view.sentences[0]
    found = entry(view.tables[0], "heads=16", "validation_bits_per_character")
    assert (found.estimate.n, found.text[-1]) == (2, "†")
    assert len(view.tables[0].footnotes) == 1


def test_who_lacks_something_is_a_row_that_says_so() -> None:
    sweep = synthetic.sweep()
    is_timed = sweep.results["probe"] == "step_time"
    results = sweep.results[~(is_timed & (sweep.results["variant"] == "heads=2"))]
    curves = sweep.curves.copy()
    curves.loc[curves["variant"] == "heads=4", "flops"] = math.nan
    curves = curves[curves["variant"] != "heads=1"]
    lacking = Sweep(sweep.about, results, curves)
    texts = {
        title: {row.name: row.entries[0].text for row in _view(lacking, title).tables[0].rows}
        for title in KINDS
    }
    assert texts["equal steps"]["heads=1"] == "no points"
    assert texts["equal time"]["heads=2"] == "not timed"
    assert texts["equal FLOPs"]["heads=4"] == "no FLOPs known"
    assert {some["heads=16"] for some in texts.values()} == {"skipped"}
    assert all(list(some) == list(synthetic.VARIANTS) for some in texts.values())


def test_where_steps_cost_the_same_the_view_says_that_it_adds_nothing() -> None:
    again = "so this is the view at equal steps again."
    assert _view(synthetic.sweep(), "equal FLOPs").sentences[-1].endswith(again)
    assert not _view(synthetic.sweep(), "equal time").sentences[-1].endswith(again)


def test_nothing_is_extrapolated_to_before_the_first_point() -> None:
    """heads=16 takes 100 times the FLOPs: the others are done before its first score."""
    table = _view(_paced(heads_16=100.0), "equal FLOPs").tables[0]
    found = entry(table, "heads=16", "validation_accuracy")
    assert (found.text, found.estimate.point) == ("no point by then", None)
    assert entry(table, "heads=16", "validation_accuracy_difference").text == "–"


def test_views_that_nobody_has_are_named() -> None:
    sweep = synthetic.sweep()
    untimed = sweep.results[sweep.results["probe"] != "step_time"]
    exhibit = _exhibit(Sweep(sweep.about, untimed, sweep.curves.assign(flops=math.nan)))
    assert [view.title for view in exhibit.views] == ["equal steps"]
    said = " ".join(exhibit.sentences)
    assert "none at equal FLOPs, since no mixer here has a formula" in said
    assert "none at equal time, since no training step was timed" in said


def test_one_seed_has_scores_and_no_interval() -> None:
    sweep = synthetic.sweep(is_troubled=False)
    first = [frame[frame["seed"] == 0] for frame in (sweep.results, sweep.curves)]
    about = replace(sweep.about, num_seeds=1)
    table = _view(Sweep(about, *first), "equal steps").tables[0]
    found = entry(table, "heads=1", "validation_accuracy")
    assert (found.estimate.n, found.interval) == (1, "")


def test_while_nothing_has_ended_there_are_only_figures() -> None:
    sweep = synthetic.sweep()
    exhibit = _exhibit(replace(sweep, results=results_frame([])))
    assert [len(view.tables) for view in exhibit.views] == [0, 0]  # nor is anything timed
    assert all("No seed has ended yet" in view.sentences[0] for view in exhibit.views)
    assert all(view.drawings for view in exhibit.views)


@pytest.mark.parametrize("is_empty", ["curves", "both"])
def test_without_curves_there_is_nothing(is_empty: str) -> None:
    sweep = synthetic.sweep()
    results = results_frame([]) if is_empty == "both" else sweep.results
    bare = Sweep(sweep.about, results, curves_frame([]))
    measured = series_of(bare)
    assert budgets_exhibit(bare, measured, known(primary(measured, TASK))) is None
