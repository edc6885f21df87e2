"""Lays out the journal's file, and opens files of older formats.

Every format so far has only added tables and columns, so what is newer is filled from what was
there.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

from suite.errors import UnavailableError

# 2: what waits, and why; 3: statements of claims, how attempts ended, lists of trials; 4: hashes of
# what attempts found.
FORMAT = 4

# What results said before their ends were kept apart. Of the time only the start was written down.
ENDS_OF_RESULTS = """
SELECT r.trial_id, r.environment_id, r.attempt, r.status,
       COALESCE(json_extract(CAST(r.result AS TEXT), '$.seconds'), 0.0),
       COALESCE(json_extract(CAST(r.result AS TEXT), '$.provenance.num_cpus'), 0.0),
       COALESCE(json_extract(CAST(r.result AS TEXT), '$.provenance.num_gpus'), 0.0),
       a.started_seconds + json_extract(CAST(r.result AS TEXT), '$.seconds'),
       COALESCE(json_extract(CAST(r.result AS TEXT), '$.reason'), ''), 1, ''
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
    finding_sha256 TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (trial_id, environment_id, attempt)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS trials (
    ablation TEXT NOT NULL, scale TEXT NOT NULL, trial_id TEXT NOT NULL, probe TEXT NOT NULL,
    label TEXT NOT NULL, num_workers INTEGER NOT NULL, num_cpus REAL NOT NULL,
    num_gpus REAL NOT NULL, is_alone INTEGER NOT NULL,
    PRIMARY KEY (ablation, scale, trial_id)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS driver (
    only INTEGER PRIMARY KEY CHECK (only = 1), started_seconds REAL NOT NULL
);
"""
_SINCE_FORMAT_3 = "ALTER TABLE ends ADD COLUMN finding_sha256 TEXT NOT NULL DEFAULT '';"


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
        altered = _SINCE_FORMAT_3 if found == 3 else ""
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
