"""Test that lines, figures and tables along a number hold the numbers of the rows."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from bakeoff.reports.analysis.verdict import verdict
from bakeoff.reports.document import Drawing, Exhibit
from bakeoff.reports.export.printers import to_csv, to_latex
from bakeoff.reports.pages.ablation import page
from bakeoff.reports.plots.line_chart import LineChart, draw
from bakeoff.reports.plots.style import MAX_LINES
from bakeoff.reports.render import render
from bakeoff.reports.results.frame import curves_frame, results_frame
from bakeoff.reports.results.series import Series, all_series, compared
from bakeoff.reports.results.spoken_names import shown_name
from bakeoff.reports.sections import axis_series as module
from bakeoff.reports.sections.axis_series import (
    AxisSeries,
    axis_exhibits,
    axis_figure,
    coordinate_series,
    label_series,
)
from bakeoff.reports.tables.comparison import comparison_table, whole_coverage
from bakeoff.reports.view import Sweep
from bakeoff.suite.reporting.build import findings_of
from bakeoff.suite.schema import About, ClaimSpec, MetricSpec
from tests.reports import conftest as synthetic
from tests.reports import made_along
from tests.reports.conftest import ends, known, series_of, t_interval

TEXT = "shakespeare_characters"
_Find = Callable[[About, Sequence[Series], str], Iterator[AxisSeries]]


def _found(find: _Find, sweep: Sweep) -> list[AxisSeries]:
    measured = series_of(sweep)
    return list(find(sweep.about, measured, sweep.about.tasks[0]))


def _values(sweep: Sweep, variant: str, metric: str, at: str) -> np.ndarray:
    rows = sweep.results.query("variant == @variant and metric == @metric and `at` == @at")
    return rows.sort_values("seed")["value"].to_numpy()


def test_scores_at_lengths_run_from_the_trained_one() -> None:
    sweep = made_along.positions()
    (along,) = _found(coordinate_series, sweep)
    assert (along.axis, along.trained_at, along.row_title) == ("length", 128.0, "variant")
    assert along.places == (128.0, 256.0, 512.0, 1024.0)
    assert [line.variants[0] for line in along.lines] == list(sweep.about.variants)
    line = along.lines[2]
    for at, place in (("", 128.0), ("length=1024", 1024.0)):
        values = _values(sweep, line.variants[0], "bits_per_character", at)
        assert ends(line.at[place].estimate) == t_interval(values)
    assert not _found(label_series, sweep)


def test_where_variants_were_trained_at_lengths_of_their_own() -> None:
    """Check that each line starts at its own length and no line marks one for all."""
    sweep = made_along.positions()
    names = dict(zip(sweep.about.variants, ("length=64", "length=128"), strict=False))
    results = sweep.results[sweep.results["variant"].isin(names)]
    variants = tuple(names.values())
    said = replace(sweep.about, variants=variants, baseline="length=64", claim=None)
    moved = results.assign(variant=results["variant"].map(names).astype("str"))
    (along,) = _found(coordinate_series, Sweep(said, moved, curves_frame([])))
    assert along.trained_at is None
    assert [min(line.at) for line in along.lines] == [64.0, 128.0]


def test_scores_of_parts_stand_alone_and_for_each_mixer_by_width() -> None:
    sweep = made_along.recall()
    (by_pairs,) = _found(coordinate_series, sweep)
    assert (by_pairs.axis, by_pairs.places, by_pairs.trained_at) == ("pairs", (4.0, 8.0), None)
    by_width = _found(label_series, sweep)
    assert [(one.axis, one.of, one.row_title) for one in by_width] == [
        ("dim", "", "mixer"),
        ("dim", "pairs=4", "mixer"),
        ("dim", "pairs=8", "mixer"),
    ]
    conv = by_width[2].lines[1]
    expected = [
        _values(sweep, f"mixer=conv, dim={dim}", "accuracy", "pairs=8").mean()
        for dim in made_along.DIMS
    ]
    assert list(conv.points.values()) == pytest.approx(expected)
    assert [line.name for line in by_width[0].lines if line.is_baseline] == ["attention"]


def test_what_could_not_run_says_so_and_has_no_point() -> None:
    lstm = _found(label_series, made_along.recall())[0].lines[3]
    assert lstm.at[16.0].fate == "skipped"
    assert list(lstm.points) == [64.0, 128.0]


def test_a_lost_seed_marks_its_place_only() -> None:
    sweep = made_along.positions()
    is_lost = (sweep.results["seed"] == 1) & (sweep.results["at"] == "length=512")
    lost = sweep.results.assign(
        status=sweep.results["status"].where(~is_lost, "diverged"),
        value=sweep.results["value"].where(~is_lost, math.nan),
    )
    (along,) = _found(coordinate_series, Sweep(sweep.about, lost, sweep.curves))
    partial = {place for place, spot in along.lines[0].at.items() if spot.is_partial}
    assert partial == {512.0}
    assert along.lines[0].at[512.0].estimate.n == 2


def test_metrics_before_and_after_training_run_along_distances_or_labels() -> None:
    found = _found(coordinate_series, made_along.gradients())
    assert [(one.metric, one.axis) for one in found] == [
        ("initial_gradient_log10", "distance"),
        ("trained_gradient_log10", "distance"),
    ]
    assert found[0].places == tuple(map(float, made_along.DISTANCES))
    found = _found(label_series, made_along.scaling())
    assert [one.metric for one in found] == ["bits_per_character", *made_along.OF_SOFTMAX]
    assert {one.axis for one in found} == {"key_dim"}


def test_a_comparison_has_whole_scores_and_few_coordinates() -> None:
    """Coverage nevertheless counts every coordinate."""
    for sweep in made_along.every():
        measured = series_of(sweep)
        task = sweep.about.tasks[0]
        table = comparison_table(sweep.about, compared(measured), task)
        score = sweep.about.metrics[task]["quality"][0].name
        keys = [column.key for column in table.columns]
        assert keys[:2] == [score, f"{score}_difference"]
        assert not [key for key in keys if "pairs" in key or "distance" in key or "length" in key]
        runs = [variant for variant in sweep.about.variants if "lstm, dim=16" not in variant]
        covers = [row.coverage for row in table.rows if "skipped" not in row.coverage]
        assert covers == ["3 of 3"] * len(runs)
        assert whole_coverage(sweep.about, measured).num_total == len(sweep.results)


def test_what_is_written_is_compared_as_a_whole_and_drawn_by_part_and_by_beam() -> None:
    bleu = MetricSpec(name="written_bleu", unit="BLEU", better="higher")
    many = MetricSpec(name="num_sentences", unit="sentences", better="none")
    places = ("", "words=10", "words=20")
    about = synthetic.about(
        variants=tuple(f"cell={cell}, beam={k}" for cell in ("gru", "lstm") for k in (1, 4)),
        baseline="cell=gru, beam=1",
        tasks=("t",),
        probes=("written_scores",),
        metrics={"t": {"written_scores": (bleu, many)}},
    )
    rows = [
        synthetic.row(about, name, "t", "written_scores", spec, seed=0) | {"at": at, "value": 9.0}
        for name in about.variants
        for spec in (bleu, many)
        for at in places
    ]
    measured = all_series(about, results_frame(rows))
    whole = [("written_bleu", "")]  # numbers of sentences are shown with their parts
    assert [(each.metric, each.at) for each in compared(measured)] == whole
    (by_part,) = coordinate_series(about, measured, "t")
    assert (by_part.metric, by_part.axis, by_part.places) == ("written_bleu", "words", (10.0, 20.0))
    (by_beam,) = label_series(about, measured, "t")
    assert (by_beam.metric, by_beam.axis, by_beam.places) == ("written_bleu", "beam", (1.0, 4.0))


def test_a_page_compares_the_same_and_covers_it_all() -> None:
    sweep = made_along.positions()
    measured = series_of(sweep)
    shown = page(sweep, ["quick"])
    assert shown.findings[0].tables[0] == comparison_table(sweep.about, compared(measured), TEXT)
    assert shown.coverage == whole_coverage(sweep.about, measured)


def test_a_task_with_nothing_else_keeps_the_last_coordinate() -> None:
    sweep, probe = made_along.gradients(), "gradient_by_distance"
    metrics = {TEXT: {probe: sweep.about.metrics[TEXT][probe]}}
    said = replace(sweep.about, probes=(probe,), claim=None, metrics=metrics)
    measured = all_series(said, sweep.results[sweep.results["probe"] == probe])
    assert [(s.metric, s.at) for s in compared(measured)] == [
        ("initial_gradient_log10", "distance=127"),
        ("trained_gradient_log10", "distance=127"),
    ]
    table = comparison_table(said, compared(measured), TEXT)
    assert {row.coverage for row in table.rows} == {"3 of 3"}


@pytest.mark.parametrize("at", ["", "length=256", "length=1024"])
def test_a_claim_is_judged_at_its_coordinate(at: str) -> None:
    """Check that without a coordinate the whole score decides, whatever the lengths show."""
    sweep = made_along.positions()
    claim = ClaimSpec(
        statement="s",
        metric="bits_per_character",
        a="baseline",
        b="position=rope",
        by=0.0,
        source="",
        task=TEXT,
        at=at,
    )
    said = replace(sweep.about, claim=claim)
    judged = known(verdict(said, all_series(said, sweep.results)))
    a, b = (_values(sweep, v, "bits_per_character", at) for v in ("baseline", "position=rope"))
    assert judged.advantage.point == pytest.approx((b - a).mean())


def test_the_store_is_told_the_whole_scores() -> None:
    sweep = made_along.positions()
    told = findings_of(sweep).variants
    assert [each.variant for each in told] == list(sweep.about.variants)
    (alibi,) = (each.metrics for each in told if "alibi" in each.variant)
    wanted = _values(sweep, "position=alibi", "bits_per_character", "").mean()
    assert alibi["bits_per_character"] == pytest.approx(wanted)


def test_times_and_strange_coordinates_are_no_lines() -> None:
    timed = MetricSpec(name="seconds", unit="s", better="lower")
    odd = MetricSpec(name="odd", unit="1", better="none")
    said = synthetic.about(
        variants=("a", "b"),
        baseline="a",
        tasks=("t",),
        claim=None,
        probes=("p",),
        metrics={"t": {"p": (timed, odd)}},
    )
    places = [f"length={n}" for n in range(1, 9)]
    strange = ["", "x", "=1", "n=nan", "n=1=2", "a=1, b=2", "<b>=1", "n=1e999"]
    rows = [
        synthetic.row(said, v, "t", "p", spec, value=1.0, at=at)
        for v in "ab"
        for spec, ats in ((timed, places), (odd, strange))
        for at in ats
    ]
    measured = all_series(said, results_frame(rows))
    (only,) = coordinate_series(said, measured, "t")
    assert (only.axis, only.places) == ("<b>", (1.0,))
    assert len([s for s in compared(measured) if s.unit == "s"]) == len(places)


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
    """Return the x positions of the clipped points; markers next to names are not clipped."""
    clipped = re.findall(r'<g clip-path="[^"]*">\s*((?:<use [^>]*>\s*)+)', figure.svg)
    return set(re.findall(r' x="([0-9.]+)"', "".join(clipped)))


OF_BANDS = {"0"}  # matplotlib may put the areas there
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
    """Check that both axes have the unit of returns, whose minimum is below zero."""
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
    assert known(low) < -0.1 < 0.9 < known(high)  # all of the line is inside the plot
    assert (chart.x.is_log, chart.y.is_log) == (False, False)
    assert "dashed" in chart.caption
    assert "better" not in chart.y.title
    assert "better" in other.y.title
    assert not other.strokes
    assert "dashed" not in other.caption


@cache
def _sweep(name: str) -> Sweep:
    return getattr(made_along, name)()


@cache
def _exhibits(name: str) -> tuple[Exhibit, ...]:
    sweep = _sweep(name)
    measured = series_of(sweep)
    return tuple(axis_exhibits(sweep.about, measured, sweep.about.tasks[0]))


@pytest.mark.whole
def test_each_question_has_its_exhibit() -> None:
    assert {
        name: [e.title for e in _exhibits(name)]
        for name in ("positions", "recall", "gradients", "scaling")
    } == {
        "positions": ["Bits per character by test length"],
        "recall": ["Accuracy by width, for each mixer", "Accuracy by pairs to recall"],
        "gradients": ["Gradient by distance"],
        "scaling": [
            f"{what} by d_k, for each scale, score and temperature"
            for what in ("Bits per character", "Attention entropy", "Score gradient")
        ],
    }


@pytest.mark.whole
def test_before_and_after_training_are_two_views() -> None:
    (gradients,) = _exhibits("gradients")
    assert [view.title for view in gradients.views] == ["before training", "after training"]
    assert [len(view.drawings) for view in gradients.views] == [1, 1]
    assert len(gradients.folded) == 2
    by_width, by_pairs = _exhibits("recall")
    assert [view.title for view in by_width.views] == ["all together", "pairs 4", "pairs 8"]
    assert (len(by_pairs.drawings), len(by_pairs.views)) == (1, 0)


def test_a_figure_can_be_read_aloud_and_draws_every_line() -> None:
    sweep = _sweep("positions")
    (drawing,) = _exhibits("positions")[0].drawings
    described = ElementTree.fromstring(drawing.svg)[1].text or ""
    assert described.startswith("By test length (tokens). ")
    for variant in sweep.about.variants[1:]:
        name = shown_name(sweep.about, variant)
        assert re.search(rf"{name}: [\d.]+ bit at 128, .*[\d.]+ bit at 1,024", described)
    assert "trained at this length" not in described
    assert "thick line is the baseline" in drawing.caption
    assert "95 % intervals" in drawing.caption


def test_of_too_many_variants_those_of_the_baselines_width_are_drawn() -> None:
    assert len(_sweep("recall").about.variants) > MAX_LINES
    (drawing,) = _exhibits("recall")[1].drawings
    described = ElementTree.fromstring(drawing.svg)[1].text or ""
    assert described.count("width 64") == len(made_along.MIXERS)
    assert "dim=16" not in described
    assert "5 of 14 lines are drawn; the table contains all values." in drawing.caption
    assert "1 of 15 lines have no values." in drawing.caption


def test_nothing_is_not_drawn_to_scale() -> None:
    """Use a gradient of 0, stored as 1e-38, which would compress all other values."""
    (gradients,) = _exhibits("gradients")
    drawing = gradients.views[1].drawings[0]
    assert "below the range" in drawing.caption
    assert "-37.93 log10 at 127" in (ElementTree.fromstring(drawing.svg)[1].text or "")
    assert any("−37.93 stands for" in note for note in gradients.folded[1].footnotes)


def test_tables_have_the_numbers_of_the_rows() -> None:
    sweep = _sweep("scaling")
    table = _exhibits("scaling")[2].folded[0]
    assert (table.row_title, table.has_coverage) == ("scale, score, temperature", False)
    assert [column.title for column in table.columns] == [
        "d_k 8",
        "d_k 64",
        "d_k 512",
    ]
    plain, unscaled = table.rows[:2]
    assert (plain.name, plain.is_baseline) == ("as the baseline", True)
    assert plain.note == "scale 1/sqrt(d), score dot, temperature 1.0; holds the baseline"
    values = sweep.results.query(
        "variant == 'key_dim=512, scale=none' and metric == 'initial_score_gradient'"
    )["value"]
    entry = unscaled.entries[2]
    assert entry.estimate.point == pytest.approx(values.mean())
    assert entry.text == f"{values.mean():.3g}"  # three significant digits at any size
    assert entry.interval.startswith("[")
    assert not entry.tone
    assert str(values.mean())[:6] in to_csv(table)
    assert to_latex(table).isascii()


def test_a_place_without_a_number_says_what_became_of_it() -> None:
    table = _exhibits("recall")[0].folded[0]
    lstm = next(row for row in table.rows if row.name == "LSTM")
    assert lstm.entries[0].text == "skipped"
    pairs = _exhibits("recall")[1].folded[0]
    assert [row.name for row in pairs.rows] == list(_sweep("recall").about.variants)


@pytest.mark.slow
def test_a_page_holds_them_under_its_task_and_is_the_same_again(tmp_path: Path) -> None:
    shown = page(_sweep("recall"), ["quick"])
    names = [drawing.name for drawing in shown.all_drawings]
    assert len(set(names)) == len(names)
    files = [table.name for table in shown.all_tables]
    assert len(set(files)) == len(files)
    render("recall", [_sweep("recall")], tmp_path)
    text = (tmp_path / "recall/index.html").read_text()
    assert text.count("<svg") == len(names)
    for drawing in shown.findings[0].drawings:
        assert drawing.svg in text


def test_an_ordinary_sweep_has_none() -> None:
    sweep = synthetic.sweep()
    measured = series_of(sweep)
    for task in sweep.about.tasks:
        assert not list(axis_exhibits(sweep.about, measured, task))


@pytest.mark.whole
def test_so_many_rows_of_dots_are_left_to_the_lines() -> None:
    """Use 33 rows of dots, which are harder to read than lines by width."""
    labels = [f"mixer=m{m}, dim={d}" for m in range(11) for d in (16, 32, 64)]
    said = synthetic.about(
        variants=tuple(labels),
        baseline=labels[0],
        tasks=("t",),
        probes=("quality",),
        claim=None,
        metrics={"t": {"quality": (made_along.BITS,)}},
        num_seeds=1,
    )
    rows = [synthetic.row(said, v, "t", "quality", made_along.BITS, value=2.0) for v in labels]
    few = [row for row in rows if "m10" not in row["variant"]]
    for some, is_dotted in ((rows, False), (few, True)):
        names = [*dict.fromkeys(row["variant"] for row in some)]
        about = replace(said, variants=tuple(names))
        sweep = Sweep(about, results_frame(some), curves_frame([]))
        (section,) = page(sweep, ["quick"]).findings
        assert bool(section.exhibits[0].drawings) is is_dotted
        assert section.exhibits[1].title == "Bits per character by width, for each mixer"
