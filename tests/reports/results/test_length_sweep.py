"""Test that every row of the mixers alone is found at its place and only there."""

from __future__ import annotations

import math
from typing import Any

import pytest

from bakeoff.reports.results.frame import results_frame
from bakeoff.reports.results.length_sweep import Growth, find, growths, measured_in, place_label
from bakeoff.reports.results.series import is_bound
from bakeoff.suite.schema import BASELINE_AGAIN, MIXER_ALONE, MetricSpec
from tests.reports import conftest as synthetic

SECONDS = MetricSpec(name="forward_seconds", unit="s", better="lower")
FLOPS = MetricSpec(name="forward_flops", unit="FLOP", better="lower")
AGAIN = MetricSpec(name=BASELINE_AGAIN, unit="1", better="none")


def grown(*rows: tuple[Any, ...]) -> tuple[Growth, ...]:
    """Return growths from rows of variant, metric, coordinate, value and other fields."""
    about = synthetic.about(variants=("a", "b"), baseline="a")
    frame = []
    for variant, spec, at, value, *more in rows:
        fields = {"value": value, "at": at, "environment_id": "x", **dict(*more)}
        task = fields.pop("task", MIXER_ALONE)
        frame.append(synthetic.row(about, variant, task, "mixer_time", spec, **fields))
    return growths(about, results_frame(frame))


def test_places_ascend_as_numbers_and_axes_are_apart() -> None:
    found = grown(*(("a", SECONDS, at, 1.0) for at in ("length=1024", "length=64", "dim=128")))
    assert [(g.axis, g.places) for g in found] == [("length", (64, 1024)), ("dim", (128,))]


def test_what_is_of_a_task_or_has_no_place_is_left_out() -> None:
    of_task = ("a", SECONDS, "length=64", 1.0, {"task": "majority"})
    assert grown(of_task, ("a", SECONDS, "", 1.0)) == ()


def test_a_noisy_number_counts_and_is_marked_a_failure_does_not() -> None:
    (growth,) = grown(
        ("a", SECONDS, "length=64", 3.0, {"seed": 1, "status": "noisy", "reason": "±4 %"}),
        ("a", SECONDS, "length=64", 1.0),
        ("a", SECONDS, "length=64", None, {"seed": 2, "status": "out_of_memory"}),
        ("b", SECONDS, "length=64", 2.0),
        *(("b", SECONDS, "length=128", 2.0, {"seed": s, "status": "noisy"}) for s in (0, 1)),
        ("b", SECONDS, "length=128", 2.0, {"seed": 2}),
    )
    assert growth.values("a", 64) == {0: 1.0, 1: 3.0}
    assert growth.point("a", 64) == 2.0
    assert not growth.is_noisy("a", 64), "one of three"
    assert not growth.is_noisy("b", 64)
    assert growth.is_noisy("b", 128), "two of three"
    assert len(growth.of("a", 64)) == 3
    assert growth.point("a", 128) is None
    assert growth.measured("a") == (64,)


def test_times_of_two_machines_are_two_growths_and_counts_are_one() -> None:
    """Check that a ratio of times belongs to its machine, although it has no unit."""
    found = grown(
        ("a", SECONDS, "length=64", 1.0, {"environment_id": "y"}),
        ("a", SECONDS, "length=64", 2.0),
        ("a", FLOPS, "length=64", 7.0),
        ("a", FLOPS, "length=64", 7.0, {"environment_id": "y", "trial_id": "other"}),
        *(("a", AGAIN, "length=64", 1.0, {"environment_id": place}) for place in "xy"),
    )
    assert [(g.metric, g.environment_id) for g in found] == [
        ("forward_seconds", "x"),
        ("forward_seconds", "y"),
        ("forward_flops", ""),
        (BASELINE_AGAIN, "x"),
        (BASELINE_AGAIN, "y"),
    ]
    assert measured_in(found, "y") == (found[1], found[2], found[4])
    assert find(found, "forward_seconds") is found[0]
    assert find(found, "forward_seconds", environment_id="y") is found[1]
    assert find(found, "forward_flops", environment_id="y") is found[2]
    assert find(found, "forward_seconds", "dim") is None
    assert found[1].point("a", 64) == 1.0
    assert found[2].values("a", 64) == {0: 7.0}


def test_what_was_skipped_stands_in_every_environment() -> None:
    skipped = {"status": "skipped", "reason": "no", "environment_id": ""}
    (growth,) = grown(("a", SECONDS, "length=64", 1.0), ("b", SECONDS, "length=64", None, skipped))
    assert [r.reason for r in growth.of("b", 64)] == ["no"]


def test_of_two_readings_of_a_process_the_better_stands() -> None:
    (growth,) = grown(
        ("a", SECONDS, "length=64", 9.0, {"status": "noisy", "trial_id": "1"}),
        ("a", SECONDS, "length=64", 1.0, {"trial_id": "2"}),
    )
    assert growth.values("a", 64) == {0: 1.0}


def test_times_rates_and_memory_depend_on_the_machine() -> None:
    units = ("s", "B", "FLOP/s", "B/s", "FLOP", "1")
    assert [unit for unit in units if is_bound(unit)] == ["s", "B", "FLOP/s", "B/s"]


def test_batches_and_threads_are_axes_of_their_own() -> None:
    found = grown(*(("a", SECONDS, at, 1.0) for at in ("batch=8", "threads=2", "length=64")))
    assert [(g.axis, g.places) for g in found] == [
        ("batch", (8,)),
        ("threads", (2,)),
        ("length", (64,)),
    ]
    labels = [place_label(axis, 2) for axis in ("length", "dim", "batch", "threads")]
    assert labels == ["2 tokens", "width 2", "batch 2", "2 threads"]
    assert place_label("threads", 1) == "1 thread"


def test_times_know_what_the_baseline_shows_against_itself_at_each_place() -> None:
    found = grown(
        ("a", SECONDS, "length=64", 1.0),
        ("b", SECONDS, "length=128", 1.0),
        ("a", AGAIN, "length=64", 1.07),
        ("a", AGAIN, "length=64", 0.98, {"seed": 1}),
        ("a", AGAIN, "dim=64", 2.0),
        ("a", AGAIN, "length=64", 3.0, {"environment_id": "y"}),
        ("a", FLOPS, "length=64", 7.0),
    )
    times = find(found, "forward_seconds")
    assert times is not None
    assert times.resolution(64) == pytest.approx(math.log(1.07))
    assert times.resolution(128) == 0.0
    assert not find(found, "forward_flops").resolutions  # type: ignore[union-attr]
