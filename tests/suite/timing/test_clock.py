"""Test clocks: a real CPU clock, and a GPU clock by the order of its calls."""

from __future__ import annotations

import time
from typing import Any

import pytest
import torch

from bakeoff.suite.timing import clock
from bakeoff.suite.timing.clock import CpuClock, CudaClock, SpeedProbe, clock_of
from bakeoff.suite.timing.gpu_state import GpuState
from bakeoff.suite.timing.passes import Call
from tests.suite.timing.fake_gpu import L2_BYTES, US, FakeGpu


def wait(seconds: float) -> None:
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


def test_a_sample_is_the_mean_of_its_passes() -> None:
    """Take the minimum of several, since disturbances only add time."""
    calls: list[int] = []

    def one_pass() -> None:
        calls.append(1)
        wait(0.002)

    seconds = min(CpuClock().seconds(one_pass, 5) for _ in range(10))
    assert len(calls) == 50
    assert 0.002 <= seconds < 0.01


def test_a_slowed_pass_takes_exactly_so_much_longer() -> None:
    """Take the minimum of several, since disturbances only add time."""
    passes: list[float] = []

    def one_pass() -> None:
        begun = time.perf_counter()
        wait(0.02)  # long compared with the overhead of a call
        passes.append(time.perf_counter() - begun)

    slow = CpuClock().slowed(one_pass, 1.05)
    ratios = [CpuClock().seconds(slow, 1) / passes[-1] for _ in range(20)]
    assert all(ratio >= 1.05 for ratio in ratios)
    assert min(ratios) < 1.052


def test_each_device_has_its_clock() -> None:
    assert isinstance(clock_of("cpu"), CpuClock)
    assert CpuClock().suffers_from_load
    assert not CudaClock.suffers_from_load


class Readings:
    """A speed probe with given answers; the last one repeats."""

    def __init__(self, *said: bool) -> None:
        self.said, self.noted = list(said), [False]

    def is_at_speed(self, *, is_noted: bool = True) -> bool:
        self.noted.append(is_noted)
        return self.said.pop(0) if len(self.said) > 1 else self.said[0]


def test_a_cpu_is_waited_for_until_it_is_at_speed(monkeypatch: pytest.MonkeyPatch) -> None:
    cpu, speed_probe = CpuClock(), Readings(False, False, False, True, False)
    monkeypatch.setattr(cpu, "_speed_probe", speed_probe)
    cpu.wait_for_speed()
    assert speed_probe.noted[1:] == [True, False, False, False]  # a long wait is recorded once
    assert not cpu.is_at_speed()


def test_a_cpu_that_stays_slow_is_not_waited_for_forever(monkeypatch: pytest.MonkeyPatch) -> None:
    cpu = CpuClock()
    monkeypatch.setattr(cpu, "_speed_probe", Readings(False))
    begun = time.perf_counter()
    cpu.wait_for_speed()
    assert 0.05 <= time.perf_counter() - begun < 1.0


def test_the_known_work_takes_a_while() -> None:
    readings = [clock._known_work()() for _ in range(20)]
    assert 1e-6 < min(readings) < 1e-2


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> FakeGpu:
    return FakeGpu(monkeypatch)


@pytest.fixture
def gpu_clock(gpu: FakeGpu) -> CudaClock:
    return gpu.clock


def test_before_each_pass_on_a_gpu_its_cache_is_flushed(gpu: FakeGpu, gpu_clock: CudaClock) -> None:
    gpu.seconds_until_fast = 0.0
    assert gpu_clock._as_large_as_the_cache.numel() == L2_BYTES
    assert gpu_clock._as_large_as_the_cache.element_size() == 1
    seconds = gpu_clock.seconds(gpu.work(1, 0.01), 3)
    assert gpu.calls == ["wait", *["flush", "event", "pass", "event"] * 3, "wait"]
    assert seconds == pytest.approx(0.01, rel=1e-3)  # the cache flushes are not included


def ratio_of(gpu: FakeGpu, slow: Call, work: Call, num_passes: int = 20) -> float:
    for _ in range(20):
        gpu.clock.seconds(work, num_passes), gpu.clock.seconds(slow, num_passes)
    return gpu.clock.seconds(slow, num_passes) / gpu.clock.seconds(work, num_passes)


PASSES = {
    "host": (400, 1 * US),  # launches take longer than kernels
    "few launches": (30, 1 * US),
    "balanced": (40, 4 * US),
    "device": (1, 300 * US),
    "many kernels": (40, 20 * US),
}


@pytest.mark.parametrize("name", PASSES)
def test_a_launched_pass_is_slowed_whatever_it_waits_for(gpu: FakeGpu, name: str) -> None:
    work = gpu.work(*PASSES[name])
    assert ratio_of(gpu, gpu.clock.slowed(work, 1.05), work) == pytest.approx(1.05, abs=0.01)


@pytest.mark.parametrize(("name", "hidden"), [("host", True), ("device", False)])
def test_a_spin_after_the_pass_is_hidden_where_launches_take_longer(
    gpu: FakeGpu, name: str, hidden: bool
) -> None:
    """Show on the fake what a spin without a wait of the host does, at a known clock."""
    gpu.seconds_until_fast = 0.0
    work = gpu.work(*PASSES[name])
    seconds = gpu.clock.seconds(work, 20)

    def spun() -> None:
        work()
        gpu.spin(round((0.05 * seconds - gpu.pause) * gpu.hertz))

    ratio = ratio_of(gpu, spun, work)
    assert ratio == pytest.approx(1.01 if hidden else 1.05, abs=0.01)


def test_a_long_pass_is_measured_few_times_before_it_is_slowed(gpu: FakeGpu) -> None:
    work = gpu.work(1, 0.3)
    gpu.clock.slowed(work, 1.05)()
    assert gpu.calls.count("pass") < 10
    assert gpu.clock.now() < 3.0


def test_the_clock_of_an_idle_gpu_is_not_that_of_a_slowed_pass(gpu: FakeGpu) -> None:
    gpu.seconds_until_fast = 0.05  # it rises while the pass is measured
    work = gpu.work(1, 200 * US)
    assert ratio_of(gpu, gpu.clock.slowed(work, 1.05), work) == pytest.approx(1.05, abs=0.01)


@pytest.mark.parametrize(
    ("state", "said"),
    [
        (None, ""),
        (GpuState(1500, 1980, "power cap"), ""),
        (GpuState(1400, 1980, ""), "the GPU ran at 1400 of 1980 MHz"),
        (
            GpuState(300, 1980, "power cap, heat, by hardware"),
            "the GPU ran at 300 of 1980 MHz (power cap, heat, by hardware)",
        ),
    ],
)
def test_a_gpu_below_three_quarters_of_its_clock_is_slow(
    gpu_clock: CudaClock, monkeypatch: pytest.MonkeyPatch, state: GpuState | None, said: str
) -> None:
    monkeypatch.setattr(clock, "gpu_state", lambda device: state)
    assert gpu_clock.why_slow() == said


def test_a_gpu_says_what_holds_it_back(
    gpu_clock: CudaClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def said() -> dict[str, str]:
        return {each.name: each.text for each in gpu_clock.conditions()}

    gpu_clock.why_slow()  # without NVML
    assert said() == {
        "L2 flush": "4,096 bytes",
        "GPU clock": "unknown",
        "GPU power": "unknown",
        "GPU held back by": "unknown",
    }
    states = [
        GpuState(1755, 1980, "", 412.5),
        GpuState(1410, 1980, "power cap", 700.2),
        GpuState(None, None, None, None),
    ]
    for state, held_back_by in zip(states, ("nothing", "power cap", "power cap"), strict=True):
        monkeypatch.setattr(clock, "gpu_state", lambda device, state=state: state)
        gpu_clock.why_slow()
        assert said()["GPU held back by"] == held_back_by
    assert said()["GPU clock"] == "1410 to 1755 of 1980 MHz"
    assert said()["GPU power"] == "412 to 700 W"


@pytest.mark.gpu
def test_a_real_gpu_tells_time_and_can_be_slowed() -> None:
    if not torch.cuda.is_available():
        pytest.skip("there is no GPU")
    a = torch.randn(2048, 2048, device="cuda")
    real = CudaClock("cuda")
    work: Any = lambda: a @ a  # noqa: E731
    slow = real.slowed(work, 1.05)
    for _ in range(20):
        real.seconds(work, 10), real.seconds(slow, 10)
    ratios = sorted(real.seconds(slow, 20) / real.seconds(work, 20) for _ in range(31))
    assert ratios[15] == pytest.approx(1.05, abs=0.01)


class Machine:
    """A machine whose pass takes a given time."""

    def __init__(self) -> None:
        self.seconds = 1.0
        self.speed_probe = SpeedProbe(lambda: self.seconds)

    def said(self, seconds: float, times: int = 1, *, is_noted: bool = True) -> list[bool]:
        self.seconds = seconds
        return [self.speed_probe.is_at_speed(is_noted=is_noted) for _ in range(times)]


def test_it_judges_by_readings_and_first_needs_some() -> None:
    machine = Machine()
    assert all(machine.said(1.0, 5) + machine.said(9.0, 4))
    assert machine.said(9.0) == [False]
    machine = Machine()
    assert all(machine.said(1.0, 20))
    assert machine.said(1.3) == [False]  # 30 % more counts as slow, and a little more does not
    assert machine.said(1.07) == machine.said(0.9) == [True]


def test_slow_half_the_time_is_still_slow() -> None:
    machine = Machine()
    for _ in range(200):
        machine.said(1.0)
        found = machine.said(1.3)
    assert found == [False]


def test_a_new_normal_is_usual_after_a_while() -> None:
    machine = Machine()
    machine.said(1.0, 200)
    found = machine.said(1.5, 200)
    assert not any(found[:150])
    assert found[-1]


def test_a_long_wait_makes_no_normal() -> None:
    machine = Machine()
    machine.said(1.0, 20)
    assert not any(machine.said(1.5, 1000, is_noted=False))
