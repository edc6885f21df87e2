"""Where no node is left for timings, how long is one waited for? Ten minutes, then trials end."""

from __future__ import annotations

from pathlib import Path

import pytest

from suite.cluster import execute
from suite.cluster.line import AloneLine
from suite.events import Checkpoints, Event, ExecutorSettings, Finished
from suite.schema import Resources, Status
from tests.suite.heads_sweep import HeadsSweep


class Clock:
    """Of a machine that has been up for long; whoever sleeps lets it pass."""

    now = 1_000_000.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def ends(executor: execute.RayExecutor) -> list[Event]:
    line = AloneLine([(HeadsSweep().trial(), Resources())], list)
    return [event for event in executor._run(line) if isinstance(event, Finished)]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(execute, "time", made)
    return made


def test_a_node_is_waited_for_ten_minutes_each_time(clock: Clock, tmp_path: Path) -> None:
    executor = execute.RayExecutor(ExecutorSettings(checkpoints=Checkpoints(folder=tmp_path)))
    for _ in range(2):
        start = clock.now
        (end,) = ends(executor)
        assert isinstance(end, Finished)
        assert end.result.status is Status.CRASHED
        assert 600.0 < clock.now - start < 605.0
        clock.now += 10_000.0  # of other work
