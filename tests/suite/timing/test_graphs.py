"""Test passes as graphs: when they are recorded, what is refused, how one is slowed."""

from __future__ import annotations

import pytest
import torch

from bakeoff.suite.timing import graphs
from bakeoff.suite.timing.clock import CudaClock
from bakeoff.suite.timing.graphs import Graphs
from bakeoff.suite.timing.passes import Call, NoGraph, Pass
from bakeoff.suite.training.engines.recording import nothing_recorded
from tests.suite.timing.fake_gpu import US, FakeGpu


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> FakeGpu:
    return FakeGpu(monkeypatch)


def holds(run: Call) -> str:
    run()
    return ""


def test_a_pass_is_recorded_at_its_first_call_and_replayed(gpu: FakeGpu) -> None:
    work, seen = gpu.work(40, 1 * US), []
    operation = Pass(
        work, prepare=lambda: seen.append("prepared"), clear=lambda: seen.append("cleared")
    )
    made = Graphs(gpu.clock)
    graph, other = made.of(operation, holds), made.of(Pass(work), holds)
    assert gpu.calls == []
    for each in (graph, graph, other):
        each.prepare()
        each.run()
        each.clear()
    # one observed run, one before the capture, and the capture, in memory that both share
    assert gpu.calls == ["pass", "capture in pool", "pass", "pass"] * 2
    assert seen == ["prepared", "cleared"]


def test_a_graph_takes_what_its_kernels_take_and_not_its_launches(gpu: FakeGpu) -> None:
    gpu.seconds_until_fast = 0.0
    work = gpu.work(40, 1 * US)
    graph = Graphs(gpu.clock).of(Pass(work), holds).run
    graph()
    assert gpu.clock.seconds(graph, 20) == pytest.approx(80 * US, rel=0.03)
    assert gpu.clock.seconds(work, 20) > 170 * US


@pytest.mark.parametrize("seconds", [1 * US, 20 * US])
def test_a_graph_is_slowed_by_so_much(gpu: FakeGpu, seconds: float) -> None:
    operation, made = Pass(gpu.work(40, seconds)), Graphs(gpu.clock)
    plain = made.of(operation, holds).run
    slow = made.slowed(operation, holds, 1.05).run
    for each in (plain, slow):
        each()
    ratio = gpu.clock.seconds(slow, 20) / gpu.clock.seconds(plain, 20)
    assert ratio == pytest.approx(1.05, abs=0.005)


def test_a_pass_too_short_to_be_slowed_says_so(gpu: FakeGpu) -> None:
    slow = Graphs(gpu.clock).slowed(Pass(gpu.work(1, 10 * US)), holds, 1.05)
    message = (
        r"^a pass of 1\d(\.\d)? µs is too short to be slowed by 5%: one more kernel takes 1 µs$"
    )
    with pytest.raises(NoGraph, match=message):
        slow.run()


def test_what_no_graph_can_hold_is_refused_before_a_capture(gpu: FakeGpu) -> None:
    cleared: list[str] = []
    operation = Pass(gpu.work(1, 1 * US), clear=lambda: cleared.append("cleared"))
    made = Graphs(gpu.clock)
    message = "^no CUDA graph can be recorded: it waits$"
    for each in (
        made.of(operation, lambda run: "it waits"),
        made.slowed(operation, lambda run: "it waits", 1.05),
    ):
        with pytest.raises(NoGraph, match=message):
            each.run()
    assert (cleared, gpu.calls) == (["cleared"] * 2, [])
    with nothing_recorded("a capture failed"), pytest.raises(NoGraph, match="a capture failed"):
        made.of(operation, holds).run()


def test_memory_that_is_short_is_an_error_of_the_first_call(
    gpu: FakeGpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    def short(work: Call, pool: object) -> Call:
        raise torch.OutOfMemoryError("CUDA out of memory.")

    monkeypatch.setattr(graphs, "on_gpu", short)
    with pytest.raises(torch.OutOfMemoryError):
        Graphs(gpu.clock).of(Pass(gpu.work(1, US)), holds).run()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
def test_a_real_gpu_slows_a_graph_by_so_much() -> None:
    x = torch.randn(64, 64, device="cuda")

    def many() -> None:
        for _ in range(64):
            x @ x

    real = CudaClock("cuda")
    made = Graphs(real)
    plain, slow = made.of(Pass(many), holds).run, made.slowed(Pass(many), holds, 1.05).run
    for each in (plain, slow):
        each()
    ratios = sorted(real.seconds(slow, 20) / real.seconds(plain, 20) for _ in range(31))
    assert ratios[15] == pytest.approx(1.05, abs=0.01)
    assert real.seconds(plain, 20) < real.seconds(many, 20)
