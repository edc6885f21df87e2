"""What the driver asks of whatever runs its trials, and how that says that it cannot."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from suite.events import Event
from suite.schema import Resources, Trial

Work = Sequence[tuple[Trial, Resources]]


class Unavailable(RuntimeError):
    """Ray is not installed, no cluster answers, or it can never run the trials: one sentence."""


class Executes(Protocol):
    """Runs trials; says in events how they go."""

    def execute(self, work: Work) -> Iterator[Event]:
        """Run all of it, packed; events in the order in which they happen."""

    def execute_alone(self, work: Work) -> Iterator[Event]:
        """Run one at a time, with nothing beside it."""
