"""Test that a page opens with the figure that its title asks for, on the shipped reports."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache

import pytest

from bakeoff.reports.analysis.claim_data import evidence
from bakeoff.reports.pages.answer import Answer, answer
from bakeoff.reports.pages.gaps import gap
from bakeoff.reports.pages.opening import Opening, opening
from bakeoff.reports.stats.intervals import mean_interval, paired_differences
from bakeoff.reports.tables.comparison import comparison_table, primary
from bakeoff.reports.view import Sweep, read_sweep
from tests.reports import shipped
from tests.reports.conftest import known


@cache
def _sweep(name: str) -> Sweep:
    home = shipped.FOLDER / name
    return read_sweep(home / "results.parquet", home / "curves.parquet").in_order


@cache
def _opening(name: str, **changes: str) -> Opening:
    sweep = _sweep(name)
    about = replace(sweep.about, **changes)
    found = known(evidence(about, sweep.measured))
    sides = (found.claim.a, found.claim.b)
    return opening(about, sweep.measured, known(found.series), sides, sweep.growths)


@cache
def _answer(name: str) -> Answer:
    sweep = _sweep(name)
    return answer(sweep.about, sweep.measured, sweep.verdict, sweep.growths)


@pytest.mark.parametrize(
    ("name", "ends"),
    [
        ("heads", ("-by-heads",)),
        ("vision", ("-by-num_training_examples",)),
        ("scaling", ("-by-key_dim",)),
        ("beam", ("-by-beam",)),
        ("size", ("-by-multiple",)),
        ("recall", ("-by-dim",)),
        ("translation", ("-along-words",)),
        ("positions", ("-along-length",)),
        ("decisions", ("-along-asked",)),
        ("workspace", ("-along-objects",)),
        ("state", ("-for-state",)),
        ("delta_rule", ("-accuracy",)),
        ("complexity", ("forward_seconds-ratio-by-length",)),
        ("scaling_laws", ("-scaling-law",)),
        ("source_order", ("-by-is_source_reversed",)),
        ("pretraining", ("-by-several-axes",)),
        ("alignment", ("-bleu",)),
        (
            "gradients",
            ("trained_gradient_log10-along-distance", "initial_gradient_log10-along-distance"),
        ),
    ],
)
def test_the_figure_is_that_of_the_title(name: str, ends: tuple[str, ...]) -> None:
    names = [drawing.name for drawing in _opening(name).drawings]
    assert len(names) == len(ends)
    assert all(one.endswith(end) for one, end in zip(names, ends, strict=True)), names


def test_tasks_with_the_same_score_stand_side_by_side_above_what_is_saved() -> None:
    score, times = _opening("long_range").drawings
    assert "-by-task" in score.name
    assert "pathfinder small" in score.svg
    assert times.name == "mixer_alone-forward_backward_seconds-ratio-by-length"


def test_an_ablation_may_name_the_coordinate_of_its_figure() -> None:
    plain, asked = (
        _opening("robustness", opens_with=""),
        _opening("robustness", opens_with="by corruption"),
    )
    assert plain.drawings[0].name.endswith("-by-adversarial_steps")
    assert asked.drawings[0].name.endswith("-along-corruption")
    unknown = _opening("robustness", opens_with="by weather")
    assert unknown.drawings == plain.drawings


def test_every_point_of_a_figure_is_the_mean_of_its_variant() -> None:
    made = _opening("vision")
    along = known(made.along)
    assert [line.name for line in along.lines] == ["ResNet", "ViT", "Swin", "MLP-Mixer", "FNet"]
    for line in along.lines:
        for place, point in line.points.items():
            series, variant = known(made.at)[place][line.name]
            assert point == series.mean(variant).point
            assert f"num_training_examples={place:g}" in variant
            assert f"model={line.name}," in variant


def test_the_sentence_continues_the_claim_at_other_places() -> None:
    """A residual network is ahead with 1,000 images, and with 9,000."""
    series = known(known(evidence(_sweep("vision").about, _sweep("vision").measured)).series)
    a, b = (series.values(f"model={m}, num_training_examples=9000") for m in ("ResNet", "ViT"))
    there = mean_interval(paired_differences(a, b))
    expected = f"{there.point:.3f} better ({there.low:.3f} to {there.high:.3f})"
    assert f"at 9,000 training examples: {expected}" in _answer("vision").sentence


def test_a_gap_has_the_direction_of_its_metric() -> None:
    series = known(known(evidence(_sweep("heads").about, _sweep("heads").measured)).series)
    assert series.better == "lower"
    assert gap(series, "heads=8", "heads=1").is_better
    assert not gap(series, "heads=1", "heads=8").is_better
    assert " worse (" in gap(series, "heads=1", "heads=8").text


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("decisions", "Asked for 0.192, 0.383, 0.575 and 0.767, "),
        ("size", "better: width 128 by "),
        ("gradients", "Before training, the same comparison is "),
        ("cache", "No variant is shown to be better than a predictor without an architecture"),
        ("positions", "ALiBi against sinusoids at length 64: 0.056 bit worse ("),
    ],
)
def test_more_findings_stand_below_the_figure(name: str, part: str) -> None:
    assert part in " ".join(_answer(name).besides)


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("heads", "By heads, bits per character is 2.766 at 1, "),
        ("heads", "; the best is 4, not significantly different from 2 and 8."),
        ("hashing", "for full attention in training the best is full attention in evaluation ("),
        ("beam", "By written BLEU, for GRU with attention the best beam is 2 ("),
        ("beam", "No length penalty instead of the default length penalty: "),
        ("complexity", "LSTM from 305 tokens on (294 to 318)"),
        ("data_parallel", "26,400 (2 workers) against 20,100 (1 worker), 6,300 better (1,100 to "),
        ("data_parallel", "Model state size with 2 workers: 6.21 MiB at ZeRO 0"),
        ("decisions", "; asked for 0.192 and 0.767, the Decision Transformer got "),
        ("delta_rule", "worse: no convolution over keys and values by 0.8357 ("),
        ("gradients", "Initial gradient (log10) at distance 64 is "),
        ("linear_attention", "linear Transformer, FNet and S4D at every length."),
        ("masking", "better: 40 % masked by 0.062 (0.034 to 0.090); worse: "),
        ("budgets", "at equal steps is 2.649 (Mamba-2), 2.658 (LSTM), 2.754 (attention); "),
        ("budgets", "at equal time is 2.686 (LSTM), 2.729 (Mamba-2), 2.754 (attention); the first"),
        ("patch_positions", "the first does not differ significantly from learned positions."),
        ("positions", "Bits per character at length 512 is 2.6930 (Shaw), 2.805 (ALiBi), "),
        ("recall", "From width 32 to 64: "),
        ("long_range", "Accuracy on listops is 0.4138 with the baseline (attention); worse: "),
        ("long_range", "an architecture on movie reviews (TF-IDF, 0.7783), retrieval ("),
        ("pretraining", "; for 100 labels, 300 steps 0.122 against 0.081, no significant "),
        (
            "robustness",
            ": on clean ResNet (0.8737); on noise ViT (0.8231); on blur ResNet, trained ",
        ),
        (
            "robustness",
            "(0.727; not significantly different from ViT, trained on adversarial images)",
        ),
        ("budgets", "The order of the means changes with the equal budget, but no two are "),
        ("sampling", "Accuracy on mqar small is 0.9978 (soft attention), "),
        ("scaling", "; at d_k 64: 0.277 bit better ("),
        ("scaling", "; better at every d_k that was measured."),
        ("source_order", "; for LSTM with attention: no significant difference ("),
        ("state", "significantly from the best has 12.5 KiB (gated delta with 4 heads); "),
    ],
)
def test_the_first_paragraph_answers_all_parts_of_the_title(name: str, part: str) -> None:
    assert part in _answer(name).sentence


def test_a_ranking_stands_in_the_order_of_its_means() -> None:
    sweep = _sweep("patch_positions")
    score = known(primary(sweep.measured, sweep.about.tasks[0]))
    means = sorted(
        (known(score.mean(variant).point) for variant in sweep.about.variants), reverse=True
    )
    printed = re.findall(r"(0\.[0-9]+) \(", _answer("patch_positions").sentence)
    assert [float(text) for text in printed] == pytest.approx(means, abs=0.001)


@pytest.mark.parametrize("name", ["masking", "positions", "heads", "alignment", "windows"])
def test_no_number_of_the_claim_is_said_twice(name: str) -> None:
    made = _answer(name)
    one = re.compile(r"[0-9.]+ (?:bit )?(?:better|worse) \(|difference [+−]")
    said = [text for text in (made.sentence, made.finding) if one.search(text)]
    assert len(said) <= 1
    assert "Measured:" not in f"{made.sentence} {made.finding}"


def test_scores_that_two_metrics_share_have_one_column() -> None:
    """A captioner is scored by quality and by written_scores, on the same outputs."""
    sweep = _sweep("captioning")
    table = comparison_table(sweep.about, sweep.compared, "emoji_scenes")
    assert [column.title for column in table.columns].count("BLEU") == 1
    assert "written BLEU" not in [column.title for column in table.columns]
    assert "written BLEU has the same numbers as BLEU." in table.footnotes


def test_coordinates_are_in_the_order_of_their_numbers() -> None:
    every = [s for s in _sweep("heads").measured if s.at.startswith("learning_rate=")]
    rates = [float(one.at.partition("=")[2]) for one in every]
    assert len(rates) > 2
    assert rates == sorted(rates)
