"""Test the columns of effective speedups, on a sweep whose losses follow known laws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import brentq

from bakeoff.reports.document import Column
from bakeoff.reports.results.series import Series
from bakeoff.reports.tables.comparison import comparison_table
from bakeoff.reports.tables.marks import PARTIAL, UNTOLD
from bakeoff.reports.tables.speedup import speedup_columns
from bakeoff.reports.view import Sweep
from tests.reports import made_speedup
from tests.reports.made_scaling_law import STEPS, TASK, num_parameters, sweep, true_loss

LSTM = [f"mixer=lstm, dim=32, steps={steps}" for steps in STEPS]
ALONG = [f"mixer=attention, dim=32, steps={steps}" for steps in STEPS]


def columns(of: Sweep, score: Series | None = None) -> list[Column]:
    (bits,) = (s for s in of.series if s.metric == "bits_per_character")
    return list(speedup_columns(of.about, of.series, score or bits, of.about.variants))


@pytest.mark.parametrize("variant", [*LSTM, "mixer=attention, dim=48, steps=500"])
def test_a_speedup_is_that_of_the_laws(variant: str) -> None:
    (column,) = columns(sweep(noise=1e-9))
    mixer, dim, steps = (part.split("=")[1] for part in variant.split(", "))
    loss, per_step = true_loss(mixer, int(dim), int(steps)), num_parameters(int(dim))
    ends = true_loss("attention", 32, STEPS[-1]), true_loss("attention", 32, STEPS[0])
    entry = column.entries[variant]
    if not ends[0] <= loss <= ends[1]:
        assert entry.text[0] in "≤≥"
        return
    needed = brentq(lambda s: true_loss("attention", 32, s) - loss, STEPS[0], STEPS[-1])
    truth = needed * num_parameters(32) / (int(steps) * per_step)
    assert entry.estimate.point == pytest.approx(truth, rel=0.01)
    assert not entry.text.startswith(("≤", "≥"))


def test_the_baselines_own_budgets_have_no_entry() -> None:
    (column,) = columns(sweep())
    assert {column.entries[variant].text for variant in ALONG} == {"–"}
    assert "4 budgets" in column.note


def test_the_table_of_the_task_has_the_column() -> None:
    made = sweep()
    keys = [c.key for c in comparison_table(made.about, made.series, TASK).columns]
    assert "speedup_in_flops" in keys


def test_there_is_no_column_without_a_curve_or_a_direction() -> None:
    made = sweep()
    (bits,) = (s for s in made.series if s.metric == "bits_per_character")
    assert not columns(made, replace(bits, better="none"))
    worse = replace(bits, better="higher")  # so that the baseline gets worse with each budget
    assert not columns(made, worse)
    kept = tuple(v for v in made.about.variants if not v.endswith(("=500", "=2000")))
    few = replace(made.about, variants=kept)
    assert not list(speedup_columns(few, made.series, bits, kept))


def test_an_interval_says_which_end_is_a_limit_and_how_it_compares_with_one() -> None:
    (column,) = columns(sweep(noise=0.002))
    entries = [entry for entry in column.entries.values() if entry.interval]
    assert entries
    for entry in entries:
        low, high = entry.estimate.low, entry.estimate.high
        assert low is not None
        assert high is not None
        start, end = entry.interval.split(", ")
        is_better, is_worse = low > 1 and "≤" not in start, high < 1 and "≥" not in end
        assert entry.tone == ("better" if is_better else "worse" if is_worse else "")
    assert any("≤" in entry.interval for entry in entries)


def _diverged(of: Sweep, variant: str, seeds: Sequence[int]) -> Sweep:
    rows = of.results.copy()
    lost = (rows["variant"] == variant) & (rows["probe"] == "quality") & rows["seed"].isin(seeds)
    rows.loc[lost, ["value", "status", "reason"]] = [float("nan"), "diverged", "nan"]
    return Sweep(about=of.about, results=rows, curves=of.curves)


def test_a_variant_of_which_seeds_diverged_is_marked_and_not_called_better() -> None:
    variant, made = LSTM[1], sweep(noise=1e-4)
    (whole,) = columns(made)
    assert (whole.entries[variant].marks, whole.entries[variant].tone) == ((), "better")
    (column,) = columns(_diverged(made, variant, [0]))
    assert (column.entries[variant].marks, column.entries[variant].tone) == ((PARTIAL,), "")
    assert column.entries[LSTM[2]].marks == ()


def test_a_budget_without_a_score_is_not_counted() -> None:
    (column,) = columns(_diverged(sweep(), ALONG[-1], [0, 1, 2]))
    assert "from 3 of 4 budgets" in column.note
    assert {column.entries[variant].tone for variant in LSTM} == {""}


def test_times_that_the_machine_does_not_resolve_are_marked() -> None:
    said = made_speedup.about(5, 4, counted_by="step_time")
    rng = np.random.default_rng(3)
    drawn = made_speedup.measured(rng, 5, speedup=1.15, noise=0.02, num_budgets=4, time_noise=0.01)
    scores, flops, times = drawn
    for resolution, tone, marks in ((0.0, "better", ()), (0.3, "", (UNTOLD,))):
        beside = (scores, flops, replace(times, resolution=resolution))
        in_flops, in_time = speedup_columns(said, beside, scores, said.variants)
        assert (in_flops.entries[made_speedup.MIXER].tone) == "better"
        entry = in_time.entries[made_speedup.MIXER]
        assert (entry.tone, entry.marks) == (tone, marks)
