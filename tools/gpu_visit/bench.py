"""Runs a trial's training loop beside bare replays of its recorded step."""

from __future__ import annotations

import statistics
import time

import torch

from bakeoff.models import build_model
from bakeoff.suite.schema import Trial
from bakeoff.suite.tasks.registry import build_task
from bakeoff.suite.training.engines.local import LocalEngine
from bakeoff.suite.training.loop import Exercise, TrainingProgress, steps
from tools.gpu_visit.stopwatch import wait_for

_NUM_LAPS = 6  # the first one does not count


class Bench:
    """A trial's engine, whose step is compiled, recorded, both, or on a CPU neither.

    Attributes:
        how: How its steps run.
        seconds_to_begin: The time of the first step, with compiling, recording and checks.
    """

    def __init__(self, trial: Trial, device: str, *, is_compiled: bool = False) -> None:
        assert trial.training is not None
        torch.manual_seed(0)
        self._device = device
        self._task = build_task(trial.task, trial.length)
        self._exercise = Exercise(
            task=self._task, training=trial.training, batch=trial.batch, seed=0
        )
        self.engine = LocalEngine(
            build_model(trial.subjects[0]),
            trial.training,
            device,
            is_recorded=device != "cpu",
            is_compiled=is_compiled,
        )
        begun = time.perf_counter()
        self._batch = self._task.training_batch(0, trial.batch, 0)
        self.engine.step(self._batch, self._task)
        wait_for(device)
        self.seconds_to_begin = time.perf_counter() - begun
        self.how = self.engine.how_steps_run

    @property
    def num_steps(self) -> int:
        """The number of steps of a lap."""
        return self._exercise.training.steps

    def lap(self) -> None:
        """Run the training loop from its first step."""
        for _ in steps(self.engine, self._exercise, TrainingProgress()):
            pass
        wait_for(self._device)

    def replays(self) -> None:
        """Replay the recorded step as often, with nothing in between; on a CPU run it."""
        recorded = self.engine._recorded
        if recorded is None:
            for _ in range(self.num_steps):
                self.engine.step(self._batch, self._task)
        else:
            (recording,) = recorded._recordings.values()
            for _ in range(self.num_steps):
                recording.replay()
        wait_for(self._device)

    def seconds(self) -> tuple[float, float]:
        """Return the seconds of a bare replay, and of a step in the loop: medians, in turn."""
        found: dict[str, list[float]] = {"replays": [], "lap": []}
        for _ in range(_NUM_LAPS if self._device != "cpu" else 2):
            for name, times in found.items():
                begun = time.perf_counter()
                getattr(self, name)()
                times.append((time.perf_counter() - begun) / self.num_steps)
        bare, loop = (statistics.median(times[1:]) for times in found.values())
        return bare, loop
