"""Tests for hours, rate and time left, on sweeps given as lists."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from bakeoff.suite.commands import sweep_history as module
from bakeoff.suite.commands.sweep_history import Estimates, History
from bakeoff.suite.journal.plans import Listed
from bakeoff.suite.journal.sqlite_schema import Attempt, End

NOW = 10_000.0


def trial(name: str, **changes: Any) -> Listed:
    fields = {
        "ablation": "heads",
        "scale": "quick",
        "trial_id": name,
        "probe": "quality",
        "label": name,
        "num_workers": 1,
        "num_cpus": 1.0,
        "num_gpus": 0.0,
        "is_alone": False,
    }
    return Listed(**(fields | changes))


def end(name: str, seconds: float = 60.0, at: float | None = NOW, **changes: Any) -> End:
    fields = {
        "trial_id": name,
        "environment_id": "e",
        "attempt": 1,
        "status": "ok",
        "seconds": seconds,
        "num_cpus": 1.0,
        "num_gpus": 0.0,
        "ended_seconds": at,
        "reason": "",
        "is_kept": True,
    }
    return End(**(fields | changes))


def history(trials: list[Listed], ends: list[End] = [], **changes: Any) -> History:  # noqa: B006
    """Return a history; `running` has start times, all else started `seconds` before its end."""
    running = changes.pop("running", {})
    starts = changes.pop("starts", None)
    changes.setdefault("estimates", Estimates(work=changes.pop("weights", {})))
    if starts is None:
        starts = [
            Attempt(e.trial_id, e.attempt, (e.ended_seconds or 0.0) - e.seconds, "") for e in ends
        ]
        starts += [Attempt(name, 1, since, "") for name, since in running.items()]
    fields = {
        "trials": {each.trial_id: each for each in trials},
        "done": frozenset(e.trial_id for e in ends if e.is_kept) - set(running),
        "running": running,
        "starts": starts,
        "ends": ends,
        "now": NOW,
        "driver_started": 0.0,
    }
    return History(**(fields | changes))


def usage(trials: list[Listed], ends: list[End] = [], **changes: Any) -> SimpleNamespace:  # noqa: B006
    return SimpleNamespace(**module.resource_usage(history(trials, ends, **changes)))


def numbered(number: int) -> list[Listed]:
    return [trial(f"t{k}") for k in range(number)]


# --- hours ---------------------------------------------------------------------------------------


def test_hours_are_those_of_the_cpus_and_gpus_of_all_workers() -> None:
    trials = [trial("a"), trial("b", num_workers=4)]
    ends = [end("a", 1800.0, num_cpus=2.0), end("b", 900.0, num_cpus=2.0, num_gpus=1.0)]
    found = usage(trials, ends)
    assert found.cpu_hours_spent == pytest.approx(2 * 0.5 + 4 * 2 * 0.25)
    assert found.gpu_hours_spent == pytest.approx(4 * 0.25)
    assert (found.cpu_hours_wasted, found.cpu_hours_left, found.eta_seconds) == (0.0, 0.0, 0.0)


def test_a_timing_holds_a_whole_gpu() -> None:
    ends = [end(name, 3600.0, num_gpus=0.25) for name in "ab"]
    assert usage([trial("a"), trial("b", is_alone=True)], ends).gpu_hours_spent == 1.25


@pytest.mark.parametrize("status", ["timeout", "crashed", "error"])
def test_failures_are_wasted_and_so_is_what_came_too_late(status: str) -> None:
    ends = [
        end("a", 3600.0, status=status),
        end("a", 1800.0, attempt=2),
        end("b", 7200.0, is_kept=False),
        end("b", 900.0, attempt=2, status="diverged"),
    ]
    found = usage([trial("a"), trial("b")], ends)
    assert found.cpu_hours_spent == pytest.approx(3.75)
    assert found.cpu_hours_wasted == pytest.approx(3.0)
    assert found.num_lost == 0


def test_a_crash_that_could_not_say_how_long_took_from_its_start_to_its_end() -> None:
    ends = [end("a", 0.0, NOW, status="crashed")]
    starts = [Attempt("a", 1, NOW - 1800.0, "node 1")]
    found = usage([trial("a")], ends, starts=starts)
    assert found.cpu_hours_wasted == found.cpu_hours_spent == pytest.approx(0.5)


def test_what_runs_is_spent_so_far_and_the_rest_of_its_mean_is_left() -> None:
    trials = [trial(name) for name in "abc"]
    found = usage(trials, [end("a", 3600.0)], running={"b": NOW - 900.0})
    assert found.cpu_hours_spent == pytest.approx(1.25)
    assert found.cpu_hours_left == pytest.approx(0.75 + 1.0)


def test_lost_attempts_are_counted_apart_and_bounded_by_the_next_start() -> None:
    starts = [Attempt("a", 1, 1000.0, ""), Attempt("a", 2, 4600.0, ""), Attempt("a", 3, 6400.0, "")]
    ends = [end("a", 60.0, attempt=3)]
    found = usage([trial("a", num_cpus=2.0)], ends, starts=starts)
    assert found.num_lost == 2
    assert found.lost_cpu_hours_at_most == pytest.approx(2 * (3600 + 1800) / 3600)
    assert found.cpu_hours_wasted == 0.0


def test_a_lost_attempt_that_was_not_tried_again_has_no_bound() -> None:
    starts = [Attempt("a", 1, 1000.0, ""), Attempt("b", 1, NOW - 5.0, "")]
    trials = [trial("a"), trial("b")]
    found = usage(trials, starts=starts, running={"b": NOW - 5.0})
    assert (found.num_lost, found.lost_cpu_hours_at_most) == (1, None)
    found = usage([trial("a")], [end("a")])
    assert (found.num_lost, found.lost_cpu_hours_at_most) == (0, 0.0)


# --- rate ----------------------------------------------------------------------------------------


def test_the_rate_is_that_of_the_last_ten_minutes() -> None:
    trials = numbered(40)
    old = [end(each.trial_id, 60.0, NOW - 3000.0) for each in trials[:20]]
    new = [end(each.trial_id, 60.0, NOW - 30.0 * k) for k, each in enumerate(trials[20:])]
    found = usage(trials, old + new)
    assert found.throughput_per_minute == pytest.approx(20 / 10, rel=0.06)


def test_a_driver_that_has_just_begun_is_not_measured_by_the_pause_before() -> None:
    ends = [end("a", 10.0, NOW - 300.0), end("b", 10.0, NOW - 20.0), end("c", 10.0, NOW)]
    trials = [trial(name) for name in "abcd"]
    found = usage(trials, ends, driver_started=NOW - 30.0)
    assert found.throughput_per_minute == pytest.approx(2 * 60 / 30)


def test_without_a_driver_it_is_that_of_its_last_minutes() -> None:
    ends = [end("a", 60.0, 1000.0), end("b", 60.0, 1060.0)]
    trials = [trial("a"), trial("b")]
    found = usage(trials, ends, driver_started=None)
    assert found.throughput_per_minute == pytest.approx(1.0)
    assert usage(trials, driver_started=None).throughput_per_minute is None
    assert usage(trials).throughput_per_minute == 0.0


# --- time left -----------------------------------------------------------------------------------


def seconds_left(found: History) -> dict[str, float]:
    return {trial.trial_id: seconds for trial, seconds in found.left}


def test_each_kind_of_trial_takes_as_long_as_its_finished_ones() -> None:
    trials = [
        trial("a"),
        trial("b"),
        trial("p", probe="parameters"),
        trial("q", probe="parameters"),
        trial("x", ablation="other"),
        trial("y", ablation="other"),
        trial("f", probe="flops"),
    ]
    ends = [end("a", 100.0), end("p", 1.0), end("x", 10.0)]
    left = seconds_left(history(trials, ends))
    assert left == {"b": 100.0, "q": 1.0, "y": 10.0}
    assert usage(trials, ends).eta_seconds is None  # nothing is known about the probe of f
    assert usage(trials[:-1], ends).eta_seconds is not None


def test_a_trial_of_more_work_takes_longer_than_others_of_its_kind() -> None:
    trials = [trial("a"), trial("b"), trial("c"), trial("p", probe="parameters")]
    ends, weights = [end("a", 100.0), end("b", 50.0)], {"a": 3.0, "b": 2.0, "c": 7.0, "p": 0.1}
    left = seconds_left(history(trials, ends, weights=weights))
    assert left["c"] == pytest.approx(30 * 7, rel=0.05)
    assert left["p"] < 3.0


def test_trials_of_milliseconds_say_nothing_of_trainings() -> None:
    """Check that trials without training do not set the estimate of nine trainings."""
    counts = [trial(f"p{k}", probe="parameters") for k in range(9)]
    trials = [*counts, *numbered(9)]
    weights = {each.trial_id: 0.02 for each in counts} | {f"t{k}": 30.0 for k in range(9)}
    for seconds in (0.0, 0.5):
        ends = [end(each.trial_id, seconds) for each in counts]
        found = usage(trials, ends, weights=weights)
        assert 9 * 30 / 4 < found.cpu_hours_left * 3600 < 9 * 30 * 4


def test_the_steps_of_what_runs_foretell_its_end() -> None:
    running = {"t0": NOW - 50.0}
    found = history(
        numbered(2), running=running, weights={"t0": 1.0, "t1": 1.0}, shares={"t0": 0.25}
    )
    left = seconds_left(found)
    assert left["t0"] == pytest.approx(150.0)
    assert left["t1"] > 70.0


def test_failures_say_nothing_of_how_long_a_trial_takes() -> None:
    trials = [trial(name) for name in "abc"]
    ends = [end("a", 100.0), end("b", 9000.0, status="timeout")]
    assert seconds_left(history(trials, ends)) == {"c": 100.0}


def test_the_rest_is_divided_among_the_slots_that_were_in_use() -> None:
    """Check a sweep of four slots on a machine with any number of CPUs."""
    trials = numbered(80)
    ends = [end(each.trial_id, 60.0, NOW - 60.0 * (k // 4)) for k, each in enumerate(trials[:40])]
    found = usage(trials, ends, driver_started=None)
    assert found.eta_seconds == pytest.approx(40 * 60 / 4)


def test_pauses_between_short_trials_count() -> None:
    """Check trials of 0.1 s that start one second apart: each remaining one takes a second."""
    trials = numbered(200)
    ends = [end(each.trial_id, 0.1, NOW - float(k)) for k, each in enumerate(trials[:100])]
    found = usage(trials, ends)
    assert found.eta_seconds == pytest.approx(100.0, rel=0.02)


def test_what_runs_now_counts_as_slots_before_much_has_ended() -> None:
    trials = numbered(101)
    running = dict.fromkeys((each.trial_id for each in trials[1:51]), NOW - 100.0)
    found = usage(trials, [end("t0", 100.0, NOW)], running=running)
    assert found.eta_seconds == pytest.approx(100.0)  # 50 left at about 51 at a time, 100 s each


def test_timings_come_after_the_rest_and_one_at_a_time() -> None:
    trials = [trial(f"q{k}") for k in range(4)]
    trials += [trial(f"s{k}", probe="step_time", is_alone=True) for k in range(4)]
    ends = [end("q0", 60.0, NOW - 100.0), end("q1", 60.0, NOW - 100.0), end("s0", 100.0, NOW)]
    found = usage(trials, ends, driver_started=None)
    assert found.eta_seconds == pytest.approx(2 * 60 / 2 + 3 * 100)


def test_the_longest_trial_bounds_it_from_below() -> None:
    trials = numbered(11)
    ends = [end(each.trial_id, 600.0) for each in trials[:10]]
    found = usage(trials, ends)
    assert found.eta_seconds == pytest.approx(600.0)


def test_where_nothing_has_run_lately_this_machines_cpus_are_the_slots(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("bakeoff.suite.commands.sweep_history.num_cpus", lambda: 8)
    trials = [trial(f"t{k}", num_cpus=2.0) for k in range(9)]
    found = usage(trials, [end("t0", 60.0, None)])
    assert found.eta_seconds == pytest.approx(8 * 60 / 4)


def test_without_a_finished_trial_nothing_is_foretold() -> None:
    found = usage([trial("a")], running={"a": NOW - 36.0})
    assert (found.eta_seconds, found.cpu_hours_left, found.gpu_hours_left) == (None, None, None)
    assert found.cpu_hours_spent == pytest.approx(0.01)
