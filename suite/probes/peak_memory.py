"""Measure the peak memory of a training step of a whole model.

Parameters, their gradients, the optimiser's states and tables, and what the step itself holds:
activations, and what kernels and the optimiser take from torch's allocator for a moment. The batch
is not in it. The first step makes the optimiser's states; a later one is watched.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from models import ModelSpec, build_model
from suite.probes.probe import Probe
from suite.probes.tensor_bytes import NewTensors, peak_bytes
from suite.schema import Measurement, MetricSpec, Parallel, Point, Training, Trial
from suite.tasks.registry import build_task
from suite.tasks.task import Task
from suite.training.engines.local import LocalEngine

METRIC = "peak_memory_bytes"
_TRAINING = Training(
    steps=2, learning_rate=1e-3, warmup_steps=1, weight_decay=0.01, num_evaluations=1
)


class PeakMemory(Probe):
    """Peak bytes of a training step, all that the model takes included."""

    name = "peak_memory"
    version = 1
    grain = "variant"
    is_batched = True

    def why_not(self, model: ModelSpec, parallel: Parallel | None) -> str:
        """It measures what happens in one process."""
        return (
            "peak_memory measures one process; data_parallel measures workers" if parallel else ""
        )

    def metrics(self, task: type[Task] | None, length: int) -> tuple[MetricSpec, ...]:
        """Bytes, at the length of the trial."""
        return (MetricSpec(name=METRIC, unit="B", better="lower", at=f"length={length}"),)

    def measure(self, trial: Trial, device: str) -> Iterator[Point | Measurement]:
        """A step to make what stays, and a step that is watched."""
        task = build_task(trial.task, trial.length)
        batches = [task.training_batch(step, trial.batch, trial.seed) for step in range(2)]
        if device != "cpu":  # where libraries take what they keep at the first call
            _engine(trial, device).step(batches[0], task)
        new = NewTensors()
        engine = _engine(trial, device)
        engine.step(batches[0], task)
        engine.optimizer.zero_grad(set_to_none=True)  # the profiler warns of what it never saw made
        peak = peak_bytes(lambda: engine.step(batches[1], task), device, new)
        yield Measurement(
            metric=METRIC, value=float(peak), unit="B", better="lower", at=f"length={trial.length}"
        )


def _engine(trial: Trial, device: str) -> LocalEngine:
    torch.manual_seed(trial.seed)
    return LocalEngine(build_model(trial.subjects[0]), _TRAINING, device)
