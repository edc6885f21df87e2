"""Time a pass on a device.

On a CPU the clock is `perf_counter`. On a GPU it is a pair of events on the stream for each pass;
before each pass a buffer as large as the L2 cache is overwritten, so that no pass finds the data of
the previous one in the cache. NVIDIA's nvbench does the same (docs/cli_help.md of NVIDIA/nvbench).
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar

import torch

from bakeoff.suite.events import Condition
from bakeoff.suite.provenance import UNKNOWN
from bakeoff.suite.timing.gpu_state import GpuState, gpu_state
from bakeoff.suite.timing.passes import Call
from bakeoff.suite.timing.spins import SpinCost, pass_and_spin, spin
from bakeoff.suite.timing.stopping import DEFAULT, ON_GPU, Limits

_SLOWER = 1.08
_NUM_READINGS = 200  # several rounds; a lasting change becomes usual after a while
_NUM_AT_LEAST = 10
_USUAL = 0.2  # the quantile of the readings that is taken as usual


class SpeedProbe:
    """A comparison of the CPU's speed with its recent speed, by a small fixed piece of work.

    A virtual machine shares its cores with neighbours that /proc/stat does not show, and a laptop
    lowers its clock: for tenths of a second everything takes a third longer. nvbench discards
    samples that a GPU took below its clock; since a CPU's clock cannot be read everywhere, the
    duration of fixed work is used instead.

    Args:
        read: Function that does the work and returns its duration in seconds.
    """

    def __init__(self, read: Callable[[], float]) -> None:
        self._read = read
        self._lately: deque[float] = deque(maxlen=_NUM_READINGS)

    def is_at_speed(self, *, is_noted: bool = True) -> bool:
        """Return True if the work takes about as long as in the noted readings.

        Args:
            is_noted: Whether to keep this reading for later comparisons. Only the first reading of
                a wait is kept.
        """
        seconds = self._read()
        if is_noted:
            self._lately.append(seconds)
        if len(self._lately) < _NUM_AT_LEAST:
            return True
        usual = sorted(self._lately)[int(_USUAL * len(self._lately))]
        return seconds <= _SLOWER * usual


_LONGEST_WAIT = 0.05
_SIDE_OF_KNOWN_WORK, _PRODUCTS_OF_KNOWN_WORK = 64, 5
# Passes in a row and rounds in which a pass is measured, so that it can be slowed. Several passes
# let the host be ahead of the device if it can be; a long one leaves it time for that.
_MEASURED, _MEASURED_IF_LONG, _LONG = (5, 9), (1, 3), 0.02
_SECONDS_TO_RAISE_THE_CLOCK = 0.1
_LEAST_SHARE_OF_CLOCK = 0.75  # nvbench's default: it discards samples below this share


Events = tuple[torch.cuda.Event, torch.cuda.Event]


class Clock(ABC):
    """A measure of time on a device.

    Attributes:
        suffers_from_load: Whether passes are slower while other processes compute on the CPUs.
        limits: The limits of timing runs.
    """

    suffers_from_load: ClassVar[bool]
    limits: ClassVar[Limits] = DEFAULT

    def now(self) -> float:
        """Return the seconds since an arbitrary origin, for limits and blocks."""
        return time.perf_counter()

    @abstractmethod
    def seconds(self, one_pass: Call, num_passes: int) -> float:
        """Return the seconds of one pass, the mean of `num_passes` passes in a row.

        The device is idle before and after.
        """

    @abstractmethod
    def slowed(self, one_pass: Call, factor: float) -> Call:
        """Return a pass that takes `factor` times as long, by waiting."""

    def wait_for_speed(self) -> None:
        """Wait until the device runs as fast as recently, but only for a limited time."""
        return

    def is_at_speed(self) -> bool:
        """Return True if the device has its usual speed now, so that the last sample is valid."""
        return True

    def why_slow(self) -> str:
        """Return why the device is slower than it could be, or "" if no reason is known."""
        return ""

    def conditions(self) -> Iterator[Condition]:
        """Yield the state of the device that was observed while it was timed."""
        return iter(())


class CpuClock(Clock):
    """The system's monotonic clock."""

    suffers_from_load = True

    def __init__(self) -> None:
        self._speed_probe = SpeedProbe(_known_work())

    def wait_for_speed(self) -> None:
        """Wait until the CPU runs as fast as recently, for at most `_LONGEST_WAIT` seconds."""
        end = time.perf_counter() + _LONGEST_WAIT
        is_noted = True
        while not self._speed_probe.is_at_speed(is_noted=is_noted) and time.perf_counter() < end:
            is_noted = False

    def is_at_speed(self) -> bool:
        """Return True if the fixed work takes about as long as recently."""
        return self._speed_probe.is_at_speed()

    def seconds(self, one_pass: Call, num_passes: int) -> float:
        """Return the mean seconds of `num_passes` passes in a row."""
        begun = time.perf_counter()
        for _ in range(num_passes):
            one_pass()
        return (time.perf_counter() - begun) / num_passes

    def slowed(self, one_pass: Call, factor: float) -> Call:
        """Return a pass that waits actively after each call, for a share of its duration."""

        def slow() -> None:
            begun = time.perf_counter()
            one_pass()
            end = begun + factor * (time.perf_counter() - begun)
            while time.perf_counter() < end:
                pass

        return slow


class CudaClock(Clock):
    """A clock that records events on the current stream of a GPU."""

    suffers_from_load = False
    limits = ON_GPU

    def __init__(self, device: str) -> None:
        self.device = torch.device(device)
        cache = torch.cuda.get_device_properties(self.device).L2_cache_size
        self._as_large_as_the_cache = torch.empty(cache, dtype=torch.int8, device=self.device)
        self._states: list[GpuState] = []

    def seconds(self, one_pass: Call, num_passes: int) -> float:
        """Return the mean seconds between the events of each pass, without the cache flushes."""
        torch.cuda.synchronize(self.device)
        pairs = [self._cold(one_pass) for _ in range(num_passes)]
        torch.cuda.synchronize(self.device)
        return sum(_seconds(begun, ended) for begun, ended in pairs) / num_passes

    def slowed(self, one_pass: Call, factor: float) -> Call:
        """Return a launched pass before which both the host and the device wait for a share of it.

        If kernels take longer than their launches, the device decides, and otherwise the host: then
        the device spins while the next pass is launched, so that a spin alone would be hidden. The
        pass and the cost of a spin are measured at the first call.
        """
        share, cycles = 0.0, 0

        def slow() -> None:
            nonlocal share, cycles
            if not share:
                seconds, cost = self.pass_and_spin(one_pass, lambda run: run)
                share = (factor - 1.0) * seconds
                cycles = cost.cycles(share)
            end = time.perf_counter() + share
            if cycles:
                spin(cycles)
            while time.perf_counter() < end:
                pass
            one_pass()

        return slow

    def pass_and_spin(self, one_pass: Call, made: Callable[[Call], Call]) -> tuple[float, SpinCost]:
        """Return the seconds of a pass and the cost of a spin, after a while at work.

        Args:
            one_pass: The pass.
            made: Function that makes the run that is timed from a run of spins.
        """
        end = self.now() + _SECONDS_TO_RAISE_THE_CLOCK
        seconds = self.seconds(one_pass, 1)
        while self.now() < end:
            seconds = self.seconds(one_pass, 1)
        num_passes, num_rounds = _MEASURED if seconds < _LONG else _MEASURED_IF_LONG

        def seconds_of(run: Call) -> Callable[[], float]:
            timed = made(run)
            return lambda: self.seconds(timed, 1)

        return pass_and_spin(lambda: self.seconds(one_pass, num_passes), seconds_of, num_rounds)

    def why_slow(self) -> str:
        """Return the reason if the GPU runs below three quarters of its maximum clock, else ""."""
        state = gpu_state(self.device)
        self._states += [state] if state else []
        now, most = (state.megahertz, state.most_megahertz) if state else (None, None)
        if state is None or now is None or most is None or now >= _LEAST_SHARE_OF_CLOCK * most:
            return ""
        reasons = f" ({state.held_back_by})" if state.held_back_by else ""
        return f"the GPU ran at {now} of {most} MHz{reasons}"

    def conditions(self) -> Iterator[Condition]:
        """Yield the size of the flushed cache, the GPU's clock and power, and what limited it."""
        yield Condition("L2 flush", f"{self._as_large_as_the_cache.numel():,} bytes")
        most = next((f" of {s.most_megahertz}" for s in self._states if s.most_megahertz), "")
        yield Condition("GPU clock", _range([s.megahertz for s in self._states], f"{most} MHz"))
        yield Condition("GPU power", _range([s.watts for s in self._states], " W"))
        reasons = [s.held_back_by for s in self._states if s.held_back_by is not None]
        held_back_by = "; ".join(dict.fromkeys(filter(None, reasons))) or "nothing"
        yield Condition("GPU held back by", held_back_by if reasons else UNKNOWN)

    def _cold(self, one_pass: Call) -> Events:
        self._as_large_as_the_cache.zero_()
        return _between_events(one_pass)


def _known_work() -> Callable[[], float]:
    """Return a function that times a few small matrix products, with warm caches."""
    a, b, out = (torch.ones(_SIDE_OF_KNOWN_WORK, _SIDE_OF_KNOWN_WORK) for _ in range(3))

    def read() -> float:
        torch.mm(a, b, out=out)
        begun = time.perf_counter()
        for _ in range(_PRODUCTS_OF_KNOWN_WORK):
            torch.mm(a, b, out=out)
        return time.perf_counter() - begun

    return read


def _event() -> torch.cuda.Event:
    event: torch.cuda.Event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
    return event


def _between_events(one_pass: Call) -> Events:
    begun, ended = _event(), _event()
    begun.record()
    one_pass()
    ended.record()
    return begun, ended


def _seconds(begun: torch.cuda.Event, ended: torch.cuda.Event) -> float:
    """Return the seconds between two events that the device has passed."""
    milliseconds: float = begun.elapsed_time(ended)
    return milliseconds / 1e3


def _range(values: Sequence[float | None], unit: str) -> str:
    """Return a range such as ``1410 to 1755 MHz``, or `UNKNOWN` if no value is known."""
    known = [value for value in values if value is not None]
    return f"{min(known):.0f} to {max(known):.0f}{unit}" if known else UNKNOWN


def clock_of(device: str) -> Clock:
    """Return the clock of a device, which is named as in torch."""
    return CpuClock() if device == "cpu" else CudaClock(device)
