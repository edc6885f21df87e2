"""Test the CPU time of other processes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from bakeoff.suite.timing import machine_load
from bakeoff.suite.timing.machine_load import CpuTimes, cpu_times, num_cpus, seconds_of_others

STAT = (
    "cpu  100 20 30 4000 50 6 7 8 90 10\n"
    "cpu0 50 10 15 2000 25 3 3 4 45 5\n"
    "cpu1 25 3 4 2000 25 1 2 1 45 5\n"
    "intr 5\n"
)
linux = pytest.mark.skipif(not Path("/proc/stat").exists(), reason="Linux says it in /proc/stat")


@pytest.mark.parametrize(
    ("allowed", "ticks"),
    [
        (set(), 100 + 20 + 30 + 6 + 7 + 8),  # all CPUs where no affinity is set
        ({0}, 50 + 10 + 15 + 3 + 3 + 4),
        ({0, 1}, 75 + 13 + 19 + 4 + 5 + 5),
    ],
)
def test_busy_time_is_all_but_idle_waiting_and_guests_on_our_cpus(
    allowed: set[int], ticks: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine_load, "allowed_cpus", lambda: allowed)
    (tmp_path / "stat").write_text(STAT)
    found = cpu_times(tmp_path / "stat")
    assert found is not None
    assert found.machine == pytest.approx(ticks / os.sysconf("SC_CLK_TCK"))


@pytest.mark.parametrize("text", ["", "cpu  a b c\n", "cpu  1 2\n", "cpu  0 0 0 0 0 0 0 0 0 0\n"])
def test_a_system_that_says_nothing_is_believed(tmp_path: Path, text: str) -> None:
    (tmp_path / "stat").write_text(text)
    assert cpu_times(tmp_path / "stat") is None
    assert cpu_times(tmp_path / "none") is None


def test_others_took_what_this_process_did_not() -> None:
    before, after = CpuTimes(machine=100.0, own=10.0), CpuTimes(machine=103.0, own=12.0)
    assert seconds_of_others(before, after) == pytest.approx(1.0)
    # rounding never gives a negative number
    assert seconds_of_others(after, CpuTimes(103.0, 12.01)) == 0.0
    assert seconds_of_others(None, after) is seconds_of_others(before, None) is None


def both(work: Callable[[], object]) -> tuple[CpuTimes, CpuTimes]:
    before, _, after = cpu_times(), work(), cpu_times()
    assert before is not None
    assert after is not None
    return before, after


@linux
def test_own_work_is_not_that_of_others() -> None:
    def work() -> None:
        end = time.process_time() + 0.3
        while time.process_time() < end:
            pass

    before, after = both(work)
    assert 0.3 <= after.own - before.own < 0.4
    assert after.machine - before.machine >= 0.25


@linux
def test_a_child_that_has_ended_is_own_work() -> None:
    code = "import time\nwhile time.process_time() < 0.2: pass"
    before, after = both(lambda: subprocess.run([sys.executable, "-c", code], check=True))
    assert after.own - before.own >= 0.2


@linux
def test_the_cpus_that_may_be_used_are_counted() -> None:
    assert num_cpus() == len(os.sched_getaffinity(0))
