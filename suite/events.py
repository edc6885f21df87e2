"""What an executor says while trials run; the driver is the only listener."""

from __future__ import annotations

from dataclasses import dataclass, field

from suite.schema import Point, Provenance, Result


@dataclass(frozen=True)
class Started:
    """A trial has begun, on that place (a process, a node).

    Attributes:
        provenance: Of the process, for the result of a trial that cannot leave one itself.
    """

    trial_id: str
    place: str
    provenance: Provenance | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Progressed:
    """Curve points of a running trial."""

    trial_id: str
    points: tuple[Point, ...]


@dataclass(frozen=True)
class Remarked:
    """Something about a running trial that whoever watches should hear: one sentence."""

    trial_id: str
    sentence: str


@dataclass(frozen=True)
class Finished:
    """A trial has left its result, whatever it says."""

    result: Result

    @property
    def trial_id(self) -> str:
        """Of the trial that left it."""
        return self.result.trial_id


@dataclass(frozen=True)
class Waiting:
    """So many trials have no place yet; the reason is that of the one whose turn is next."""

    num_trials: int
    reason: str


TrialEvent = Started | Progressed | Remarked | Finished
Event = TrialEvent | Waiting
