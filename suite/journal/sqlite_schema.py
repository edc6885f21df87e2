"""The tables of the journal, their row types, and the migration of older formats.

Every format so far has only added tables and columns, so new ones are filled from existing data.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sized
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from pydantic import TypeAdapter, ValidationError

from bakeoff.suite.errors import UnavailableError
from bakeoff.suite.schema import FAILURES, Result

# 2: waiting trials, and the reason; 3: statements of claims, ends of attempts, lists of trials; 4:
# hashes of findings; 5: editions of plans, and their sources; 6: joules of attempts.
FORMAT = 6

# Ends of attempts, derived from results of older formats, which only recorded the start time.
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
    """Raised if the journal cannot be opened, read or written, or is not ours; one sentence."""


def journal_in(out: Path) -> Path:
    """Return the path of the journal of an output folder."""
    return out.resolve() / "journal.db"


def opened(path: Path, *, read_only: bool) -> sqlite3.Connection:
    """Open the file; create it if it is missing, migrate it if it is older and writable.

    Raises:
        JournalError: If it was written by a newer bakeoff, or is not a journal.
        sqlite3.Error: If it cannot be opened.
    """
    if read_only:
        # Without a write-ahead log no process is writing: read the file as it is, and create no
        # log.
        at_rest = "" if Path(f"{path}-wal").exists() else "&immutable=1"
        uri = f"{path.resolve().as_uri()}?mode=ro{at_rest}"
        db = sqlite3.connect(uri, uri=True, timeout=20)
        if not format_of(db, path):
            raise JournalError(f"{path}: this is not a bakeoff journal.")
        db.execute("BEGIN")  # all reads see one snapshot, regardless of the driver's writes
        return db
    db = sqlite3.connect(path, timeout=20, check_same_thread=False)
    found = format_of(db, path)
    if not found and db.execute("SELECT 1 FROM sqlite_master").fetchone():
        raise JournalError(f"{path}: this is not a bakeoff journal.")  # and is not converted to one
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = FULL")
    if found < FORMAT:
        lacking = [column for last, column in _NEW_COLUMNS.items() if 3 <= found <= last]
        altered = "".join(f"ALTER TABLE ends ADD COLUMN {column};" for column in lacking)
        db.executescript(  # in one transaction
            f"BEGIN; {_TABLES} {altered} INSERT OR IGNORE INTO ends {ENDS_OF_RESULTS}; "
            f"PRAGMA user_version = {FORMAT}; COMMIT;"
        )
    return db


def format_of(db: sqlite3.Connection, path: Path) -> int:
    """Return the format in which the file is written; 0 if it is empty.

    Raises:
        JournalError: If it was written by a newer bakeoff.
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
    """The journal's record of one trial in one environment, without the result itself."""

    trial_id: str
    environment_id: str
    attempt: int
    sha256: str


class End(NamedTuple):
    """The end of one attempt of a trial, and its cost.

    Attributes:
        seconds: Wall time in the worker; 0 if the worker could not report it.
        num_cpus: CPUs of one worker.
        num_gpus: GPUs of one worker.
        ended_seconds: The time in seconds since 1970, or None if only another folder's driver knows
            it.
        is_kept: Whether its result was stored; a late one is discarded.
        finding_sha256: The hash of its findings, see `Result.finding_sha256`; empty if there are
            none, and in journals of format 3 and older.
        joules: The energy of its GPU, see `Result.joules`, or None in journals of format 5 and
            older.
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
    """A result in stored form, with everything needed to write it to another journal.

    Attributes:
        body: The result as JSON.
        started_seconds: The start of its attempt in seconds since 1970, or None if another folder's
            driver started it.
        ended_seconds: The end of its attempt, or None in the same case.
    """

    attempt: int
    sha256: str
    started_seconds: float | None
    ended_seconds: float | None
    body: bytes


@dataclass(frozen=True)
class Contradiction:
    """Two attempts at one trial in one environment whose findings differ, which is an error."""

    trial_id: str
    environment_id: str
    attempts: tuple[int, int]


def understood(adapter: TypeAdapter[_Body], body: bytes, path: Path) -> _Body:
    """Return the parsed JSON of a row of that journal.

    Raises:
        JournalError: If this version cannot parse it.
    """
    try:
        return adapter.validate_json(body)
    except ValidationError as error:
        raise JournalError(
            f"{path}: a row is damaged, or was written by another version of bakeoff "
            f"({error.title}: {error.error_count()} errors)."
        ) from error


def result_json(result: Result) -> bytes:
    """Return the JSON of a row; fields that older versions lack are left out if they are empty.

    So a row that an older version exported stays the same byte for byte.
    """
    return _RESULT.dump_json(result, exclude={"joules"} if result.joules is None else None)


def one(db: sqlite3.Connection, query: str, values: tuple[object, ...]) -> Any:
    """Return the first column of the first row, or None if there is no row."""
    row = db.execute(query, values).fetchone()
    return None if row is None else row[0]


def marks(values: Sized) -> str:
    """Return placeholders for the values, for example ``?, ?, ?``."""
    return ", ".join("?" * len(values))
