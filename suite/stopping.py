"""Let a training save its state before it is stopped.

A training in this process is asked by a function call, one in another process by a file in the
folder of checkpoints, which both can access. It responds at the end of a step, where a checkpoint
can be written, and is stopped without one if that takes too long.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

SECONDS_TO_SAVE = 5.0  # for the end of a step; batch systems kill some seconds after their warning
_SECONDS_TO_WRITE = 60.0  # for a checkpoint that is being written by then
_SECONDS_BETWEEN_LOOKS = 0.2
_FILE = "stop"
UNFINISHED = "unfinished-"  # prefix of the folder of a checkpoint that is being written


class TrainingStopped(BaseException):
    """Raised after a training has saved its state, because another process asked it to stop.

    This is not an `Exception`, which would become the result of the trial.
    """


@dataclass(eq=False)
class StopRequest:
    """The request to stop one training, which checks it after each step.

    Attributes:
        folder: The folder of checkpoints, in which other processes ask, or None if there is none.
        end: The function that ends the training after it has saved, or None until it is asked to
            stop.
    """

    folder: Path | None
    end: Callable[[], object] | None = None
    _next_look: float = field(default=0.0)

    def is_made(self) -> bool:
        """Return True if the training is asked to stop; check for the file from time to time."""
        now = time.monotonic()
        if self.end is None and self.folder is not None and now >= self._next_look:
            self._next_look = now + _SECONDS_BETWEEN_LOOKS
            if (self.folder / _FILE).exists():
                self.end = _stop_here
        return self.end is not None

    def obey(self) -> None:
        """End the training.

        Raises:
            BaseException: Always; the exception that `end` raises.
        """
        (self.end or _stop_here)()
        raise TrainingStopped


def _stop_here() -> None:
    raise TrainingStopped


_REQUESTS: list[StopRequest] = []  # requests to the trainings of this process


@contextmanager
def stoppable(folder: Path | None) -> Iterator[StopRequest]:
    """Let `at_next_step` and `ask` reach the training in the block."""
    request = StopRequest(folder)
    _REQUESTS.append(request)
    try:
        yield request
    finally:
        _REQUESTS.remove(request)


def at_next_step(end: Callable[[], object]) -> bool:
    """Let the training of this process save its state and then call `end`, which raises.

    Returns:
        False if no training of this process can be asked, so that the caller has to raise.
    """
    if not _REQUESTS:
        return False
    _REQUESTS[-1].end = end
    return True


def ask(folder: Path) -> None:
    """Ask all trainings that keep their checkpoints in the folder to save and to stop."""
    with suppress(OSError):  # without the folder there are no checkpoints
        (folder / _FILE).touch()


def withdraw(folder: Path) -> None:
    """Remove the request of `ask`, including one left by a killed process."""
    with suppress(OSError):
        (folder / _FILE).unlink()


def moments_to_wait(folder: Path, trial_ids: Callable[[], list[str]]) -> Iterator[None]:
    """Yield while the trials that were asked to stop may still save their state.

    Args:
        folder: The folder of checkpoints.
        trial_ids: Returns the trials that have not ended.
    """
    began = time.monotonic()
    while waiting := trial_ids():
        seconds = time.monotonic() - began
        if seconds > SECONDS_TO_SAVE and not any(
            is_being_written(folder / trial_id) for trial_id in waiting
        ):
            return
        if seconds > _SECONDS_TO_WRITE:
            return
        yield


def is_being_written(folder: Path) -> bool:
    """Return True if there is an unfinished checkpoint in the folder of a trial."""
    with suppress(OSError):
        return any(path.name.startswith(UNFINISHED) for path in folder.iterdir())
    return False
