"""A clock, candidates and other processes under a test's control."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from bakeoff.suite.timing.clock import Clock
from bakeoff.suite.timing.machine_load import CpuTimes
from bakeoff.suite.timing.passes import Call, Key, Pass


class ScriptedClock(Clock):
    """A clock that only passes advance, by the durations that they give."""

    suffers_from_load = True

    def __init__(self) -> None:
        self.time = 0.0
        self.slow = ""
        self.slow_until = 0.0
        self.num_waits = 0

    def now(self) -> float:
        return self.time

    def seconds(self, one_pass: Call, num_passes: int) -> float:
        begun = self.time
        for _ in range(num_passes):
            one_pass()
        return (self.time - begun) / num_passes

    def wait_for_speed(self) -> None:
        self.num_waits += 1

    def is_at_speed(self) -> bool:
        return self.time >= self.slow_until

    def slowed(self, one_pass: Call, factor: float) -> Call:
        def slow() -> None:
            begun = self.time
            one_pass()
            self.time = begun + factor * (self.time - begun)

        return slow

    def why_slow(self) -> str:
        return self.slow


def key(name: str) -> Key:
    return Key(name, 0)


class Players:
    """Candidates by name; a script gives the duration of each one's n-th pass."""

    def __init__(self, clock: ScriptedClock, scripts: Mapping[str, Callable[[int], float]]) -> None:
        self.order: list[str] = []
        self.clock, self.scripts = clock, scripts
        self.prepared: list[str] = []
        self.cleared: list[str] = []
        self.passes = {key(name): self._pass(name) for name in scripts}

    def _pass(self, name: str) -> Pass:
        def run() -> None:
            self.clock.time += self.scripts[name](self.order.count(name))
            self.order.append(name)

        return Pass(
            run,
            prepare=lambda: self.prepared.append(name),
            clear=lambda: self.cleared.append(name),
        )


def steady(seconds: float) -> Callable[[int], float]:
    return lambda so_manieth: seconds


def idle_machine(clock: ScriptedClock) -> Callable[[], CpuTimes]:
    """Return a reader of CPU times on a machine where only this process runs."""
    return lambda: CpuTimes(machine=clock.time, own=clock.time)


class OtherProcess:
    """A process that uses a number of cores from `begin` to `end`."""

    def __init__(self, clock: ScriptedClock, cores: float, begin: float, end: float) -> None:
        self.clock, self.cores, self.begin, self.end = clock, cores, begin, end

    def __call__(self) -> CpuTimes:
        now = self.clock.time
        taken = self.cores * max(0.0, min(now, self.end) - self.begin)
        return CpuTimes(machine=now + taken, own=now)
