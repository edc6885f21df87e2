"""Where do trials keep what they could go on from, and how often?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

SECONDS_BETWEEN = 300.0


@dataclass(frozen=True, kw_only=True)
class Checkpoints:
    """A folder, which all hosts of a trial must share, and the time between two checkpoints.

    Attributes:
        folder: One folder a trial stands in it, by the trial's id, until the trial has a result.
        seconds_between: At least; a trial that is over sooner leaves none.
    """

    folder: Path
    seconds_between: float = SECONDS_BETWEEN


class Keeper(Protocol):
    """Where a worker finds what its trial can go on from, and leaves it for the next one."""

    def latest(self) -> Path | None:
        """The folder of the newest checkpoint, complete; None where there is none."""

    def is_due(self) -> bool:
        """Whether it is time for another, by this worker's clock."""

    def keep(self, write: Callable[[Path], None]) -> None:
        """Have `write` fill a folder of this worker's own; all workers at once.

        What all have written makes the newest checkpoint.
        """
