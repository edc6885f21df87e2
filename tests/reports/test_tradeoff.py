"""Is quality set against the right time, and is the front the one that nothing beats?"""

from __future__ import annotations

import re
import statistics
from dataclasses import replace
from functools import cache
from types import ModuleType

import pytest

from reports.frame import Sweep
from reports.series import Series, all_series
from reports.tables import primary
from reports.tradeoff import pareto_front, tradeoff_figure
from suite.schema import About
from tests.reports import mixers_alone

TASK = "fashion_mnist_patches"


@cache
def _sweep() -> Sweep:
    return mixers_alone.sweep()


@cache
def _measured() -> tuple[Series, ...]:
    return all_series(_sweep().about, _sweep().results)


def _judged(task: str = TASK) -> Series:
    found = primary(_measured(), task)
    assert found is not None
    return found


def _svg(about: About, task: str = TASK) -> str:
    made = tradeoff_figure(about, _measured(), _judged(task))
    assert made is not None
    return made.svg


def _step(variant: str) -> float:
    rows = _sweep().results.query("metric == 'training_step_seconds' and task == @TASK")
    return statistics.median(rows[rows["variant"] == variant]["value"])


def test_the_front_holds_what_nothing_beats() -> None:
    places = {"fast": (1.0, 0.5), "slow": (4.0, 0.9), "beaten": (2.0, 0.4), "middle": (2.0, 0.7)}
    high = replace(_judged(), better="higher")
    assert pareto_front(places, high) == ["fast", "middle", "slow"]
    low = replace(_judged(), better="lower")
    assert pareto_front(places, low) == ["fast", "beaten"]
    assert pareto_front({"a": (1.0, 0.5), "b": (1.0, 0.5)}, high) == ["a"]


def test_time_is_steps_times_the_median_step() -> None:
    svg = _svg(_sweep().about)
    assert re.search(rf"mixer=lstm: 0\.8\d+ after {300 * _step('mixer=lstm'):.3g} s", svg)
    longer = mixers_alone.about(settings={"steps": 3000})
    assert f"after {3000 * _step('mixer=fnet'):.3g} s" in _svg(longer)


def test_steps_as_an_axis_are_the_variants_own() -> None:
    names = ("steps=100", "steps=900")
    series = {
        s.metric: replace(s, readings=dict(zip(names, s.readings.values(), strict=False)))
        for s in _measured()
        if s.task == TASK and s.metric in ("accuracy", "training_step_seconds")
    }
    about = mixers_alone.about(variants=names, baseline=names[0])
    made = tradeoff_figure(about, tuple(series.values()), series["accuracy"])
    assert made is not None
    assert f"after {900 * _step('kernel=materialised'):.3g} s" in made.svg


@pytest.mark.parametrize("task", mixers_alone.TASKS)
def test_every_seed_is_a_dot_and_every_skipped_variant_is_counted(task: str) -> None:
    made = tradeoff_figure(_sweep().about, _measured(), _judged(task))
    assert made is not None
    num_trained = 8 if task == TASK else 6
    assert len(re.findall(r"<use [^>]*fill: #ffffff[^>]*>", made.svg)) == 3 * num_trained
    assert ("2 of 8 variants lack one of the two." in made.caption) == (num_trained == 6)
    assert "on AMD EPYC 7B13 with 2 threads" in made.caption


def test_one_machine_only() -> None:
    """A second, slower one with fewer times changes nothing."""
    other = [
        replace(
            s, environment_id="other",
            readings={v: tuple(replace(r, value=9e9) for r in some[:1])
                      for v, some in s.readings.items()},
        )
        for s in _measured() if s.metric == "training_step_seconds"
    ]  # fmt: skip
    made = tradeoff_figure(_sweep().about, (*other, *_measured()), _judged())
    assert made is not None
    assert made.svg == _svg(_sweep().about)


def test_without_both_there_is_no_figure(synthetic: ModuleType) -> None:
    untimed = [s for s in _measured() if s.metric != "training_step_seconds"]
    assert tradeoff_figure(_sweep().about, untimed, _judged()) is None
    stepless = mixers_alone.about(settings={})
    assert tradeoff_figure(stepless, _measured(), _judged()) is None
    sweep = synthetic.sweep()
    one = synthetic.about(variants=("heads=8",))
    measured = all_series(one, sweep.results.query("variant == 'heads=8'"))
    judged = primary(measured, "majority")
    assert judged is not None
    assert tradeoff_figure(one, measured, judged) is None
