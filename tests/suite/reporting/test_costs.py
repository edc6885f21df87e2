"""Tests for the costs of trials by variant: hours and joules, and a price on the page."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from bakeoff.reports.render import render
from bakeoff.reports.view import read_sweep
from bakeoff.suite.planning.plan import plan
from bakeoff.suite.reporting.build import at_price
from bakeoff.suite.reporting.costs import SEVERAL, costs_of
from bakeoff.suite.reporting.frames import by_trial, sweep_of
from bakeoff.suite.schema import Parallel, Plan, Price, Result, Status
from bakeoff.suite.spec import vary
from tests.suite.finished_sweep import FinishedSweep
from tests.suite.heads_sweep import HEADS
from tests.suite.small_ablation import make_ablation

ON_HALF_A_CARD = replace(HEADS.place, num_gpus=0.5)


def took(trial_id: str, seconds: float, joules: float | None) -> Result:
    return Result(
        trial_id=trial_id,
        status=Status.OK,
        provenance=ON_HALF_A_CARD,
        seconds=seconds,
        joules=joules,
    )


def test_a_variant_has_its_own_trials_and_what_several_share_stands_apart() -> None:
    axes = [vary("heads", [1, 4])]
    planned = plan(make_ablation(axes=axes, probes=["quality", "floors", "step_time"]), seeds=2)
    own = [t for t in planned.trials if t.probe == "quality"]
    timing = next(t for t in planned.trials if t.probe == "step_time")
    floors = next(t for t in planned.trials if t.probe == "floors")
    results = [
        *(took(t.trial_id, 3600.0, 5.0 if t.seed else None) for t in own),
        took(timing.trial_id, 7200.0, 8.0),
        took(floors.trial_id, 1800.0, None),
    ]
    found = {each.name: each for each in costs_of(planned, by_trial(results))}
    assert list(found) == [*planned.about.variants, "floors", SEVERAL]
    for variant in planned.about.variants:
        one = found[variant]
        assert (one.num_trials, one.cpu_hours, one.gpu_hours) == (2, 2.0, 1.0)
        assert (one.joules, one.num_told) == (5.0, 1)
    assert (found[SEVERAL].gpu_hours, found[SEVERAL].joules) == (2.0, 8.0)  # the whole card
    assert (found["floors"].gpu_hours, found["floors"].joules) == (0.25, None)
    without = replace(planned, cells=tuple(c for c in planned.cells if c.probe == "quality"))
    assert {each.name for each in costs_of(without, by_trial(results[:4]))} == {
        *planned.about.variants
    }  # an earlier edition is judged this way


def test_all_workers_of_a_trial_hold_what_it_asks_for() -> None:
    planned = FinishedSweep("heads").plan
    first = planned.trials[0]
    four = Parallel(workers=4, zero=0, precision="float32", accumulation=1)
    changed = replace(planned, trials=(replace(first, parallel=four),))
    cells = tuple(replace(c, trial_id=changed.trials[0].trial_id) for c in planned.cells[:1])
    result = took(changed.trials[0].trial_id, 900.0, None)
    (one,) = costs_of(replace(changed, cells=cells), by_trial([result]))
    assert (one.cpu_hours, one.gpu_hours) == (1.0, 0.5)


def page_of(planned: Plan, results: Sequence[Result], price: Price | None, home: Path) -> str:
    """Return the page as Markdown; check that it is the same if rendered from its own frames."""
    sweeps = {"heads": [sweep_of(planned, by_trial(results))]}
    made = render("heads", at_price(sweeps, price)["heads"] if price else sweeps["heads"], home)
    text = made.with_name("report.md").read_text()
    folder = made.parent
    sweep = read_sweep(folder / "results.parquet", folder / "curves.parquet")
    assert render("heads", [sweep], home / "again").with_name("report.md").read_text() == text
    return text


@pytest.mark.whole
def test_the_page_says_hours_energy_and_money(tmp_path: Path) -> None:
    """Render nine trials of 24 minutes on half a card, one without joules."""
    sweep = FinishedSweep("heads")
    results = [
        replace(result, provenance=ON_HALF_A_CARD, seconds=1440.0, joules=150e3 if seen else None)
        for seen, result in enumerate(sweep.results)
    ]
    text = page_of(sweep.plan, results, Price(amount=2.5, currency="€"), tmp_path)
    assert "| GPU-hours | energy (kWh) | at 2.5 a GPU-hour (€) |" in text
    assert "| 1 head | 3 | 1.200 | 0.6000 | 0.08333 (of 2 of 3 trials) | 1.50 |" in text
    assert "| 8 heads | 3 | 1.200 | 0.6000 | 0.1250 | 1.50 |" in text
    assert "| all trials | 9 | 3.600 | 1.800 | 0.3333 (of 8 of 9 trials) | 4.50 |" in text
    cheap = page_of(sweep.plan, results, Price(amount=0.01, currency="€"), tmp_path)
    assert "| 8 heads | 3 | 1.200 | 0.6000 | 0.1250 | less than 0.01 |" in cheap
    with (tmp_path / "heads/tables/costs.csv").open(newline="") as file:
        *_, total = csv.DictReader(file)
    assert float(total["energy (J)"]) == pytest.approx(8 * 150e3)


@pytest.mark.whole
def test_a_sweep_without_a_gpu_says_nothing_of_costs(tmp_path: Path) -> None:
    sweep = FinishedSweep("heads")
    assert sweep_of(sweep.plan, by_trial(sweep.results)).about.costs == ()
    assert "Cost" not in page_of(sweep.plan, sweep.results, None, tmp_path)
