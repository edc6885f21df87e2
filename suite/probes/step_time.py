"""Time a step of a whole model: forward, forward and backward, a training step.

All variants are interleaved in one process, on batches of the task; see `bakeoff.suite.timing`.
The tokens per second that follow from the times are reported too: of training, and of the forward
pass without gradients, which processes a whole prompt at once (prefill, without filling a cache).
The number of tokens of a batch is its sequences times the length of the trial.

On a GPU the peak rate of matrix products is measured first, and the share of it that a training
step uses is reported: FLOPs by formula, three times those of a forward pass, divided by the seconds
of the step and by the peak at the same precision. Chowdhery et al. 2022 (PaLM, arXiv:2204.02311,
section 4.1) call it MFU, but relative to the peak that the manufacturer states. On a GPU the
forward pass is also timed for a single sequence.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from torch import Tensor, nn

from bakeoff.models import ModelSpec
from bakeoff.models.flop_count import UncountedOperationError
from bakeoff.suite.probes.probe import (
    TRAINING_OVER_FORWARD,
    Probe,
    Said,
    at_length,
    endless,
    forward_flops,
    lengths_of,
    measurement,
    rate_of,
    share_of,
)
from bakeoff.suite.schema import Measurement, Precision, Status, Trial, metric_spec
from bakeoff.suite.tasks.registry import build_task
from bakeoff.suite.tasks.task import Batch, Task
from bakeoff.suite.timing.clock import Clock, clock_of
from bakeoff.suite.timing.comparison import Operations, TimingComparison
from bakeoff.suite.timing.passes import Pass, built, forward, forward_backward
from bakeoff.suite.timing.peaks import Peaks, are_wanted, peaks
from bakeoff.suite.training.engines.local import LocalEngine
from bakeoff.suite.training.engines.recording import nothing_recorded

METRIC = "training_step_seconds"
_FORWARD, _FORWARD_BACKWARD = "forward_seconds", "forward_backward_seconds"
_RATES = {
    METRIC: metric_spec("training_tokens_per_second"),
    _FORWARD: metric_spec("prefill_tokens_per_second"),
}
_SHARE = metric_spec("training_share_of_matrix_peak")
_NUM_BATCHES = 8


class StepTime(Probe):
    """Medians of interleaved rounds in one process, with their intervals."""

    name = "step_time"
    version = 2
    grain = "comparison"
    depends_on = frozenset({"batch", "precision"})
    compiles_as_asked = True
    is_at_length = True
    # Controls are not metrics of the variants.
    specs = (*map(metric_spec, (_FORWARD, _FORWARD_BACKWARD, METRIC)), *_RATES.values())
    why_no_workers = "step_time times one process; data_parallel measures workers"

    def measure(self, trial: Trial, device: str) -> Iterator[Said]:
        """Time all subjects, with the controls of the training step next to the first."""
        task = build_task(trial.task, trial.length)
        batches = [
            task.training_batch(step, trial.batch, trial.seed).to(device)
            for step in range(_NUM_BATCHES)
        ]
        clock = clock_of(device)
        found_peaks = peaks(clock, device, trial.precision) if are_wanted(device) else None
        if found_peaks:
            yield from found_peaks.rows(at_length(trial.length))
        bench = _StepBench(task, batches, device, trial.seed, trial.precision)
        timed = TimingComparison(
            trial=trial,
            device=device,
            clock=clock,
            compared=(METRIC, _FORWARD, _FORWARD_BACKWARD),
            operations=bench.operations,
            main_operation=bench.training_step,
            at=f"length={trial.length}",
        )
        for found in timed.measured():
            yield found
            if found.metric in _RATES:
                yield rate_of(_RATES[found.metric], trial.batch * trial.length, found)
            if found_peaks and found.metric == METRIC:
                yield _share(trial, found_peaks, found)
        if found_peaks and trial.batch > 1:
            yield from _of_one_sequence(trial, device, clock, bench)
        yield from timed.kernels_used()
        yield from timed.state_changes()
        yield from clock.conditions()


def _of_one_sequence(trial: Trial, device: str, clock: Clock, bench: _StepBench) -> Iterator[Said]:
    """Time the forward pass over a single sequence."""
    one = replace(bench, batches=[batch.rows(slice(1)) for batch in bench.batches])
    timed = TimingComparison(
        trial=trial,
        device=device,
        clock=clock,
        compared=(_FORWARD,),
        operations=lambda spec: {_FORWARD: one.reading(spec)},
        main_operation=one.reading,
        at=f"length={trial.length}, batch=1",
    )
    for found in timed.measured():
        yield found
        if found.metric == _FORWARD:
            yield rate_of(_RATES[_FORWARD], trial.length, found)
    yield from timed.state_changes()


def _share(trial: Trial, found_peaks: Peaks, step: Measurement) -> Measurement:
    """Return the share of the matrix peak that a training step uses."""
    try:
        flops = forward_flops(trial.subjects[step.subject], trial.batch, lengths_of(trial))
    except UncountedOperationError as error:  # an operation in a user's own model
        why = {"status": Status.SKIPPED, "reason": str(error)}
        return measurement(_SHARE, None, subject=step.subject, at=step.at, **why)
    return share_of(found_peaks.matrix, _SHARE, TRAINING_OVER_FORWARD * flops, step)


@dataclass(frozen=True)
class _StepBench:
    """The batches and settings with which subjects are built.

    Attributes:
        batches: The batches on the device; every operation cycles through them in this order.
    """

    task: Task
    batches: Sequence[Batch]
    device: str
    seed: int
    precision: Precision

    def operations(self, spec: ModelSpec) -> Operations:
        """Return three operations of one model, whose parameters change while it is timed."""
        engine = self._engine(spec)
        model, graded = engine.model, self._again()

        def loss() -> Tensor:
            batch = next(graded)
            return self.task.loss(batch.through(model), batch)

        return {
            METRIC: self._step(engine),
            _FORWARD: self._reading(model),
            _FORWARD_BACKWARD: forward_backward(model, loss, inputs=None, gradient=None),
        }

    def reading(self, spec: ModelSpec) -> Pass:
        """Return the forward pass of a newly built model."""
        return self._reading(self._engine(spec).model)

    def _reading(self, model: nn.Module) -> Pass:
        inputs = self._again()
        return forward(model, lambda: next(inputs).through(model))

    def training_step(self, spec: ModelSpec) -> Pass:
        """Return the training step of a newly built model."""
        return self._step(self._engine(spec))

    def _engine(self, spec: ModelSpec) -> LocalEngine:
        model, training = built(spec, self.device, self.seed), endless(self.precision)
        if self.device == "cpu":
            return LocalEngine(model, training, self.device)
        with nothing_recorded("the timing records the step itself"):
            return LocalEngine(model, training, self.device, is_recorded=True)

    def _step(self, engine: LocalEngine) -> Pass:
        batches = self._again()
        return Pass(
            lambda: engine.step(next(batches), self.task),
            prepare=engine.model.train,
            clear=lambda: engine.optimizer.zero_grad(set_to_none=True),
        )

    def _again(self) -> Iterator[Batch]:
        return itertools.cycle(self.batches)
