"""Measure the peak memory of a training step of a whole model.

It includes parameters, their gradients, the optimiser's states and tables, and the temporary memory
of the step: activations, and buffers that kernels and the optimiser take from torch's allocator.
The batch is not included. The first step creates the optimiser's states; a later one is measured.
"""

from __future__ import annotations

from collections.abc import Iterator

from bakeoff.suite.probes.probe import Probe, endless, initial_model, measurement
from bakeoff.suite.probes.tensor_bytes import NewTensors, peak_bytes
from bakeoff.suite.schema import Measurement, Point, Trial, metric_spec
from bakeoff.suite.tasks.registry import build_task
from bakeoff.suite.training.engines.local import LocalEngine


class PeakMemory(Probe):
    """Peak bytes of a training step, including the model's own tensors."""

    name = "peak_memory"
    version = 1
    grain = "variant"
    depends_on = frozenset({"batch", "precision"})
    compiles_as_asked = True
    is_at_length = True
    specs = (metric_spec("peak_memory_bytes"),)
    why_no_workers = "peak_memory measures one process; data_parallel measures workers"

    def measure(self, trial: Trial, device: str) -> Iterator[Point | Measurement]:
        """Run one step to create the lasting tensors, and measure a second one."""
        task = build_task(trial.task, trial.length)
        batches = [task.training_batch(step, trial.batch, trial.seed) for step in range(2)]
        if device != "cpu":  # libraries allocate what they keep at the first call
            _engine(trial, device).step(batches[0], task)
        new = NewTensors()
        engine = _engine(trial, device)
        engine.step(batches[0], task)
        engine.optimizer.zero_grad(set_to_none=True)  # the profiler warns of older tensors
        peak = peak_bytes(lambda: engine.step(batches[1], task), device, new)
        yield measurement(self.metrics(None, trial.length)[0], peak)


def _engine(trial: Trial, device: str) -> LocalEngine:
    return LocalEngine(initial_model(trial), endless(trial.precision), device)
