"""Test that the top of a page shows what the claim is about, and answers without a claim too."""

from __future__ import annotations

from dataclasses import replace
from statistics import fmean

import pytest

from bakeoff.reports.analysis.verdict import verdict
from bakeoff.reports.pages.ablation import page
from bakeoff.reports.pages.answer import MOST_DRAWN, Answer, answer, best_in_words
from bakeoff.reports.plots import scores
from bakeoff.reports.results.frame import curves_frame, results_frame
from bakeoff.reports.results.series import all_series, without_controls
from bakeoff.reports.stats.intervals import mean_interval, paired_differences
from bakeoff.reports.tables.comparison import primary
from bakeoff.reports.view import Sweep, read_sweep
from bakeoff.suite.schema import MIXER_ALONE, ClaimSpec
from tests.reports import conftest as synthetic
from tests.reports import mixers_alone, shipped
from tests.reports.conftest import known


@pytest.fixture(autouse=True)
def _unsaved(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace each figure by its description, which names its content."""
    monkeypatch.setattr(scores, "to_svg", lambda *_, description, **__: description)


def _answer(sweep: Sweep) -> Answer:
    measured = without_controls(all_series(sweep.about, sweep.results))
    return answer(sweep.about, measured, verdict(sweep.about, measured))


def test_the_figure_is_of_the_claims_metric_at_its_coordinate() -> None:
    claim = ClaimSpec(
        statement="FNet is faster",
        metric="forward_seconds",
        a="mixer=fnet",
        b="baseline",
        by=0.0,
        source="",
        task=MIXER_ALONE,
        at="length=4096",
    )
    made = _answer(replace(mixers_alone.whole(), about=mixers_alone.about(claim=claim)))
    drawing = known(made.drawing)
    assert drawing.title == "Forward seconds on mixers alone, at length 4096"
    assert drawing.name == "mixer_alone-forward_seconds-length-4096"
    assert "Dots are processes" in drawing.caption
    rows = mixers_alone.whole().results
    here = (rows["metric"] == claim.metric) & (rows["at"] == claim.at)
    mean = rows[here & (rows["variant"] == claim.a)]["value"].mean()
    assert f"mixer=fnet: {mean:.4g}" in drawing.svg
    assert made.sentence == "FNet is faster."


def test_without_a_claim_the_best_score_of_the_first_task_answers() -> None:
    sweep = synthetic.sweep()
    made = _answer(replace(sweep, about=synthetic.about(claim=None)))
    assert made.sentence.startswith(
        "On shakespeare characters, heads=8 (baseline) has the best bits per character: 2.4"
    )
    assert (
        made.finding
        == "This ablation makes no claim, so there is no verdict; see the confidence intervals."
    )
    assert (made.badge, made.outcome) == ("", "")
    assert known(made.drawing).name == "shakespeare_characters-bits_per_character"


def test_at_smoke_nothing_is_best() -> None:
    sweep = synthetic.sweep("smoke")
    made = _answer(replace(sweep, about=synthetic.about("smoke", claim=None)))
    assert made.sentence.startswith("Models are hardly trained at this scale")


def test_of_many_variants_both_sides_and_the_baseline_are_drawn() -> None:
    many = synthetic.many()
    a, b = many.about.variants[77], many.about.variants[123]
    claim = ClaimSpec(
        statement="x", metric="accuracy", a=a, b=b, by=0.0, source="", task="majority"
    )
    made = _answer(replace(many, about=replace(many.about, claim=claim)))
    drawn = known(made.drawing).svg.count(": ")
    assert drawn == MOST_DRAWN
    for variant in (a, b, many.about.baseline):
        assert f"{variant}: " in known(made.drawing).svg
    assert known(made.drawing).caption.endswith("10 of 300 variants are shown.")


def test_many_variants_that_differ_in_a_number_are_drawn_along_it_and_only_once() -> None:
    """Use the report on learning rates: three mixers, two numbers of steps, five rates."""
    home = shipped.FOLDER / "learning_rate"
    sweep = read_sweep(home / "results.parquet", home / "curves.parquet")
    assert len(sweep.about.variants) > MOST_DRAWN
    drawn = known(_answer(sweep).drawing)
    assert drawn.name.endswith("-by-learning_rate")
    exhibits = [each for part in page(sweep, ["quick"]).findings for each in part.exhibits]
    beneath = [drawing.name for each in exhibits for drawing in each.drawings]
    assert beneath
    assert drawn.name not in beneath


def test_without_results_there_is_a_sentence_and_no_figure() -> None:
    made = _answer(Sweep(synthetic.about(), results_frame([]), curves_frame([])))
    assert made.sentence == "The measurements cannot show whether 8 heads beat one."
    assert made.drawing is None


def test_beside_a_verdict_on_scores_the_best_variant_is_named_whichever_it_is() -> None:
    sweep = synthetic.sweep()
    claim = known(sweep.about.claim)
    assert len(sweep.about.variants) > 2
    assert "has the best" in _answer(sweep).finding
    rows, curves = (
        frame[frame["variant"].isin([claim.a, claim.b])] for frame in (sweep.results, sweep.curves)
    )
    alone = synthetic.about(variants=(claim.a, claim.b))
    assert "has the best" not in _answer(Sweep(alone, rows, curves)).finding


def test_a_best_variant_that_is_not_told_apart_from_the_baseline_is_said_to_be_so() -> None:
    about = synthetic.about(claim=None)
    sweep = replace(synthetic.sweep(), about=about)
    score = known(primary(all_series(about, sweep.results), about.tasks[0]))
    best = min(about.variants, key=lambda variant: fmean(score.values(variant).values()))
    for baseline in about.variants:
        said = best_in_words(replace(about, baseline=baseline), score)
        differences = paired_differences(score.values(best), score.values(baseline))
        is_open = baseline != best and not mean_interval(differences).excludes_zero
        assert said.endswith("; the difference is not significant.") == is_open
