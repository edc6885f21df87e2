"""The tables of the journal, their rows as values, and how files of older formats are opened.

Every format so far has only added tables and columns, so what is newer is filled from what was
there.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sized
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from pydantic import TypeAdapter, ValidationError

from suite.errors import UnavailableError
from suite.schema import FAILURES, Result

# 2: what waits, and why; 3: statements of claims, how attempts ended, lists of trials; 4: hashes of
# what attempts found; 5: editions of plans, and their sources; 6: joules of attempts.
FORMAT = 6

# What results said before their ends were kept apart. Of the time only the start was written down.
ENDS_OF_RESULTS = """
SELECT r.trial_id, r.environment_id, r.attempt, r.status,
       COALESCE(json_extract(CAST(r.result AS TEXT), '$.seconds'), 0.0),
       COALESCE(json_extract(CAST(r.result AS TEXT), '$.provenance.num_cpus'), 0.0),
       COALESCE(json_extract(CAST(r.result AS TEXT), '$.provenance.num_gpus'), 0.0),
       a.started_seconds + json_extract(CAST(r.result AS TEXT), '$.seconds'),
       COALESCE(json_extract(CAST(r.result AS TEXT), '$.reason'), ''), 1, '', NULL
FROM results AS r LEFT JOIN attempts AS a ON (a.trial_id, a.attempt) = (r.trial_id, r.attempt)
WHERE json_valid(CAST(r.result AS TEXT))
"""
_TABLES = """
CREATE TABLE IF NOT EXISTS sweeps (
    ablation TEXT NOT NULL, scale TEXT NOT NULL, plan BLOB NOT NULL,
    PRIMARY KEY (ablation, scale)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS attempts (
    trial_id TEXT NOT NULL, attempt INTEGER NOT NULL, started_seconds REAL NOT NULL,
    place TEXT NOT NULL,
    PRIMARY KEY (trial_id, attempt)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS results (
    trial_id TEXT NOT NULL, environment_id TEXT NOT NULL, attempt INTEGER NOT NULL,
    status TEXT NOT NULL, sha256 TEXT NOT NULL, result BLOB NOT NULL,
    PRIMARY KEY (trial_id, environment_id)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS waiting (
    only INTEGER PRIMARY KEY CHECK (only = 1), num_trials INTEGER NOT NULL, reason TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS statements (
    ablation TEXT NOT NULL, scale TEXT NOT NULL, sha256 TEXT NOT NULL, content TEXT NOT NULL,
    num_pairs INTEGER, stated_seconds REAL NOT NULL,
    UNIQUE (ablation, scale, sha256)
);
CREATE TABLE IF NOT EXISTS ends (
    trial_id TEXT NOT NULL, environment_id TEXT NOT NULL, attempt INTEGER NOT NULL,
    status TEXT NOT NULL, seconds REAL NOT NULL, num_cpus REAL NOT NULL, num_gpus REAL NOT NULL,
    ended_seconds REAL, reason TEXT NOT NULL, is_kept INTEGER NOT NULL,
    finding_sha256 TEXT NOT NULL DEFAULT '', joules REAL,
    PRIMARY KEY (trial_id, environment_id, attempt)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS trials (
    ablation TEXT NOT NULL, scale TEXT NOT NULL, trial_id TEXT NOT NULL, probe TEXT NOT NULL,
    label TEXT NOT NULL, num_workers INTEGER NOT NULL, num_cpus REAL NOT NULL,
    num_gpus REAL NOT NULL, is_alone INTEGER NOT NULL,
    PRIMARY KEY (ablation, scale, trial_id)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS editions (
    ablation TEXT NOT NULL, scale TEXT NOT NULL, number INTEGER NOT NULL, sha256 TEXT NOT NULL,
    started_seconds REAL NOT NULL, plan BLOB NOT NULL, source_sha256 TEXT NOT NULL,
    PRIMARY KEY (ablation, scale, number), UNIQUE (ablation, scale, sha256)
);
CREATE TABLE IF NOT EXISTS sources (
    sha256 TEXT PRIMARY KEY NOT NULL, body BLOB NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS driver (
    only INTEGER PRIMARY KEY CHECK (only = 1), started_seconds REAL NOT NULL
);
"""
# Columns of `ends`, by the last format that had the table without them, in their order.
_NEW_COLUMNS = {3: "finding_sha256 TEXT NOT NULL DEFAULT ''", 5: "joules REAL"}


class JournalError(UnavailableError):
    """The journal cannot be opened, read or written, or is not ours: one sentence."""


def journal_in(out: Path) -> Path:
    """The journal of an output folder."""
    return out.resolve() / "journal.db"


def opened(path: Path, *, read_only: bool) -> sqlite3.Connection:
    """The file; made where there is none, brought to this format where it is older and writable.

    Raises:
        JournalError: if it was written by a newer bakeoff, or is no journal.
        sqlite3.Error: if it cannot be opened.
    """
    if read_only:
        # Without a log beside it nobody writes: read the file as it is, and leave no log.
        at_rest = "" if Path(f"{path}-wal").exists() else "&immutable=1"
        uri = f"{path.resolve().as_uri()}?mode=ro{at_rest}"
        db = sqlite3.connect(uri, uri=True, timeout=20)
        if not format_of(db, path):
            raise JournalError(f"{path}: this is no journal of bakeoff.")
        db.execute("BEGIN")  # all reads see the same moment, whatever the driver writes meanwhile
        return db
    db = sqlite3.connect(path, timeout=20, check_same_thread=False)
    found = format_of(db, path)
    if not found and db.execute("SELECT 1 FROM sqlite_master").fetchone():
        raise JournalError(f"{path}: this is no journal of bakeoff.")  # nor becomes one
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = FULL")
    if found < FORMAT:
        lacking = [column for last, column in _NEW_COLUMNS.items() if 3 <= found <= last]
        altered = "".join(f"ALTER TABLE ends ADD COLUMN {column};" for column in lacking)
        db.executescript(  # all of it or nothing
            f"BEGIN; {_TABLES} {altered} INSERT OR IGNORE INTO ends {ENDS_OF_RESULTS}; "
            f"PRAGMA user_version = {FORMAT}; COMMIT;"
        )
    return db


def format_of(db: sqlite3.Connection, path: Path) -> int:
    """The format that the file is written in; 0 where it is empty.

    Raises:
        JournalError: if it was written by a newer bakeoff.
    """
    found: int = db.execute("PRAGMA user_version").fetchone()[0]
    if found > FORMAT:
        raise JournalError(
            f"{path}: written by a newer bakeoff (format {found}; this one reads {FORMAT})."
        )
    return found


FAILED = ", ".join(f"'{status.value}'" for status in sorted(FAILURES))

_RESULT = TypeAdapter(Result)
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
        joules: See `Result.joules`; None in journals of format 5 and older.
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
    joules: float | None = None


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


def result_json(result: Result) -> bytes:
    """As a row holds it; what older versions did not know is left out where there is none.

    So a row that they have exported stays the same byte for byte.
    """
    return _RESULT.dump_json(result, exclude={"joules"} if result.joules is None else None)


def one(db: sqlite3.Connection, query: str, values: tuple[object, ...]) -> Any:
    """The first column of the first row; None where there is no row."""
    row = db.execute(query, values).fetchone()
    return None if row is None else row[0]


def marks(values: Sized) -> str:
    """As ``?, ?, ?``."""
    return ", ".join("?" * len(values))
