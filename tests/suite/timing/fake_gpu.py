"""A model of a GPU: a queue, launches that take the host's time, and a clock that rises with work.

All times are seconds. The host launches kernels and goes on; the device runs them one after the
other, each after a pause. A graph is launched once, and its kernels follow each other without the
host. An event has the time at which the device reaches it.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from bakeoff.suite.timing import clock, graphs
from bakeoff.suite.timing.clock import CudaClock

L2_BYTES = 4096
US = 1e-6
Duration = Callable[[], float]


class FakeGpu:
    """The state of host and device, in place of torch's functions.

    Attributes:
        calls: The names of what was called, in order.
        host: The time of the host.
        free: The time at which the device has done everything.
        launch: The host's time for a launch of a kernel.
        pause: The device's time between two kernels.
        capture: The host's time for a capture.
        jitter: Function that returns the factor of the next launch's time.
        nodes_of_last: The kernels of the last graph.
        busy: The time that the device has computed; its clock rises after `seconds_until_fast`.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[str] = []
        self.host = self.free = self.busy = 0.0
        self.launch, self.pause, self.launch_of_graph, self.flush = 5 * US, 1 * US, 10 * US, 20 * US
        self.capture, self.jitter = 0.0, lambda: 1.0
        self.seconds_until_fast, self.slow_hertz, self.hertz = 0.02, 0.35e9, 2e9
        self.nodes: list[Duration] | None = None
        self.nodes_of_last: list[Duration] = []
        properties = SimpleNamespace(L2_cache_size=L2_BYTES)
        monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: properties)
        monkeypatch.setattr(torch.cuda, "synchronize", self.synchronize)
        monkeypatch.setattr(torch.cuda, "_sleep", self.spin)
        monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: "pool")
        monkeypatch.setattr(clock, "_event", lambda: FakeEvent(self))
        monkeypatch.setattr(clock, "gpu_state", lambda device: None)
        monkeypatch.setattr(clock, "time", SimpleNamespace(perf_counter=self.perf_counter))
        monkeypatch.setattr(graphs, "on_gpu", self.on_gpu)
        self.clock = CudaClock("meta")  # a device without data
        monkeypatch.setattr(self.clock._as_large_as_the_cache, "zero_", self._flush)

    def _flush(self) -> None:
        self.calls.append("flush")
        self.kernel(lambda: self.flush)

    def perf_counter(self) -> float:
        self.host += 0.1 * US
        return self.host

    def synchronize(self, device: object = None) -> None:
        self.calls.append("wait")
        self.host = max(self.host, self.free)

    def kernel(self, duration: Duration) -> None:
        """Launch a kernel, or add it to the graph that is being captured."""
        if self.nodes is not None:
            self.nodes.append(duration)
            return
        self.host += self.launch * self.jitter()
        self._execute(duration)

    def _execute(self, duration: Duration) -> None:
        seconds = duration()
        self.free = max(self.host, self.free) + self.pause + seconds
        self.busy += seconds

    def spin(self, cycles: int) -> None:
        self.calls.append("spin")
        self.kernel(lambda: cycles / self.hertz_now())

    def hertz_now(self) -> float:
        return self.hertz if self.busy >= self.seconds_until_fast else self.slow_hertz

    def work(self, num_kernels: int, seconds: float) -> Callable[[], None]:
        """Return a pass of so many kernels, whose times are those of a fast clock."""

        def run() -> None:
            self.calls.append("pass")
            for _ in range(num_kernels):
                self.kernel(lambda: seconds * self.hertz / self.hertz_now())

        return run

    def on_gpu(self, work: Callable[[], Any], pool: object = None) -> Callable[[], None]:
        """Capture the work after one run, in place of `engines.recording.on_gpu`."""
        self.calls.append(f"capture in {pool}")
        self.host += self.capture
        work()
        self.nodes_of_last = self.nodes = nodes = []
        work()
        self.nodes = None

        def replay() -> None:
            self.host += self.launch_of_graph
            for duration in nodes:
                self._execute(duration)

        return replay


class FakeEvent:
    """An event that the device reaches after what was launched before."""

    def __init__(self, gpu: FakeGpu) -> None:
        self.gpu, self.at = gpu, -1.0

    def record(self) -> None:
        self.gpu.calls.append("event")
        self.gpu.host += 1 * US
        self.at = max(self.gpu.host, self.gpu.free)

    def query(self) -> bool:
        return self.at <= self.gpu.host

    def elapsed_time(self, other: FakeEvent) -> float:
        return (other.at - self.at) * 1e3
