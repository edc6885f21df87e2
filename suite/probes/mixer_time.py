"""Time a mixer alone: forward, forward and backward, one more token.

One layer over one sequence, with nothing around it. Controls stand beside the first subject:
itself built again and slowed, kernels of known growth, and what the device can do at best.
"""

from __future__ import annotations

from collections.abc import Iterator

from models import ModelSpec
from suite.probes.probe import Probe
from suite.schema import Measurement, MetricSpec, Point, Trial
from suite.tasks.task import Task
from suite.timing.clock import Clock, clock_of
from suite.timing.comparison import Operations, TimingComparison, fixed_cpus
from suite.timing.decoding import decode_step
from suite.timing.kernels import kernels
from suite.timing.passes import Pass, as_declared, over_vectors
from suite.timing.peaks import copy_peak, matrix_peak
from suite.timing.stopping import DEFAULT, Limits

MAIN = "forward_backward_seconds"
FORWARD, DECODE = "forward_seconds", "decode_token_seconds"


class MixerTime(Probe):
    """Medians of interleaved rounds in one process, with their intervals.

    Args:
        limits: Of a contest; those of trials are the default, the same for all.
    """

    name = "mixer_time"
    version = 1
    grain = "comparison"
    is_swept = True

    def __init__(self, limits: Limits = DEFAULT) -> None:
        self.limits = limits

    def metrics(self, task: type[Task] | None, length: int) -> tuple[MetricSpec, ...]:
        """Seconds a pass; controls are not of the variants, and not announced."""
        names = (FORWARD, MAIN, DECODE)
        return tuple(MetricSpec(name=name, unit="s", better="lower") for name in names)

    def measure(self, trial: Trial, device: str) -> Iterator[Point | Measurement]:
        """The peaks first, which wake the device; then everything in rounds."""
        clock = clock_of(device)
        yield from _peaks(clock, device)

        def subject(spec: ModelSpec) -> tuple[Pass, Pass]:
            model = as_declared(spec, device, trial.seed)
            return over_vectors(model, spec, device, trial.seed)

        def operations(spec: ModelSpec) -> Operations:
            forward, forward_backward = subject(spec)
            decode = decode_step(spec, device, trial.seed)
            return {MAIN: forward_backward, FORWARD: forward, DECODE: decode}

        yield from TimingComparison(
            trial=trial, device=device, clock=clock, compared=(MAIN, FORWARD, DECODE),
            operations=operations, main_operation=lambda spec: subject(spec)[1],
            beside_first=kernels(trial.length, device), limits=self.limits,
        ).measured()  # fmt: skip


def _peaks(clock: Clock, device: str) -> Iterator[Measurement]:
    with fixed_cpus(device):
        matrix, copy = matrix_peak(clock, device), copy_peak(clock, device)
    yield Measurement(
        metric="matrix_peak_flops_per_second", value=matrix, unit="FLOP/s", better="none"
    )
    yield Measurement(metric="copy_peak_bytes_per_second", value=copy, unit="B/s", better="none")
