"""Score a trained model by the position in the window, at the longest length of its tests.

A language model only knows the preceding symbols: late in a window it should need fewer bits than
early in it, unless it cannot use positions beyond those of its training. Press et al. 2022
(arXiv:2108.12409, section 4) compare lengths; this probe compares positions within the longest.

Positions are counted from 1 and grouped in bands, each twice as wide as the one before: the score
at ``position=64`` is that of the 64th to the 127th symbol. The test split is used.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch

from bakeoff.models import ModelSpec, architecture_class
from bakeoff.suite.probes.probe import (
    ORIGIN,
    Said,
    TrainedModelProbe,
    measurement,
    task_metric,
    trained_model,
)
from bakeoff.suite.schema import MetricSpec, Parallel, Trial
from bakeoff.suite.tasks.registry import build_task, task_class
from bakeoff.suite.tasks.task import UNSCORED, Batch, Task
from bakeoff.suite.training.checkpoint import Checkpointer
from bakeoff.suite.training.engines.engine import in_evaluation_mode, score_batch, writes

AXIS = "position"


class ScoreByPosition(TrainedModelProbe):
    """The task's metric on the test split, by bands of positions."""

    name = "score_by_position"
    version = 1
    depends_on = TrainedModelProbe.depends_on | ORIGIN | {"test_lengths"}

    def metrics(self, task: type[Task] | None, length: int) -> tuple[MetricSpec, ...]:
        """Return the task's metric over the whole window; its bands are further coordinates."""
        assert task is not None, "score_by_position is no sweep"
        metric = task_metric(task)
        return (replace(metric, name=f"{metric.name}_by_position"),)

    def further_coordinates(self, trial: Trial) -> tuple[str, ...]:
        """Return the bands of the longest window."""
        return tuple(f"{AXIS}={first}" for first in bands(_longest(trial)))

    def why_not_on(self, task: type[Task]) -> str:
        """Return why a trial is skipped; generated sequences have no target positions."""
        return f"{task.metric.name} is not of single positions" if writes(task.metric) else ""

    def why_not(self, model: ModelSpec, parallel: Parallel | None) -> str:
        """Return why a trial is skipped; the model must have an answer at each position."""
        if not {"symbols", "next_symbols"} & set(architecture_class(model.architecture).answers):
            return f"it looks at each position, and a {model.architecture} gives one answer for all"
        return super().why_not(model, parallel)

    def measure_resuming(
        self, trial: Trial, device: str, checkpointer: Checkpointer | None
    ) -> Iterator[Said]:
        """Run one pass over the test split."""
        model = trained_model(trial, checkpointer, device)
        length = _longest(trial)
        task = build_task(trial.task, length)
        spec = self.metrics(task_class(trial.task), length)[0]
        sums: dict[str, list[torch.Tensor]] = {}
        num_rows = max(1, trial.batch * trial.length // length)
        with in_evaluation_mode(model), torch.inference_mode():
            for held_out in task.held_out("test", num_rows):
                batch = held_out.to(device)
                sums_of = score_batch(model, task.metric, batch)
                for at, part in _parts(batch):
                    sums.setdefault(at, []).append(sums_of(part))
        for at, found in sums.items():
            yield measurement(replace(spec, at=at), task.metric.over(found))


def _longest(trial: Trial) -> int:
    return max(trial.length, *trial.test_lengths, 0)


def bands(length: int) -> list[int]:
    """Return the first position of each band: 1, 2, 4, ... up to the length."""
    return [2**power for power in range(length.bit_length())]


def _parts(batch: Batch) -> Iterator[tuple[str, Batch]]:
    """Yield the whole batch, then each band of its targets `[batch, time]` that has any."""
    yield "", batch
    time = batch.targets.shape[1]
    position = torch.arange(1, time + 1, device=batch.targets.device)
    for first in bands(time):
        inside = (position >= first) & (position < 2 * first)
        part = batch.only(inside.expand(batch.targets.shape))
        if (part.targets != UNSCORED).any():
            yield f"{AXIS}={first}", part
