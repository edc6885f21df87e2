"""Test that the top of a page shows what the claim is about, and answers without a claim too."""

from __future__ import annotations

from dataclasses import replace
from statistics import fmean

import pytest

from bakeoff.reports.analysis.crossover import crossover
from bakeoff.reports.analysis.verdict import verdict
from bakeoff.reports.document import listed
from bakeoff.reports.pages.ablation import page
from bakeoff.reports.pages.answer import Answer, answer
from bakeoff.reports.pages.opening import MOST_DRAWN
from bakeoff.reports.pages.ranking import best_in_words
from bakeoff.reports.plots import scores
from bakeoff.reports.results.frame import curves_frame, results_frame
from bakeoff.reports.results.length_sweep import find
from bakeoff.reports.results.series import all_series, without_controls
from bakeoff.reports.results.spoken_names import shown_name
from bakeoff.reports.stats.intervals import mean_interval, paired_differences
from bakeoff.reports.tables.comparison import primary
from bakeoff.reports.view import Sweep, read_sweep
from bakeoff.suite.schema import MIXER_ALONE, ClaimSpec, MetricSpec
from tests.reports import conftest as synthetic
from tests.reports import mixers_alone, shipped
from tests.reports.conftest import known


@pytest.fixture(autouse=True)
def _unsaved(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace each figure by its description, which names its content."""
    monkeypatch.setattr(scores, "to_svg", lambda *_, description, **__: description)


def _answer(sweep: Sweep) -> Answer:
    measured = without_controls(all_series(sweep.about, sweep.results))
    return answer(sweep.about, measured, verdict(sweep.about, measured), sweep.growths)


def test_a_time_of_a_length_is_drawn_by_length_with_its_crossovers() -> None:
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
    sweep = replace(mixers_alone.whole(), about=mixers_alone.about(claim=claim))
    made = _answer(sweep)
    assert made.drawings[0].name == "mixer_alone-forward_seconds-ratio-by-length"
    assert made.sentence.startswith("Forward time at length 4,096 is ")
    assert made.finding.startswith("FNet is faster: ")
    rows = sweep.results
    here = (rows["metric"] == claim.metric) & (rows["at"] == claim.at)
    mean = rows[here & (rows["variant"] == claim.a)]["value"].mean()
    assert f" {1000 * mean:.3g} ms (FNet)" in made.sentence
    growth = known(find(sweep.growths, claim.metric, "length"))
    text = crossover(growth, "mixer=performer", "baseline").text.partition(" [")[0]
    assert f"Performer from {text} tokens on (" in made.sentence


def test_without_a_claim_the_best_score_of_the_first_task_answers() -> None:
    sweep = synthetic.sweep()
    made = _answer(replace(sweep, about=synthetic.about(claim=None)))
    assert made.sentence.startswith(
        "On shakespeare characters, no variant is significantly better than all others: 8 heads "
        "has the best mean bits per character, 2.4"
    )
    assert (
        made.finding
        == "This ablation makes no claim, so there is no verdict; see the confidence intervals."
    )
    assert (made.badge, made.outcome) == ("", "")
    assert made.drawings[0].name == "shakespeare_characters-bits_per_character-by-heads"


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
    drawn = made.drawings[0].svg.count(": ")
    assert drawn == MOST_DRAWN
    for variant in (a, b, many.about.baseline):
        assert f"{shown_name(many.about, variant)}: " in made.drawings[0].svg
    assert made.drawings[0].caption.endswith("10 of 300 variants are shown.")


def test_many_variants_that_differ_in_a_number_are_drawn_along_it_and_only_once() -> None:
    """Use the report on learning rates: three mixers, two numbers of steps, five rates."""
    home = shipped.FOLDER / "learning_rate"
    sweep = read_sweep(home / "results.parquet", home / "curves.parquet")
    assert len(sweep.about.variants) > MOST_DRAWN
    drawn = _answer(sweep).drawings[0]
    assert drawn.name.endswith("-by-learning_rate")
    exhibits = [each for part in page(sweep, ["quick"]).findings for each in part.exhibits]
    beneath = [drawing.name for each in exhibits for drawing in each.drawings]
    assert beneath
    assert drawn.name not in beneath


def test_without_results_there_is_a_sentence_and_no_figure() -> None:
    made = _answer(Sweep(synthetic.about(), results_frame([]), curves_frame([])))
    assert made.sentence == "The measurements cannot show whether 8 heads beat one."
    assert made.drawings == ()


def test_the_first_paragraph_has_both_means_and_the_claim_their_difference() -> None:
    sweep = synthetic.sweep()
    claim, made = known(sweep.about.claim), _answer(sweep)
    score = known(primary(sweep.measured, sweep.about.tasks[0]))
    ours, theirs = score.values(claim.a), score.values(claim.b)
    estimate = mean_interval(paired_differences(theirs, ours))
    assert f" {fmean(ours.values()):.3f} at 8" in made.sentence
    assert f" {fmean(theirs.values()):.3f} at 1" in made.sentence
    assert made.finding.startswith("8 heads beat one: ")
    assert f"{abs(known(estimate.point)):.4f} bit better (" in made.finding


def test_a_best_variant_is_named_only_if_it_beats_every_other_one() -> None:
    about = synthetic.about(claim=None)
    score = known(primary(all_series(about, synthetic.sweep().results), about.tasks[0]))
    means = {variant: fmean(score.values(variant).values()) for variant in about.variants}
    best = min(means, key=lambda variant: means[variant])
    lost = [variant for variant in means if score.seeds_diverged(variant)]
    others = [variant for variant in means if variant != best and variant not in lost]
    assert lost
    assert best not in lost
    alike = [
        variant
        for variant in others
        if not mean_interval(
            paired_differences(score.values(best), score.values(variant))
        ).excludes_zero
    ]
    ends = [f"does not differ significantly from {_spoken(alike)}"] if alike else []
    ends.append(f"is not compared with {_spoken(lost)}, of which seeds diverged")
    for baseline in about.variants:  # the baseline may be the best, too
        said = best_in_words(replace(about, baseline=baseline), score)
        assert "no variant is significantly better than all others" in said
        assert said.endswith(f"but {' and '.join(ends)}.")
        alone = [variant for variant in means if variant not in (*alike, *lost)]
        told = best_in_words(replace(about, baseline=alone[0], variants=tuple(alone)), score)
        assert f"{_spoken([best])} has the best bits per character" in told


def _spoken(variants: list[str]) -> str:
    numbers = [variant.partition("=")[2] for variant in variants]
    return listed([f"{number} head{'' if number == '1' else 's'}" for number in numbers])


def test_what_is_below_a_floor_is_never_the_best() -> None:
    about = synthetic.about(claim=None, floors={"shakespeare_characters": ("5-gram",)})
    score = known(primary(all_series(about, synthetic.sweep().results), about.tasks[0]))
    spec = MetricSpec(name=score.metric, unit=score.unit, better=score.better)
    metrics = {score.task: {"quality": (spec,), "floors": (spec,)}}
    reading = replace(score.of("heads=8")[0], value=1.0)
    floored = replace(score, readings={**score.readings, "5-gram": (reading,)})
    said = best_in_words(replace(about, metrics=metrics), floored)
    assert "no variant beats the floor 5-gram (1)" in said
    assert "nothing is said about which is better" in said
