"""How does a training on several workers go on where it was, rather than begin anew?

What a worker keeps is the engine's state, the points so far, the losses since the last point and
the state of the random numbers; data are a pure function of the step. So what resumes ends with
the numbers of what was never disturbed. A checkpoint with a byte amiss counts as none.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import torch

from suite.checkpoints import Keeper
from suite.engines.engine import Engine
from suite.schema import Point
from suite.training import VALIDATION, Exercise, Progress, train_by


class Resumable(Engine, Protocol):
    """An engine whose state can be written and read."""

    rank: int

    def save(self, folder: Path) -> None:
        """Write this worker's part."""

    def load(self, folder: Path) -> None:
        """Read it back."""

    def agreed(self, is_so: bool) -> bool:
        """What the first worker says."""

    def all_agree(self, is_so: bool) -> bool:
        """Whether every worker says so."""


def train_resuming(engine: Resumable, exercise: Exercise, keeper: Keeper) -> Iterator[Point]:
    """Train from the newest checkpoint on, or from the start; yield all points of the curve.

    Checkpoints are made at evaluation points, when the first worker's clock says so.

    Raises:
        Diverged: at the first loss that is not finite; on all workers alike.
    """
    progress, points = _restored(engine, keeper.latest())
    yield from points
    for point in train_by(engine, exercise, progress):
        points.append(point)
        yield point
        if point.metric.startswith(VALIDATION) and engine.agreed(keeper.is_due()):
            keeper.keep(partial(_write, engine, progress, points))


def _write(engine: Resumable, progress: Progress, points: list[Point], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    engine.save(folder)
    torch.save(
        {
            "step": progress.step,
            "losses": [loss.cpu() for loss in progress.losses],
            "points": json.dumps([asdict(point) for point in points]),
            "random": _random_states(),
        },
        folder / f"worker-{engine.rank}.pt",
    )
    digests = {file.relative_to(folder).as_posix(): _digest(file) for file in _files(folder)}
    (folder / f"digests-{engine.rank}.json").write_text(json.dumps(digests))


def _restored(engine: Resumable, folder: Path | None) -> tuple[Progress, list[Point]]:
    if not engine.all_agree(folder is not None and _is_whole(folder, engine.rank)):
        return Progress(), []
    assert folder is not None, "all workers, this one too, have said that there is one"
    engine.load(folder)
    kept: dict[str, Any] = torch.load(folder / f"worker-{engine.rank}.pt", weights_only=True)
    for take, state in zip(_TAKE, kept["random"], strict=False):
        take(state)
    return (
        Progress(step=kept["step"], losses=kept["losses"]),
        [Point(**point) for point in json.loads(kept["points"])],
    )


# torch.load would take a file with a flipped bit without a word.
def _is_whole(folder: Path, rank: int) -> bool:
    try:
        digests = json.loads((folder / f"digests-{rank}.json").read_text())
        return all(_digest(folder / name) == digest for name, digest in digests.items())
    except (OSError, ValueError):
        return False


def _files(folder: Path) -> list[Path]:
    return sorted(file for file in folder.rglob("*") if file.is_file())


def _digest(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


_TAKE = (torch.set_rng_state, torch.cuda.set_rng_state)


def _random_states() -> list[torch.Tensor]:
    """Of the CPU, and of this worker's GPU where it has one."""
    cuda = [torch.cuda.get_rng_state()] if torch.cuda.is_available() else []
    return [torch.get_rng_state(), *cuda]
