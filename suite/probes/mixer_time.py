"""Time a mixer alone: forward, forward and backward, one more token.

The mixer is a single layer over one sequence; over eight at ``batch=8``, and at ``threads=2`` with
two threads on two CPUs instead of all those of the worker. Controls are timed together with the
first subject: the subject built again and slowed, kernels of known growth, and the peak rates of
the device (`bakeoff.suite.timing.peaks`).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from bakeoff.models import ModelSpec
from bakeoff.suite.probes.decode import decode_step
from bakeoff.suite.probes.probe import Probe, Said, measurement
from bakeoff.suite.schema import Measurement, Status, Trial, metric_spec
from bakeoff.suite.timing.clock import clock_of
from bakeoff.suite.timing.comparison import Operations, TimingComparison, fixed_cpus
from bakeoff.suite.timing.kernels import kernels
from bakeoff.suite.timing.machine_load import num_cpus
from bakeoff.suite.timing.passes import Missing, Pass, built, over_vectors
from bakeoff.suite.timing.peaks import peaks
from bakeoff.suite.timing.stopping import Limits
from bakeoff.suite.training.engines.runtimes import prepared

MAIN = "forward_backward_seconds"
FORWARD, DECODE = "forward_seconds", "decode_token_seconds"


class MixerTime(Probe):
    """Medians of interleaved rounds in one process, with their intervals.

    Args:
        limits: The limits of a timing run; trials use None, those of the device's clock.
    """

    name = "mixer_time"
    version = 1
    grain = "comparison"
    is_swept = True
    depends_on = frozenset({"batch", "precision", "threads"})
    compiles_as_asked = True
    specs = tuple(map(metric_spec, (FORWARD, MAIN, DECODE)))  # without controls

    def __init__(self, limits: Limits | None = None) -> None:
        self.limits = limits

    def measure(self, trial: Trial, device: str) -> Iterator[Said]:
        """Measure the peaks, which raise the device's clock, then time everything in rounds.

        With fewer CPUs than threads nothing is timed, because the result would depend on the
        scheduler.
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

    def _measured(self, trial: Trial, device: str) -> Iterator[Said]:
        clock = clock_of(device)
        with fixed_cpus(device):
            found = peaks(clock, device, trial.precision)
        yield from found.rows()

        def subject(spec: ModelSpec) -> tuple[Pass, Pass]:
            made = built(spec, device, trial.seed)
            model = prepared(made, spec.runtime, device, trial.precision)
            return over_vectors(model, spec, device, trial.seed, trial.batch)

        def decode(spec: ModelSpec) -> Pass | Missing:
            return decode_step(spec, device, trial.seed, trial.batch, trial.precision)

        def operations(spec: ModelSpec) -> Operations:
            forward, forward_backward = subject(spec)
            # A subject that cannot decode, or lacks the memory for it, is still timed otherwise.
            return {
                MAIN: forward_backward,
                FORWARD: forward,
                DECODE: timed.or_missing(decode, spec),
            }

        timed = TimingComparison(
            trial=trial,
            device=device,
            clock=clock,
            compared=(MAIN, FORWARD, DECODE),
            operations=operations,
            main_operation=lambda spec: subject(spec)[1],
            beside_first=kernels(trial.length, device),
            limits=self.limits,
        )
        yield from timed.measured()
        yield from timed.kernels_used()
        yield from timed.state_changes()
        yield from clock.conditions()


@contextmanager
def _threads(number: int | None) -> Iterator[None]:
    """Set torch's number of threads inside the block, or leave it unchanged if it is None."""
    before = torch.get_num_threads()
    torch.set_num_threads(number or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)
