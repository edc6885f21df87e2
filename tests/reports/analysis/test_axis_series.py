"""Lines along a number are those of the rows, and a comparison keeps the whole scores."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest

from reports.analysis.axis_series import AxisSeries, coordinate_series, label_series
from reports.analysis.verdict import verdict
from reports.pages.ablation import page
from reports.results.frame import curves_frame, results_frame
from reports.results.series import Series, all_series, compared
from reports.tables.comparison import comparison_table, whole_coverage
from reports.view import Sweep
from suite.reporting.build import findings_of
from suite.schema import About, ClaimSpec, MetricSpec
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
    """Each starts at its own, and no line marks one for all."""
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
    assert [line.name for line in by_width[0].lines if line.is_baseline] == ["mixer=attention"]


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
    """Coverage counts every coordinate nevertheless."""
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
    whole = [("written_bleu", "")]  # numbers of sentences stand beside their parts
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
    """Without one: by the whole score, whatever the lengths say."""
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
