"""Train a model on a task from the newest checkpoint on; yield points and write checkpoints.

The caller initialises the model. The order of the data and their augmentation are a pure function
of (seed, step), so all variants of a seed train on the same batches. A checkpoint holds the
engine's state and, for each worker, the step, the points so far, the losses since the last point
and the random states. So a resumed training ends with the numbers of an uninterrupted one, bit for
bit on the same machine.

Several workers write into one folder and agree on every decision: if one of them cannot write or
read a checkpoint, none of them uses it.
"""

from __future__ import annotations

import math
import random
import secrets
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from bakeoff.suite.errors import CheckpointError, Diverged
from bakeoff.suite.events import Condition, TrainedState, TrialRemark
from bakeoff.suite.schema import Point, Training
from bakeoff.suite.stopping import stoppable
from bakeoff.suite.tasks.task import Batch, Task
from bakeoff.suite.training import tensor_io as atomic_files
from bakeoff.suite.training.augmentation import training_batch
from bakeoff.suite.training.batches_ahead import batches_for
from bakeoff.suite.training.checkpoint import Checkpointer
from bakeoff.suite.training.engines.engine import Engine
from bakeoff.suite.training.engines.engine import (
    evaluate as evaluate,  # for models without an engine
)
from bakeoff.suite.training.engines.local import LocalEngine
from bakeoff.suite.training.tensor_io import read_json, read_tensors, write_json, write_tensors
from bakeoff.suite.training.weights import keep_weights

VERSION = 1  # increases whenever a change of the code changes a number
VALIDATION = "validation_"  # the prefix of the metric of an evaluation point
_TRAINING_LOSSES_PER_CURVE = 40


@dataclass(frozen=True, kw_only=True)
class Exercise:
    """The task and the settings of a training."""

    task: Task
    training: Training
    batch: int
    seed: int
    flops_per_step: float | None = None

    def flops_at(self, step: int) -> float | None:
        """Return the training FLOPs spent after `step` steps, or None if unknown."""
        return None if self.flops_per_step is None else self.flops_per_step * step


@dataclass
class TrainingProgress:
    """The progress of a training: with the engine's state, all that it needs to resume.

    Attributes:
        step: The number of completed steps.
        losses: The losses of the steps since the last point of the curve.
        points: The points of the curve so far; the caller of `steps` appends them.
    """

    step: int = 0
    losses: list[Tensor] = field(default_factory=list)
    points: list[Point] = field(default_factory=list)


def train(model: nn.Module, exercise: Exercise, device: str) -> Iterator[Point]:
    """Train in place, in this process; yield training losses and validation scores.

    Raises:
        Diverged: at the first loss that is not finite.
    """
    engine = LocalEngine(model, exercise.training, device, seed=exercise.seed)
    with closing(steps(engine, exercise, TrainingProgress())) as found:
        yield from (point for point in found if point is not None)
    engine.finish()


def steps(
    engine: Engine, exercise: Exercise, progress: TrainingProgress
) -> Generator[Point | None, None, None]:
    """Train from `progress` on and update it; yield training losses and validation scores.

    It yields None after each step and its points: a checkpoint may be written there. Close it if it
    is not exhausted: on a GPU a thread makes batches ahead.

    Raises:
        Diverged: at the first loss that is not finite; on all workers alike.
    """
    training, task = exercise.training, exercise.task

    def made(step: int) -> Batch:
        return training_batch(task, step - 1, exercise.batch, exercise.seed, training)

    to_do = range(progress.step + 1, training.steps + 1)
    with batches_for(engine.device, made, to_do) as batches:
        for step in to_do:
            progress.losses.append(engine.step(batches.next(), task))
            progress.step = step
            if _falls_due(step, training.steps, _TRAINING_LOSSES_PER_CURVE):
                point = _loss_point(engine, progress, exercise)
                progress.losses.clear()
                yield point
            if _falls_due(step, training.steps, training.num_evaluations):
                with batches.paused():
                    point = _validation_point(engine, step, exercise)
                yield point
            yield None


def _falls_due(step: int, steps: int, times: int) -> bool:
    """Return True if one of `times` evenly spaced points, the last at the end, is in this step."""
    return step * times // steps > (step - 1) * times // steps


def _loss_point(engine: Engine, progress: TrainingProgress, exercise: Exercise) -> Point:
    """Return the mean loss since the last point; only this synchronises with the device."""
    mean, metric = engine.mean(progress.losses), {"unit": "nat", "better": "lower"}
    return _point("training loss", mean, progress.step, exercise, metric="training_loss", **metric)


def _validation_point(engine: Engine, step: int, exercise: Exercise) -> Point:
    metric = exercise.task.metric
    value = engine.evaluate(exercise.task, "validation", exercise.batch)
    name = f"{VALIDATION}{metric.name}"
    what = f"validation {metric.name}"
    return _point(what, value, step, exercise, metric=name, unit=metric.unit, better=metric.better)


def _point(what: str, value: float, step: int, exercise: Exercise, **metric: Any) -> Point:
    if not math.isfinite(value):
        raise Diverged(f"the {what} is {value} at step {step}")
    return Point(step=step, flops=exercise.flops_at(step), value=value, **metric)


_TOKEN_BITS = 48  # the bits of a draft's name, which workers exchange as a float64
_LOSSES, _RANDOM_CPU, _RANDOM_GPU = "losses", "random_cpu", "random_gpu"
_ON_ANOTHER_WORKER = "another worker cannot write or read it"


def train_resuming(
    engine: Engine, exercise: Exercise, checkpointer: Checkpointer | None
) -> Iterator[Point | TrialRemark | TrainedState | Condition]:
    """Train from the newest checkpoint on, or from the start; yield all points of the curve.

    A single process checks after every step whether a checkpoint is due. Several workers must
    agree: they check at points of the curve, and the first worker's clock decides.

    A process that is asked to stop (see `bakeoff.suite.stopping`) writes a checkpoint first.

    At the end the model has the weights with which it is scored.

    Raises:
        Diverged: at the first loss that is not finite; on all workers alike.
        OSError, CheckpointError: if weights from which other trials start cannot be saved.
    """
    yield from _train(engine, exercise, checkpointer)
    if engine.how_steps_run:
        yield Condition("training steps", engine.how_steps_run)
    yield from engine.kernels
    with suppress(CheckpointError):  # a user's module may have state that cannot be hashed
        yield TrainedState(engine.state_sha256())
    engine.finish()
    if checkpointer and checkpointer.keeps_weights:
        weights = engine.weights()  # collective on all workers; the first one writes
        if engine.rank == 0:
            steps_done = exercise.training.steps
            keep_weights(checkpointer.folder, checkpointer.trial_id, weights, steps_done)


def _train(
    engine: Engine, exercise: Exercise, checkpointer: Checkpointer | None
) -> Iterator[Point | TrialRemark]:
    progress = TrainingProgress()
    if checkpointer:
        progress = yield from _restored(engine, checkpointer)
    if progress.step:
        yield TrialRemark(f"it resumes from step {progress.step:,} of {exercise.training.steps:,}")
    yield from progress.points
    if checkpointer is None:
        with closing(steps(engine, exercise, progress)) as found:
            yield from (point for point in found if point is not None)
        return
    is_at_point = False
    with (
        stoppable(checkpointer.folder) as stop,
        closing(steps(engine, exercise, progress)) as found,
    ):
        for point in found:
            if point is not None:
                progress.points.append(point)
                is_at_point = True
                yield point
                continue
            may_save = engine.num_workers == 1 or is_at_point
            if may_save and engine.agreed(checkpointer.is_due() or stop.is_made()):
                if checkpointer.may_resume:
                    yield from _save(engine, checkpointer, progress)
                if engine.agreed(stop.is_made()):
                    stop.obey()
            is_at_point = False


def _save(
    engine: Engine, checkpointer: Checkpointer, progress: TrainingProgress
) -> Iterator[TrialRemark]:
    """Write a checkpoint, or yield why there is none; the training continues in either case."""
    own = float(secrets.randbits(_TOKEN_BITS)) if engine.rank == 0 else 0.0
    draft = checkpointer.draft(int(engine.largest(own)))
    why = _failure(lambda: _write_own(engine, progress, draft))
    if _all_agree(engine, not why):
        why = _failure(lambda: engine.save(draft))
        if _all_agree(engine, not why) and engine.rank == 0:
            why = _failure(lambda: checkpointer.publish(draft, progress.step))
            if not why:
                return
    if engine.rank == 0 and (sentence := checkpointer.discard(draft, why or _ON_ANOTHER_WORKER)):
        yield TrialRemark(sentence)


def _failure(attempt: Callable[[], None]) -> str:
    """Return why the attempt failed, or "" if it did not."""
    try:
        attempt()
    except (OSError, CheckpointError, MemoryError) as error:
        return str(error) or type(error).__name__
    return ""


def _all_agree(engine: Engine, is_so: bool) -> bool:
    return not engine.largest(float(not is_so))


def _write_own(engine: Engine, progress: TrainingProgress, draft: Path) -> None:
    atomic_files.make_folder(draft)
    name = f"worker-{engine.rank}"
    losses = [loss.reshape(1) for loss in progress.losses]
    tensors = {_LOSSES: torch.cat(losses) if losses else torch.zeros(0)}
    write_tensors(draft / f"{name}.safetensors", tensors | _torch_random_states())
    points = [asdict(point) for point in progress.points]
    content = {"step": progress.step, "points": points, "random": _other_random_states()}
    write_json(draft / f"{name}.json", content)


def _restored(
    engine: Engine, checkpointer: Checkpointer
) -> Generator[TrialRemark, None, TrainingProgress]:
    """Resume from the newest checkpoint that all workers can read; yield remarks about others."""
    while True:
        found = checkpointer.latest()
        yield from map(TrialRemark, found.remarks)
        newest = int(engine.largest(found.generation))
        if not newest:
            return TrainingProgress()
        try:
            return _load(engine, found.folder if found.generation == newest else None)
        except CheckpointError as error:
            if found.generation == newest:
                yield TrialRemark(checkpointer.reject(found, str(error)))


def _load(engine: Engine, folder: Path | None) -> TrainingProgress:
    """Load this worker's progress, and set the engine and the random states.

    Raises:
        CheckpointError: if a worker cannot read its part; it is raised on all workers, and nothing
            was changed.
    """
    why, own = _ON_ANOTHER_WORKER, None
    if folder is not None:
        try:
            own = _read_own(engine, folder)
        except CheckpointError as error:
            why = str(error)
    if not _all_agree(engine, own is not None) or own is None or folder is None:
        raise CheckpointError(why)
    engine.load(folder)
    progress, tensors, others = own
    _restore_random_states(tensors, others)
    return progress


def _read_own(
    engine: Engine, folder: Path
) -> tuple[TrainingProgress, dict[str, Tensor], dict[str, Any]]:
    """Return the progress and the random states, as torch's tensors and as JSON.

    Raises:
        CheckpointError: if the files cannot be read.
    """
    content = read_json(folder / f"worker-{engine.rank}.json")
    tensors = read_tensors(folder / f"worker-{engine.rank}.safetensors")
    try:
        losses = list(tensors.pop(_LOSSES).to(engine.device))
        points = [Point(**point) for point in content["points"]]
        progress = TrainingProgress(step=content["step"], losses=losses, points=points)
        return progress, tensors, content["random"]
    except (KeyError, TypeError) as error:
        raise CheckpointError(f"it lacks what this program keeps ({error})") from error


def _torch_random_states() -> dict[str, Tensor]:
    states = {_RANDOM_CPU: torch.get_rng_state()}
    if torch.cuda.is_available():
        states[_RANDOM_GPU] = torch.cuda.get_rng_state()
    return states


def _other_random_states() -> dict[str, Any]:
    """Return the random states of Python, and of numpy's global generator if numpy is imported."""
    states: dict[str, Any] = {"python": random.getstate()}
    if "numpy" in sys.modules:
        name, words, *rest = sys.modules["numpy"].random.get_state()
        states["numpy"] = [name, words.tolist(), *rest]
    return states


def _restore_random_states(tensors: dict[str, Tensor], others: dict[str, Any]) -> None:
    """Restore the random states; that of a GPU only if there is one."""
    torch.set_rng_state(tensors[_RANDOM_CPU])
    if _RANDOM_GPU in tensors and torch.cuda.is_available():
        torch.cuda.set_rng_state(tensors[_RANDOM_GPU])
    version, words, gauss = others["python"]
    random.setstate((version, tuple(words), gauss))
    if "numpy" in others:
        import numpy as np

        np.random.set_state(tuple(others["numpy"]))
