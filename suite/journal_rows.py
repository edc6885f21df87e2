"""What the journal's rows say, as values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True)
class Attempt:
    """One start of a trial."""

    trial_id: str
    attempt: int
    started_seconds: float
    place: str


@dataclass(frozen=True)
class Entry:
    """What the journal holds of one trial in one environment, short of the result itself."""

    trial_id: str
    environment_id: str
    attempt: int
    sha256: str


class End(NamedTuple):
    """How one attempt of a trial ended, and what it has cost.

    Attributes:
        seconds: Wall time in the worker; 0 where it could not say any more.
        num_cpus: Of one worker; so is `num_gpus`.
        ended_seconds: Since 1970; None where only another folder's driver knows.
        is_kept: Whether its result was taken; a late one was not.
        finding_sha256: See `Result.finding_sha256`; empty where it found nothing, and in journals
            of format 3 and older.
    """

    trial_id: str
    environment_id: str
    attempt: int
    status: str
    seconds: float
    num_cpus: float
    num_gpus: float
    ended_seconds: float | None
    reason: str
    is_kept: bool
    finding_sha256: str = ""


class Kept(NamedTuple):
    """A result as the journal holds it, with what is needed to write it down again elsewhere.

    Attributes:
        body: The result as JSON.
        started_seconds: Of its attempt, since 1970; None where another folder's driver began it.
        ended_seconds: The same of its end.
    """

    attempt: int
    sha256: str
    started_seconds: float | None
    ended_seconds: float | None
    body: bytes


@dataclass(frozen=True)
class Contradiction:
    """Two attempts at one trial in one environment that found different things, and may not."""

    trial_id: str
    environment_id: str
    attempts: tuple[int, int]
