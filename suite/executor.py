"""What the driver asks of whatever runs its trials, and how that says that it cannot."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from suite.checkpoints import Checkpoints
from suite.events import Event
from suite.schema import Resources, Trial

Work = Sequence[tuple[Trial, Resources]]


class Unavailable(RuntimeError):
    """Ray is not installed, no cluster answers, or it can never run the trials: one sentence."""


@dataclass(frozen=True, kw_only=True)
class Luggage:
    """What a trial needs besides its specification.

    Attributes:
        source_paths: Folders that a user's own modules are imported from.
        checkpoints: Where trials keep what they could go on from.
        trial_seconds: How long one may run; None sets no limit.
    """

    checkpoints: Checkpoints
    source_paths: tuple[str, ...] = ()
    trial_seconds: float | None = None


class Executes(Protocol):
    """Runs trials; says in events how they go."""

    def execute(self, work: Work) -> Iterator[Event]:
        """Run all of it, packed; events in the order in which they happen."""

    def execute_alone(self, work: Work, environment_id: str) -> Iterator[Event]:
        """Run it with nothing beside it, all of it in that one environment."""

    def environment_for_timing(self, resources: Resources, preferred: str) -> str:
        """The environment where timings would be made; the preferred one, if it can be had."""

    def refuse_infeasible(self, work: Work) -> None:
        """Refuse what can never run.

        Raises:
            Unavailable: with what is asked for, and what there is.
        """
