"""Time a mixer alone: forward, forward and backward, one more token.

One layer over one sequence, with nothing around it; at ``batch=8`` over eight, and at ``threads=2``
with two threads on two CPUs, in place of as many as the worker has. Controls are timed beside the
first subject: itself built again and slowed, kernels of known growth, and what the device can do at
best: matrix products and copies, the best of a few passes. A share of these peaks says more of a
mixer than seconds do: neither the maker's figure nor that of all cores can be reached with the
threads that a trial has.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from models import ModelSpec
from suite.probes.decode import decode_step
from suite.probes.probe import Probe, measurement, seconds
from suite.schema import Measurement, Point, Status, Trial
from suite.timing.clock import Clock, clock_of
from suite.timing.comparison import Operations, TimingComparison, fixed_cpus
from suite.timing.kernels import kernels
from suite.timing.machine_load import num_cpus
from suite.timing.passes import Call, Pass, built, over_vectors
from suite.timing.stopping import DEFAULT, Limits
from suite.training.engines.runtimes import prepared

MAIN = "forward_backward_seconds"
FORWARD, DECODE = "forward_seconds", "decode_token_seconds"
_PASSES = 5
_SIDE = {"cpu": 1024, "cuda": 8192}
_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
_BYTES_OF_A_CACHE = 32 * 2**20  # where the system does not say
_CACHES_OF_A_BUFFER = 2
_MOST_BYTES = 2**30
_UNITS = {"K": 2**10, "M": 2**20, "G": 2**30}


class MixerTime(Probe):
    """Medians of interleaved rounds in one process, with their intervals.

    Args:
        limits: Of a contest; those of trials are the default, the same for all.
    """

    name = "mixer_time"
    version = 1
    grain = "comparison"
    is_swept = True
    is_batched = True
    is_at_precision = True
    is_at_loads = True
    specs = seconds(FORWARD, MAIN, DECODE)  # controls are not of the variants

    def __init__(self, limits: Limits = DEFAULT) -> None:
        self.limits = limits

    def measure(self, trial: Trial, device: str) -> Iterator[Point | Measurement]:
        """The peaks first, which wake the device; then everything in rounds.

        With fewer CPUs than threads nothing is timed: it would be how the system divides them.
        """
        if (trial.threads or 1) > num_cpus():
            yield from self._skipped(trial)
            return
        with _threads(trial.threads):
            yield from self._measured(trial, device)

    def _skipped(self, trial: Trial) -> Iterator[Measurement]:
        reason = f"threads={trial.threads} need as many CPUs, and this process may use {num_cpus()}"
        for spec, subject in itertools.product(self.specs, range(len(trial.subjects))):
            yield measurement(spec, None, subject=subject, status=Status.SKIPPED, reason=reason)

    def _measured(self, trial: Trial, device: str) -> Iterator[Point | Measurement]:
        clock = clock_of(device)
        yield from _peaks(clock, device)

        def subject(spec: ModelSpec) -> tuple[Pass, Pass]:
            made = built(spec, device, trial.seed)
            model = prepared(made, spec.runtime, device, trial.precision)
            return over_vectors(model, spec, device, trial.seed, trial.batch)

        def operations(spec: ModelSpec) -> Operations:
            forward, forward_backward = subject(spec)
            decode = decode_step(spec, device, trial.seed, trial.batch, trial.precision)
            return {MAIN: forward_backward, FORWARD: forward, DECODE: decode}

        yield from TimingComparison(
            trial=trial, device=device, clock=clock, compared=(MAIN, FORWARD, DECODE),
            operations=operations, main_operation=lambda spec: subject(spec)[1],
            beside_first=kernels(trial.length, device), limits=self.limits,
        ).measured()  # fmt: skip


@contextmanager
def _threads(number: int | None) -> Iterator[None]:
    """Torch computes with so many; None leaves them as they are."""
    before = torch.get_num_threads()
    torch.set_num_threads(number or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _peaks(clock: Clock, device: str) -> Iterator[Measurement]:
    with fixed_cpus(device):
        matrix, copy = matrix_peak(clock, device), copy_peak(clock, device)
    yield Measurement(
        metric="matrix_peak_flops_per_second", value=matrix, unit="FLOP/s", better="none"
    )
    yield Measurement(metric="copy_peak_bytes_per_second", value=copy, unit="B/s", better="none")


def matrix_peak(clock: Clock, device: str) -> float:
    """FLOP/s of a square matrix product in float32, 2 per multiply-add."""
    side = _SIDE["cpu" if device == "cpu" else "cuda"]
    drawn = torch.Generator().manual_seed(0)
    a, b, out = (torch.randn(side, side, generator=drawn).to(device) for _ in range(3))
    return 2.0 * side**3 / _best(clock, lambda: torch.mm(a, b, out=out))


def copy_peak(clock: Clock, device: str) -> float:
    """Bytes/s of a copy that no cache holds; what is read counts, and what is written."""
    size = min(_MOST_BYTES, _CACHES_OF_A_BUFFER * _cache_bytes(device))
    source, target = (torch.zeros(size, dtype=torch.int8, device=device) for _ in range(2))
    return 2.0 * size / _best(clock, lambda: target.copy_(source))


def _best(clock: Clock, one_pass: Call) -> float:
    one_pass()  # makes pages and handles
    return min(clock.seconds(one_pass, 1) for _ in range(_PASSES))


def _cache_bytes(device: str) -> int:
    """Of the last level."""
    if device != "cpu":
        size: int = torch.cuda.get_device_properties(device).L2_cache_size
        return size
    sizes = [file.read_text().strip() for file in _CACHES.glob("index*/size")]  # as ``32768K``
    found = (int(size.rstrip("KMG")) * _UNITS.get(size[-1:], 1) for size in sizes)
    return max(found, default=_BYTES_OF_A_CACHE)
