"""Tests for the executor without a Ray: waiting for a node, and failed starts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ray.exceptions import WorkerCrashedError

from bakeoff.suite.cluster import connect, execute, multi_worker, ray_private, ray_task
from bakeoff.suite.cluster.capacity import NodeShape
from bakeoff.suite.cluster.trial_queue import ExclusiveQueue, PackedQueue, TrialAttempt
from bakeoff.suite.cluster.worker import WorkerConfig
from bakeoff.suite.events import (
    Checkpoints,
    Event,
    ExecutorSettings,
    Finished,
    RunAgainEagerly,
    Started,
    Unavailable,
    eagerly_remark,
)
from bakeoff.suite.provenance import provenance
from bakeoff.suite.schema import Resources, Status
from bakeoff.suite.sweep.driver import executing
from tests.suite.heads_sweep import HeadsSweep

ELSEWHERE = replace(provenance(Resources()), device="another CPU")


class Clock:
    """A fake `time` module whose clock advances only by `sleep`."""

    now = 1_000_000.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def settings(tmp_path: Path) -> ExecutorSettings:
    return ExecutorSettings(checkpoints=Checkpoints(folder=tmp_path))


def test_a_node_is_waited_for_ten_minutes_each_time(
    settings: ExecutorSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr(execute, "time", clock)
    executor = execute.RayExecutor(settings)
    for _ in range(2):
        start = clock.now
        queue = ExclusiveQueue([(HeadsSweep().trial(), Resources())], list)
        (end,) = [event for event in executor._run(queue) if isinstance(event, Finished)]
        assert end.result.status is Status.CRASHED
        assert 600.0 < clock.now - start < 605.0
        clock.now += 10_000.0  # time passes before the next wait


def test_a_crash_has_the_provenance_of_the_worker_that_began(
    settings: ExecutorSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check a trial of several workers: its task starts first, then its first worker does."""
    trial = HeadsSweep().trial()
    began = [Started(trial.trial_id, "node 1"), Started(trial.trial_id, "node 1", ELSEWHERE)]

    def stream() -> Any:
        yield from began
        raise WorkerCrashedError

    monkeypatch.setattr(execute.ray, "get", lambda event: event)
    monkeypatch.setattr(execute.nodes, "live_nodes", list)
    executor, queue = execute.RayExecutor(settings), ExclusiveQueue([], list)
    running = execute._Running(TrialAttempt(trial, Resources(), number=3), stream())
    executor._in_flight.append(running)
    told: list[Event] = []
    while executor._in_flight:
        told += executor._next_event(running, queue)
    first, last = told  # the trial's start is reported once
    assert first == began[0]
    assert isinstance(last, Finished)
    assert last.result.provenance == ELSEWHERE


def test_a_trial_whose_steps_cannot_be_captured_runs_again_in_a_fresh_process(
    settings: ExecutorSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial = HeadsSweep().trial()
    told = [Started(trial.trial_id, "node 1"), RunAgainEagerly(trial.trial_id, "it waits")]
    monkeypatch.setattr(execute.ray, "get", lambda event: event)
    executor = execute.RayExecutor(settings)
    queue = PackedQueue([], lambda: [NodeShape("node 1", {"CPU": 8.0, "GPU": 1.0})])
    running = execute._Running(TrialAttempt(trial, Resources(num_gpus=1.0)), iter(told))
    executor._in_flight.append(running)
    heard: list[Event] = []
    while executor._in_flight:
        heard += executor._next_event(running, queue)
    assert heard == [told[0], eagerly_remark(RunAgainEagerly(trial.trial_id, "it waits"))]
    (again,) = queue.drain()
    assert again.why_eager == "it waits"
    environments = [ray_task._own_environment(each) for each in (running.attempt, again)]
    assert environments[0] != environments[1]  # so Ray does not use the same process again


def test_where_all_workers_die_the_result_has_the_provenance_of_the_first() -> None:
    trial = HeadsSweep().trial()
    events = multi_worker._NewEvents(trial.trial_id)
    list(events.among([Started(trial.trial_id, "node 1", ELSEWHERE)]))
    checkpoints = Checkpoints(folder=Path("checkpoints"))
    config = WorkerConfig(trial, Resources(), "node 1", checkpoints, (), mailbox=None)
    assert multi_worker._crashed(config, None, events).provenance == ELSEWHERE


@pytest.mark.parametrize("num_failures", [0, 1])
def test_ray_that_is_slow_to_start_is_started_once_more(
    num_failures: int, settings: ExecutorSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts, waits = [], []

    def init(**options: object) -> None:
        waits.append(connect.os.environ["RAY_gcs_server_port_wait_time_s"])
        starts.append(options)
        if len(starts) <= num_failures:
            raise Exception("The current node timed out during startup. This could happen if")

    monkeypatch.delenv("RAY_gcs_server_port_wait_time_s", raising=False)
    monkeypatch.setattr(connect.ray, "init", init)
    monkeypatch.setattr(connect.ray, "shutdown", lambda: None)
    with connect.started(settings) as executor:
        assert executor.is_own
    assert len(starts) == num_failures + 1
    assert {int(seconds) for seconds in waits} == {60}  # Ray's own default is 30


@pytest.mark.parametrize(
    ("error", "reason"), [(RuntimeError("a. b"), "a"), (TimeoutError("\n"), "TimeoutError")]
)
def test_a_ray_that_never_starts_is_one_sentence_and_what_to_do(
    error: Exception, reason: str, settings: ExecutorSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts = []

    def init(**options: object) -> None:
        starts.append(options)
        raise error

    monkeypatch.setattr(connect.ray, "init", init)
    why = rf"^Ray cannot be started here: {reason}\. The machine may be too busy.*--executor inline"
    with pytest.raises(Unavailable, match=why), executing("ray", None, settings):
        pytest.fail("it never started")
    assert len(starts) == 2


def test_a_node_has_longer_to_start_than_ray_gives_it(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    start = clock.now

    def look_up(address: str, node_id: str) -> str:
        if clock.now < start + 50.0:
            raise RuntimeError("no such node yet")
        return node_id

    monkeypatch.setattr(ray_private, "time", clock)
    monkeypatch.setattr(ray_private.services, "get_node", look_up)
    with ray_private.waiting_longer_for_a_node():
        assert ray_private.services.get_node("here", "node") == "node"
        start = clock.now + 100.0
        with pytest.raises(RuntimeError):
            ray_private.services.get_node("here", "node")
    assert ray_private.services.get_node is look_up


@pytest.mark.parametrize("variable", ["TMPDIR", "RAY_TMPDIR"])
def test_a_folder_too_long_for_sockets_is_named_before_ray_starts(
    variable: str, settings: ExecutorSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = "/tmp/" + "x" * 110
    monkeypatch.delenv("RAY_TMPDIR", raising=False)
    monkeypatch.setenv(variable, folder)
    monkeypatch.setattr(connect.ray, "init", lambda **options: pytest.fail("it was started"))
    with pytest.raises(Unavailable) as refused, connect.started(settings):
        pass
    said = str(refused.value)
    assert said.startswith(f"{variable}={folder} has 115 bytes, and Ray can use at most ")
    assert f"set a shorter one, as {variable}=/tmp" in said
    assert "busy" not in said
