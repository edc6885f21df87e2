"""Does every row of the mixers alone end up at its place, and nowhere else?"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from reports.growth import Growth, environments, find, growths
from reports.results.frame import results_frame
from reports.results.series import is_bound
from suite.schema import BASELINE_AGAIN, MIXER_ALONE, About, MetricSpec

SECONDS = MetricSpec(name="forward_seconds", unit="s", better="lower")
FLOPS = MetricSpec(name="forward_flops", unit="FLOP", better="lower")
AGAIN = MetricSpec(name=BASELINE_AGAIN, unit="1", better="none")


@pytest.fixture
def said(synthetic: ModuleType) -> About:
    found: About = synthetic.about(variants=("a", "b"), baseline="a")
    return found


@pytest.fixture
def row(synthetic: ModuleType, said: About) -> Any:
    def made(variant: str, spec: MetricSpec, at: str, value: float | None, **more: Any) -> dict:
        task = more.pop("task", MIXER_ALONE)
        fields = {"value": value, "at": at, "environment_id": "x", "seed": 0} | more
        return synthetic.row(said, variant, task, "mixer_time", spec, **fields)

    return made


def _one(found: tuple[Growth, ...], metric: str, **more: Any) -> Growth:
    growth = find(found, metric, **more)
    assert growth is not None
    return growth


def test_places_ascend_as_numbers_and_axes_are_apart(said: About, row: Any) -> None:
    rows = [row("a", SECONDS, at, 1.0) for at in ("length=1024", "length=64", "dim=128")]
    found = growths(said, results_frame(rows))
    assert [(g.axis, g.places) for g in found] == [("length", (64, 1024)), ("dim", (128,))]


def test_what_is_of_a_task_is_none(said: About, row: Any) -> None:
    rows = [
        row("a", SECONDS, "length=64", 1.0, task="majority"),
        row("a", SECONDS, "", 1.0),
    ]
    assert growths(said, results_frame(rows)) == ()


def test_a_noisy_number_counts_and_is_marked_a_failure_does_not(said: About, row: Any) -> None:
    rows = [
        row("a", SECONDS, "length=64", 3.0, seed=1, status="noisy", reason="±4 %"),
        row("a", SECONDS, "length=64", 1.0, seed=0),
        row("a", SECONDS, "length=64", None, seed=2, status="out_of_memory"),
        row("b", SECONDS, "length=64", 2.0, seed=0),
        *(row("b", SECONDS, "length=128", 2.0, seed=s, status="noisy") for s in (0, 1)),
        row("b", SECONDS, "length=128", 2.0, seed=2),
    ]
    growth = _one(growths(said, results_frame(rows)), "forward_seconds")
    assert growth.values("a", 64) == {0: 1.0, 1: 3.0}
    assert growth.point("a", 64) == 2.0
    assert not growth.is_noisy("a", 64), "one of three"
    assert not growth.is_noisy("b", 64)
    assert growth.is_noisy("b", 128), "two of three"
    assert len(growth.of("a", 64)) == 3
    assert growth.point("a", 128) is None
    assert growth.measured("a") == (64,)


def test_times_of_two_machines_are_two_growths_and_counts_are_one(said: About, row: Any) -> None:
    rows = [
        row("a", SECONDS, "length=64", 1.0, environment_id="y"),
        row("a", SECONDS, "length=64", 2.0, environment_id="x"),
        row("a", FLOPS, "length=64", 7.0, environment_id="x"),
        row("a", FLOPS, "length=64", 7.0, environment_id="y", trial_id="other"),
    ]
    found = growths(said, results_frame(rows))
    assert [(g.metric, g.environment_id) for g in found] == [
        ("forward_seconds", "x"), ("forward_seconds", "y"), ("forward_flops", ""),
    ]  # fmt: skip
    assert environments(found) == ("x", "y")
    assert _one(found, "forward_seconds", environment_id="y").point("a", 64) == 1.0
    assert _one(found, "forward_flops", environment_id="y").values("a", 64) == {0: 7.0}


def test_a_ratio_of_times_is_bound_to_its_machine_though_it_has_no_unit(
    said: About, row: Any
) -> None:
    rows = [row("a", AGAIN, "length=64", 1.0, environment_id=place) for place in ("x", "y")]
    found = growths(said, results_frame(rows))
    assert [g.environment_id for g in found] == ["x", "y"]


def test_what_was_skipped_stands_in_every_environment(said: About, row: Any) -> None:
    rows = [
        row("a", SECONDS, "length=64", 1.0),
        row("b", SECONDS, "length=64", None, status="skipped", reason="no", environment_id=""),
    ]
    growth = _one(growths(said, results_frame(rows)), "forward_seconds")
    assert [r.reason for r in growth.of("b", 64)] == ["no"]


def test_of_two_readings_of_a_process_the_better_stands(said: About, row: Any) -> None:
    rows = [
        row("a", SECONDS, "length=64", 9.0, status="noisy", trial_id="1"),
        row("a", SECONDS, "length=64", 1.0, trial_id="2"),
    ]
    growth = _one(growths(said, results_frame(rows)), "forward_seconds")
    assert growth.values("a", 64) == {0: 1.0}


def test_the_order_of_rows_does_not_matter_within_a_metric(said: About, row: Any) -> None:
    rows = [
        row(v, SECONDS, f"length={n}", n + s, seed=s, spread_low=1.0, spread_high=2.0)
        for v in "ab" for n in (64, 128) for s in range(3)
    ]  # fmt: skip
    forwards, backwards = (growths(said, results_frame(some)) for some in (rows, rows[::-1]))
    assert forwards == backwards
    assert [g.variants for g in forwards] == [("a", "b")]


@pytest.mark.parametrize(
    ("unit", "is_local"),
    [("s", True), ("B", True), ("FLOP/s", True), ("B/s", True), ("FLOP", False), ("1", False)],
)
def test_times_rates_and_memory_depend_on_the_machine(unit: str, is_local: bool) -> None:
    assert is_bound(unit) is is_local
