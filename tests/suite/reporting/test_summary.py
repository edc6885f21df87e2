"""Tests that the summary in the store agrees with the report."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import pytest

from bakeoff.reports.results.series import all_series, without_controls
from bakeoff.reports.tables.comparison import comparison_table
from bakeoff.reports.tables.marks import PARTIAL
from bakeoff.suite.planning.plan import plan
from bakeoff.suite.reporting import build
from bakeoff.suite.reporting.build import findings_of, summary_lines
from bakeoff.suite.reporting.frames import by_trial, sweep_of
from bakeoff.suite.schema import Measurement, Result, Status
from bakeoff.suite.spec import Model, vary
from tests.suite.finished_sweep import FinishedSweep
from tests.suite.heads_sweep import HEADS
from tests.suite.small_ablation import make_ablation


@pytest.fixture(scope="module")
def finished() -> FinishedSweep:
    return FinishedSweep("answered")


def test_a_verdict_and_a_mean_a_variant(finished: FinishedSweep) -> None:
    found = findings_of(sweep_of(finished.plan, by_trial(finished.results)))
    assert found.verdict == "supported"
    assert found.sentence.startswith("8 heads beat one: supported")
    assert [each.params for each in found.variants] == [
        {"heads": str(n), "variant": f"heads={n}", "task": "shakespeare_characters"}
        for n in (1, 2, 8)
    ]
    one, _, eight = found.variants
    half = 0.01 * 4.302652729749464 / math.sqrt(3)  # Student's t, 2 degrees of freedom
    wanted = {"": 2.71, "_low": 2.71 - half, "_high": 2.71 + half, "_difference": 0.2}
    shown = {end: one.metrics[f"bits_per_character{end}"] for end in wanted}
    assert shown == pytest.approx(wanted)
    assert one.metrics["num_seeds"] == 3
    assert "bits_per_character_difference" not in eight.metrics  # the baseline
    assert one.curve_metric == "validation_bits_per_character"
    means = [(step, 2.71 + 20 / (step + 10)) for step in (10, 20, 30, 40)]
    assert one.curve == tuple((step, pytest.approx(mean)) for step, mean in means)


def test_a_variant_without_a_number_has_no_mean(finished: FinishedSweep) -> None:
    results = [
        result
        if trial.subjects[0].knobs["heads"] == 1
        else replace(result, status=Status.OUT_OF_MEMORY, measurements=(), reason="too large")
        for trial, result in zip(finished.plan.trials, finished.results, strict=True)
    ]
    found = findings_of(sweep_of(finished.plan, by_trial(results)))
    one, *others = found.variants
    assert (one.coverage, one.metrics["bits_per_character"]) == ("3 of 3", pytest.approx(2.71))
    for each in others:
        assert (each.coverage, each.metrics) == ("0 of 3; 3 out of memory", {"num_seeds": 0})
    assert found.verdict == "invalid"


def test_the_end_of_a_run_shows_the_numbers_of_the_report(
    finished: FinishedSweep, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep = sweep_of(finished.plan, by_trial(finished.results))
    measured = without_controls(all_series(sweep.about, sweep.results))
    table = comparison_table(sweep.about, measured, sweep.about.tasks[0])
    head, *rows, rate, judged = summary_lines(sweep)
    assert head.startswith("answered, quick, shakespeare_characters  bits per character (bit)")
    assert [row.split()[0] for row in rows] == list(sweep.about.variants)
    assert rate.startswith("rate:      All variants share one learning rate, 0.001, which was not")
    assert judged == f"verdict:   {findings_of(sweep).sentence}"
    for line, row in zip(rows, table.rows, strict=True):
        assert [each for each in row.entries if f"{each.text} {each.interval}" in line]
    monkeypatch.setattr(build, "MOST_ROWS", 2)
    monkeypatch.setattr(build, "_FEWEST_ROWS", 1)
    _, best, second, more, *_ = summary_lines(sweep)
    assert best.startswith("heads=8 (baseline)")
    assert (second[:7], more) == ("heads=2", "... and 1 more in the report")
    nothing = sweep_of(finished.plan, {})
    assert list(summary_lines(nothing)) == []


def test_on_a_narrow_terminal_each_number_has_a_line(
    finished: FinishedSweep, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep = sweep_of(finished.plan, by_trial(finished.results))
    wide = list(summary_lines(sweep))
    monkeypatch.setattr(build, "terminal_width", lambda: 40)
    narrow = list(summary_lines(sweep))
    assert narrow[0] == "answered, quick, shakespeare_characters"
    assert narrow[1] == "  heads=1"
    for line in wide[1:4]:
        for cell in re.split(r"  +", line):
            assert any(each.strip().endswith(cell) for each in narrow)
    monkeypatch.setattr(build, "terminal_width", lambda: 200)
    assert list(summary_lines(sweep)) == wide


def test_without_a_claim_there_is_no_verdict(finished: FinishedSweep) -> None:
    sweep = sweep_of(finished.plan, by_trial(finished.results))
    found = findings_of(replace(sweep, about=replace(sweep.about, claim=None)))
    assert (found.verdict, found.sentence) == ("", "")
    assert len(found.variants) == 3


def test_the_end_of_a_run_explains_its_marks(finished: FinishedSweep) -> None:
    first, *others = finished.results
    lost = replace(first, status=Status.DIVERGED, measurements=(), reason="the loss is nan")
    lines = list(summary_lines(sweep_of(finished.plan, by_trial([lost, *others]))))
    assert any("†" in line and "2 of 3; 1 diverged" in line for line in lines)
    assert f"{PARTIAL.sign} {PARTIAL.meaning}" in lines


def test_the_end_of_a_run_says_from_which_length_a_mixer_is_faster() -> None:
    """Use times of n^2 / 32 and of n, with a little noise, which are equal at n = 32."""
    ablation = make_ablation(
        axes=[vary("mixer", ["attention", "fnet"])],
        baseline=Model(mixer="attention"),
        probes=["mixer_time"],
        scale={"lengths": [8, 16, 64, 128]},
    )
    planned = plan(ablation, seeds=3)
    results = [
        Result(
            trial_id=trial.trial_id,
            status=Status.OK,
            seconds=1.0,
            provenance=HEADS.place,
            measurements=tuple(
                Measurement(
                    metric="forward_seconds",
                    unit="s",
                    better="lower",
                    subject=index,
                    value=seconds * (1 + 0.05 * (trial.seed - 1) * index),
                )
                for index, seconds in enumerate((trial.length**2 / 32e6, trial.length / 1e6))
            ),
        )
        for trial in planned.trials
    ]
    (line,) = summary_lines(sweep_of(planned, by_trial(results)))
    begin = "crossover: mixer=fnet against mixer=attention: forward faster from "
    assert line.startswith(begin)
    place, low, high = (float(number) for number in re.findall(r"[\d.]+", line[len(begin) :]))
    assert low < place < high
    assert place == pytest.approx(32, rel=0.05)
