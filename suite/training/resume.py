"""Trains from the newest checkpoint on, and writes checkpoints while it trains.

A checkpoint holds the engine's state and, of each worker, the step, the points so far, the losses
since the last point and the state of its random numbers; data are a pure function of the step. So a
resumed training ends with the numbers of an uninterrupted one, bit for bit on the same machine.

Several workers write into one folder and agree on every decision: what one of them cannot write or
read, none of them uses.
"""

from __future__ import annotations

import random
import secrets
import sys
from collections.abc import Callable, Generator, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from suite.errors import CheckpointError
from suite.events import TrainedState, TrialRemark
from suite.schema import Point
from suite.training import tensor_io as atomic_files
from suite.training.checkpoint import Checkpointer
from suite.training.engines.engine import Engine
from suite.training.loop import Exercise, TrainingProgress, steps
from suite.training.tensor_io import read_json, read_tensors, write_json, write_tensors

_TOKEN_BITS = 48  # of a draft's name; workers exchange it as a float64
_LOSSES, _RANDOM_CPU, _RANDOM_GPU = "losses", "random_cpu", "random_gpu"
_ON_ANOTHER_WORKER = "another worker cannot write or read it"


def train_resuming(
    engine: Engine, exercise: Exercise, checkpointer: Checkpointer | None
) -> Iterator[Point | TrialRemark | TrainedState]:
    """Train from the newest checkpoint on, or from the start; yield all points of the curve.

    One process asks after every step whether a checkpoint is due. Several workers, who must agree,
    ask at points of the curve, and the first one's clock decides.

    Raises:
        Diverged: at the first loss that is not finite; on all workers alike.
    """
    yield from _train(engine, exercise, checkpointer)
    try:
        yield TrainedState(engine.state_sha256())
    except CheckpointError:  # a user's module holds what cannot be hashed
        return


def _train(
    engine: Engine, exercise: Exercise, checkpointer: Checkpointer | None
) -> Iterator[Point | TrialRemark]:
    progress = TrainingProgress()
    if checkpointer:
        progress = yield from _restored(engine, checkpointer)
    if progress.step:
        yield TrialRemark(f"it resumes from step {progress.step:,} of {exercise.training.steps:,}")
    yield from progress.points
    is_at_point = False
    for point in steps(engine, exercise, progress):
        if point is not None:
            progress.points.append(point)
            is_at_point = True
            yield point
            continue
        may_save = engine.num_workers == 1 or is_at_point
        if checkpointer and may_save and engine.agreed(checkpointer.is_due()):
            yield from _save(engine, checkpointer, progress)
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
    """Why the attempt failed; "" where it did not."""
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
    """From the newest checkpoint that all workers can read; a remark for each that fails."""
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
    """What this worker has saved; set the engine and the random numbers to it.

    Raises:
        CheckpointError: on all workers alike, and nothing was changed.
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
    """With the states of the random numbers, as torch's tensors and as JSON.

    Raises:
        CheckpointError: it cannot be read.
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
    """Of Python, and of numpy's global generator where something has imported numpy."""
    states: dict[str, Any] = {"python": random.getstate()}
    if "numpy" in sys.modules:
        name, words, *rest = sys.modules["numpy"].random.get_state()
        states["numpy"] = [name, words.tolist(), *rest]
    return states


def _restore_random_states(tensors: dict[str, Tensor], others: dict[str, Any]) -> None:
    """Set them back; a GPU's only where there is one."""
    torch.set_rng_state(tensors[_RANDOM_CPU])
    if _RANDOM_GPU in tensors and torch.cuda.is_available():
        torch.cuda.set_rng_state(tensors[_RANDOM_GPU])
    version, words, gauss = others["python"]
    random.setstate((version, tuple(words), gauss))
    if "numpy" in others:
        import numpy as np

        np.random.set_state(tuple(others["numpy"]))
