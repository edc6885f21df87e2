"""What the journal's rows say, as values."""

from __future__ import annotations

import sqlite3
from collections.abc import Sized
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from pydantic import TypeAdapter, ValidationError

from suite.journal.sqlite_schema import JournalError
from suite.schema import FAILURES

FAILED = ", ".join(f"'{status.value}'" for status in sorted(FAILURES))

_Body = TypeVar("_Body")


@dataclass(frozen=True)
class Attempt:
    """One start of a trial."""

    trial_id: str
    attempt: int
    started_seconds: float
    place: str


@dataclass(frozen=True)
class JournalEntry:
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


def understood(adapter: TypeAdapter[_Body], body: bytes, path: Path) -> _Body:
    """What a row of that journal says in JSON.

    Raises:
        JournalError: if it says nothing that this version knows.
    """
    try:
        return adapter.validate_json(body)
    except ValidationError as error:
        raise JournalError(
            f"{path}: a row is damaged, or was written by another version of bakeoff "
            f"({error.title}: {error.error_count()} errors)."
        ) from error


def one(db: sqlite3.Connection, query: str, values: tuple[object, ...]) -> Any:
    """The first column of the first row; None where there is no row."""
    row = db.execute(query, values).fetchone()
    return None if row is None else row[0]


def marks(values: Sized) -> str:
    """As ``?, ?, ?``."""
    return ", ".join("?" * len(values))
