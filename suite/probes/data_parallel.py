"""Measure training on several workers: throughput, memory, scaling efficiency.

Scaling efficiency is the time of a step on one worker alone, divided by the number of workers times
the time of the same step on all of them: 1 is perfect. The single worker is the first one, with the
local engine at the same precision, while the others wait. Both steps alternate, so that a moment of
high load affects them alike.

Model state is what a worker holds when all gradients and no activations exist: parameters,
gradients, optimiser states, and the buckets in which gradients are communicated (a 32nd of the
model). Rajbhandari et al. 2020 (arXiv:1910.02054), section 3 and figure 1, count for P parameters
and N workers, Adam and float32: 16 P bytes at stage 0, then 8 P + 8 P/N, 4 P + 12 P/N, 16 P/N.
DeepSpeed differs: a worker keeps a second float32 copy of the parameters whose optimiser states it
holds, as mixed precision would need (4 P/N more), and once all gradients exist, stage 1 too has
released those of other workers. The state is therefore 16 P, 4 P + 16 P/N at stages 1 and 2, 20 P/N
at stage 3.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import torch

from bakeoff.models import ModelSpec
from bakeoff.suite.errors import classified
from bakeoff.suite.probes.probe import SpreadProbe, endless, initial_model, measurement
from bakeoff.suite.probes.tensor_bytes import NewTensors, peak_bytes
from bakeoff.suite.schema import (
    Measurement,
    MetricSpec,
    Parallel,
    Point,
    Status,
    Trial,
    metric_spec,
)
from bakeoff.suite.tasks.registry import build_task
from bakeoff.suite.tasks.task import Batch
from bakeoff.suite.training.checkpoint import Checkpointer
from bakeoff.suite.training.engines.local import LocalEngine
from bakeoff.suite.training.engines.sharded import ShardedEngine

_WARM_UP_ROUNDS = 2
_ROUNDS = 9
# The first step creates the optimiser's states. The minimum of the others counts, because a
# communication buffer for gradients is sometimes released late.
_STEPS_OF_STATE = 5
_OUT_OF_MEMORY = "one worker alone runs out of memory, so there is nothing to compare with"


class DataParallel(SpreadProbe):
    """Tokens per second, memory per worker, and scaling efficiency."""

    name = "data_parallel"
    version = 2
    grain = "seed"
    depends_on = frozenset({"batch", "parallel"})
    is_at_length = True
    specs = (
        metric_spec("tokens_per_second"),
        metric_spec("peak_memory_bytes"),
        metric_spec("model_state_bytes"),
        metric_spec("scaling_efficiency"),
    )

    def why_not(self, model: ModelSpec, parallel: Parallel | None) -> str:
        """Return why a trial is skipped; it must have several workers."""
        if parallel is not None:
            return ""
        return "data_parallel measures DeepSpeed's workers; set workers or zero"

    def measure(self, trial: Trial, device: str) -> Iterator[Point | Measurement]:
        """Raise an error, since `why_not` allows only trials of several workers."""
        raise AssertionError("data_parallel is planned for trials of several workers only")

    def measure_on_workers(
        self, trial: Trial, device: str, checkpointer: Checkpointer
    ) -> Iterator[Point | Measurement]:
        """Measure the memory in separate steps, then time rounds of steps."""
        bench = _WorkerBench(trial, device)
        throughput, peak, model_state, efficiency = self.metrics(None, trial.length)
        model_state_bytes, peak_of_step = bench.memory()
        yield measurement(model_state, model_state_bytes)
        yield measurement(peak, peak_of_step)
        times = bench.times()
        tokens = trial.batch * trial.length
        yield _median(throughput, [tokens / seconds for seconds in times.shared])
        yield _efficiency(efficiency, times, bench.engine.num_workers)


@dataclass
class _Times:
    """Seconds of the same steps; `alone` is None once the single worker has run out of memory."""

    shared: list[float] = field(default_factory=list)
    alone: list[float] | None = field(default_factory=list)


def _median(spec: MetricSpec, samples: list[float]) -> Measurement:
    """Return the median of the samples, with the quartiles as spread."""
    low, median, high = statistics.quantiles(samples, n=4, method="inclusive")
    return measurement(spec, median, spread_low=low, spread_high=high)


def _efficiency(spec: MetricSpec, times: _Times, num_workers: int) -> Measurement:
    if times.alone is None:
        return measurement(spec, None, status=Status.OUT_OF_MEMORY, reason=_OUT_OF_MEMORY)
    pairs = zip(times.alone, times.shared, strict=True)
    return _median(spec, [alone / (num_workers * shared) for alone, shared in pairs])


class _WorkerBench:
    """The model and its engine on this worker."""

    def __init__(self, trial: Trial, device: str) -> None:
        assert trial.parallel is not None, "a trial of several workers says how it is spread"
        self.trial, self.device = trial, device
        self.tensors = NewTensors()
        self.engine = ShardedEngine(
            initial_model(trial), endless("float32"), trial.parallel, device
        )
        self.task = build_task(trial.task, trial.length)

    def memory(self) -> tuple[float, float]:
        """Return the bytes of model state and the peak of a step, on the worker with the most."""
        held: list[int] = []
        for step in range(_STEPS_OF_STATE):
            self.engine.step(self._batch(step), self.task, lambda: held.append(self.state_bytes()))
        batch = self._batch(_STEPS_OF_STATE)
        peak = peak_bytes(lambda: self.engine.step(batch, self.task), self.device, self.tensors)
        return self.engine.largest(min(held[1:])), self.engine.largest(peak)

    def state_bytes(self) -> int:
        """Return the bytes of the tensors that outlive a step, without the model's buffers."""
        buffers = list[torch.Tensor](self.engine.model.module.buffers())
        return self.tensors.bytes() - sum(b.untyped_storage().nbytes() for b in buffers)

    def times(self) -> _Times:
        """Time the step on all workers and the step on the first one alone, in rounds."""
        lone = self._lone_step() if self.engine.rank == 0 else None
        times = _Times()
        for step in range(_WARM_UP_ROUNDS + _ROUNDS):
            self._one_round(self._batch(step), lone, times)
        times.shared = times.shared[_WARM_UP_ROUNDS:]
        times.alone = times.alone and times.alone[_WARM_UP_ROUNDS:]
        return times

    def _one_round(
        self, batch: Batch, lone: Callable[[Batch], object] | None, times: _Times
    ) -> None:
        """Run one round; the others wait in `agreed` until the first worker's step is over."""
        if times.alone is not None:
            alone = self._seconds(lambda: lone(batch)) if lone is not None else None
            if self.engine.agreed(alone is not None):
                times.alone.append(alone or 0.0)  # only those of the first worker are reported
            else:
                times.alone = None
        self.engine.agreed(True)  # a barrier, so that all workers begin together
        shared = self._seconds(lambda: self.engine.step(batch, self.task))
        assert shared is not None, "the steps before this one had room"
        times.shared.append(shared)

    def _seconds(self, step: Callable[[], object]) -> float | None:
        """Return the seconds of one step on an idle device, or None if it ran out of memory."""
        _synchronise(self.device)
        start = time.perf_counter()
        try:
            step()
        except RuntimeError as error:
            if classified(error)[0] is not Status.OUT_OF_MEMORY:
                raise
            return None
        _synchronise(self.device)
        return time.perf_counter() - start

    def _lone_step(self) -> Callable[[Batch], object]:
        """Return the same step on the whole batch, in this process alone."""
        assert self.trial.parallel is not None, "see `__init__`"
        training = endless(self.trial.parallel.precision)
        engine = LocalEngine(initial_model(self.trial), training, self.device)
        return lambda batch: engine.step(batch, self.task)

    def _batch(self, step: int) -> Batch:
        return self.task.training_batch(step, self.trial.batch, self.trial.seed)


def _synchronise(device: str) -> None:
    if device != "cpu":  # kernel launches are asynchronous
        torch.cuda.synchronize(device)
