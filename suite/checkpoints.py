"""Where do trials keep what they could go on from, and how often?"""

from __future__ import annotations

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


@dataclass(frozen=True)
class Found:
    """What a trial can go on from.

    Attributes:
        generation: The number of the newest checkpoint that can be trusted; 0 where there is none.
        folder: Where it lies; None where there is none.
        remarks: What was wrong with newer ones: sentences for whoever watches.
    """

    generation: int = 0
    folder: Path | None = None
    remarks: tuple[str, ...] = ()


class Unfit(Exception):
    """This training cannot be written to a checkpoint, or not go on from one: one clause."""


class Keeper(Protocol):
    """Where a trial finds what it can go on from, and leaves it for the next process.

    Of several workers each has one, over the same folder. All write into one draft, which the
    first one publishes or gives up.
    """

    def latest(self) -> Found:
        """The newest checkpoint whose every byte is as it was written, and not set aside."""

    def set_aside(self, found: Found, why: str) -> str:
        """Count it as none from now on; `why` is a clause. Returns a sentence that says so."""

    def is_due(self) -> bool:
        """Whether it is time for another, by this worker's clock."""

    def draft(self, token: int) -> Path:
        """The folder, not made yet, of a checkpoint in the making; the same for the same token."""

    def publish(self, draft: Path, step: int) -> None:
        """All that lies in the draft becomes the newest checkpoint; the clock starts again.

        Raises:
            OSError: it could not be made to last; `give_up` is called next.
        """

    def give_up(self, draft: Path, why: str) -> str:
        """Leave nothing of the draft; the clock starts again.

        Returns:
            A sentence that says so, with `why`, a clause, the first time; "" from then on.
        """
