"""How does a training go on where it was, rather than begin anew?

What is kept is the engine's state and, of each worker, the step, the points so far, the losses
since the last point and the state of the random numbers; data are a pure function of the step. So
what resumes ends with the numbers of what was never disturbed, bit for bit on the same machine.

Several workers write into one folder, and agree on every turn: what one of them cannot write or
read, none of them takes for kept.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Generator, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor

from suite import durable, random_states
from suite.checkpoints import Keeper, Unfit
from suite.schema import Point, Remark, TrainedState
from suite.tensor_files import read_json, read_tensors, write_json, write_tensors
from suite.training.engines.engine import Engine
from suite.training.loop import Exercise, Progress, steps, train_by

_TOKEN_BITS = 48  # of a draft's name; workers tell each other by a float64
_LOSSES = "losses"
_ELSEWHERE = "another worker has trouble with it"


class Resumable(Engine, Protocol):
    """An engine whose state can be written and read; of several workers, by all at once."""

    device: str
    rank: int
    num_workers: int

    def save(self, folder: Path) -> None:
        """Write this worker's part.

        Raises:
            OSError: it could not be written.
            suite.checkpoints.Unfit: it cannot be kept at all.
        """

    def load(self, folder: Path) -> None:
        """Read it back, into an engine that has made no step.

        Raises:
            suite.checkpoints.Unfit: it does not fit, on all workers alike; nothing was changed.
        """

    def state_sha256(self) -> str:
        """Of parameters, buffers and the optimiser's state; of all workers, on all alike."""

    def agreed(self, is_so: bool) -> bool:
        """What the first worker says."""

    def all_agree(self, is_so: bool) -> bool:
        """Whether every worker says so."""

    def largest(self, value: float) -> float:
        """The largest that any worker says."""


def train_resuming(
    engine: Resumable, exercise: Exercise, keeper: Keeper | None
) -> Iterator[Point | Remark | TrainedState]:
    """Train from the newest checkpoint on, or from the start; yield all points of the curve.

    Whether a checkpoint is due is asked after every step in one process, and at points of the
    curve of several workers, who must agree; there by the first one's clock.

    Raises:
        Diverged: at the first loss that is not finite; on all workers alike.
    """
    if keeper is None:
        yield from train_by(engine, exercise, Progress())
    else:
        yield from _train_keeping(engine, exercise, keeper)
    yield from _trained_state(engine)


@dataclass
class _Life:
    """What a training has come to, besides the engine's state."""

    progress: Progress = field(default_factory=Progress)
    points: list[Point] = field(default_factory=list)


def _train_keeping(
    engine: Resumable, exercise: Exercise, keeper: Keeper
) -> Iterator[Point | Remark]:
    life = yield from _restored(engine, keeper)
    if life.progress.step:
        step, last = life.progress.step, exercise.training.steps
        yield Remark(f"it goes on from step {step:,} of {last:,}")
    yield from life.points
    is_at_point = False
    for point in steps(engine, exercise, life.progress):
        if point is not None:
            life.points.append(point)
            is_at_point = True
            yield point
            continue
        if (engine.num_workers == 1 or is_at_point) and engine.agreed(keeper.is_due()):
            yield from _keep(engine, keeper, life)
        is_at_point = False


def _trained_state(engine: Resumable) -> Iterator[TrainedState]:
    """None for a module of a user's that holds what cannot be hashed."""
    try:
        yield TrainedState(engine.state_sha256())
    except Unfit:
        return


def _keep(engine: Resumable, keeper: Keeper, life: _Life) -> Iterator[Remark]:
    """A checkpoint, or a word why there is none; the training goes on in either case."""
    own = float(secrets.randbits(_TOKEN_BITS)) if engine.rank == 0 else 0.0
    draft = keeper.draft(int(engine.largest(own)))
    why = _trouble(lambda: _write_own(engine, life, draft))
    if engine.all_agree(not why):
        why = _trouble(lambda: engine.save(draft))
        if engine.all_agree(not why) and engine.rank == 0:
            why = _trouble(lambda: keeper.publish(draft, life.progress.step))
            if not why:
                return
    if engine.rank == 0 and (sentence := keeper.give_up(draft, why or _ELSEWHERE)):
        yield Remark(sentence)


def _trouble(attempt: Callable[[], None]) -> str:
    try:
        attempt()
    except (OSError, Unfit, MemoryError) as error:
        return str(error) or type(error).__name__
    return ""


def _write_own(engine: Resumable, life: _Life, draft: Path) -> None:
    durable.make_folder(draft)
    losses = [loss.reshape(1) for loss in life.progress.losses]
    write_tensors(
        draft / f"worker-{engine.rank}.safetensors",
        {_LOSSES: torch.cat(losses) if losses else torch.zeros(0)} | random_states.torch_states(),
    )
    write_json(
        draft / f"worker-{engine.rank}.json",
        {
            "step": life.progress.step,
            "points": [asdict(point) for point in life.points],
            "random": random_states.other_states(),
        },
    )


def _restored(engine: Resumable, keeper: Keeper) -> Generator[Remark, None, _Life]:
    """As the newest checkpoint has it that all workers can read; a remark for each that fails."""
    while True:
        found = keeper.latest()
        yield from map(Remark, found.remarks)
        newest = int(engine.largest(found.generation))
        if not newest:
            return _Life()
        try:
            return _read(engine, found.folder if found.generation == newest else None)
        except Unfit as error:
            if found.generation == newest:
                yield Remark(keeper.set_aside(found, str(error)))


def _read(engine: Resumable, folder: Path | None) -> _Life:
    """What this worker has kept; the engine and the random numbers are set to it.

    Raises:
        Unfit: on all workers alike, and nothing was changed.
    """
    why, own = _ELSEWHERE, None
    if folder is not None:
        try:
            own = _read_own(engine, folder)
        except Unfit as error:
            why = str(error)
    if not engine.all_agree(own is not None) or own is None or folder is None:
        raise Unfit(why)
    engine.load(folder)
    life, tensors, others = own
    random_states.restore(tensors, others)
    return life


def _read_own(
    engine: Resumable, folder: Path
) -> tuple[_Life, dict[str, Tensor], dict[str, object]]:
    """With the states of the random numbers, as torch's tensors and as JSON.

    Raises:
        Unfit: it cannot be read.
    """
    kept = read_json(folder / f"worker-{engine.rank}.json")
    tensors = read_tensors(folder / f"worker-{engine.rank}.safetensors")
    try:
        losses = list(tensors.pop(_LOSSES).to(engine.device))
        points = [Point(**point) for point in kept["points"]]
        life = _Life(Progress(step=kept["step"], losses=losses), points)
        return life, tensors, kept["random"]
    except (KeyError, TypeError) as error:
        raise Unfit(f"it lacks what this program keeps ({error})") from error
