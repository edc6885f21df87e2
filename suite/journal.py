"""What has finished, on disk, surviving any kill: one SQLite file, written by one driver.

A result is committed with its fsync before anybody is told of it. `results.trial_id` and
environment are the key, so nothing can be in it twice; a failure gives way to a later attempt.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from suite.schema import FAILURES, Plan, Result

_VERSION = 2  # 2: what waits, and why
_TABLES = f"""
BEGIN;
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
PRAGMA user_version = {_VERSION};
COMMIT;
"""

_Body = TypeVar("_Body")
_PLAN = TypeAdapter(Plan)
_RESULT = TypeAdapter(Result)


class JournalError(RuntimeError):
    """The journal cannot be opened, read or written, or is not ours: one sentence."""


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


def journal_in(out: Path) -> Path:
    """Where the journal of an output folder stands."""
    return out.resolve() / "journal.db"


class Journal:
    """The book of an output folder; use it in a `with` block.

    Raises:
        JournalError: if the file cannot be opened, was written by a newer version, or, at the end
            of the block, turned out damaged or not writable.
    """

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self.path = path
        try:
            self._db = _open(path, read_only=read_only)
        except sqlite3.Error as error:
            raise JournalError(f"{path}: the journal cannot be opened: {error}.") from error

    def close(self) -> None:
        """Fold the write-ahead log into the file and let go of it."""
        self._db.close()

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.close()
        if isinstance(error, sqlite3.Error):
            raise JournalError(f"{self.path}: the journal fails: {error}.") from error

    def keep_plan(self, plan: Plan) -> None:
        """Remember what the sweep is made of; a no-op where it is known already."""
        body = _PLAN.dump_json(plan)
        if self._one("SELECT plan FROM sweeps WHERE (ablation, scale) = (?, ?)", plan.key) == body:
            return
        with self._db:
            self._db.execute("INSERT OR REPLACE INTO sweeps VALUES (?, ?, ?)", (*plan.key, body))

    def plans(self) -> list[Plan]:
        """Every sweep that was ever started here."""
        rows = self._db.execute("SELECT plan FROM sweeps ORDER BY ablation, scale")
        return [self._understood(_PLAN, body) for (body,) in rows]

    def begin(self, trial_id: str, place: str) -> int:
        """Count a new attempt. A result of any older attempt will be dropped."""
        with self._db:
            last = self._one("SELECT MAX(attempt) FROM attempts WHERE trial_id = ?", (trial_id,))
            attempt = (last or 0) + 1
            self._db.execute(
                "INSERT INTO attempts VALUES (?, ?, ?, ?)", (trial_id, attempt, time.time(), place)
            )
        return attempt

    def commit(self, result: Result, attempt: int) -> bool:
        """Write a result down, with fsync. False if it was dropped: late, or already there."""
        with self._db:
            last = self._one(
                "SELECT MAX(attempt) FROM attempts WHERE trial_id = ?", (result.trial_id,)
            )
            if last is not None and attempt < last:
                return False
            return self._insert(result, attempt)

    def adopt(self, result: Result) -> bool:
        """Write down a result of another folder's journal; attempts that were begun here stand.

        False if there was one already.
        """
        with self._db:
            last = self._one(
                "SELECT MAX(attempt) FROM attempts WHERE trial_id = ?", (result.trial_id,)
            )
            return self._insert(result, last or 0)

    def results(self, trial_ids: Iterable[str]) -> Iterator[Result]:
        """All results of these trials, of every environment, in the order asked for."""
        for trial_id in trial_ids:
            rows = self._db.execute(
                "SELECT result FROM results WHERE trial_id = ? ORDER BY environment_id",
                (trial_id,),
            )
            for (body,) in rows:
                yield self._understood(_RESULT, body)

    def done(self) -> dict[str, set[str]]:
        """trial_id -> environments in which it has a result that is no failure."""
        found: dict[str, set[str]] = {}
        marks = ", ".join(f"'{status.value}'" for status in FAILURES)
        query = f"SELECT trial_id, environment_id FROM results WHERE status NOT IN ({marks})"
        for trial_id, environment_id in self._db.execute(query):
            found.setdefault(trial_id, set()).add(environment_id)
        return found

    def entries(self) -> list[Entry]:
        """What there is a result of, by trial and environment."""
        query = "SELECT trial_id, environment_id, attempt, sha256 FROM results ORDER BY 1, 2"
        return [Entry(*row) for row in self._db.execute(query)]

    def attempts(self) -> list[Attempt]:
        """The newest attempt of every trial that was ever started."""
        query = "SELECT trial_id, MAX(attempt), started_seconds, place FROM attempts GROUP BY 1"
        return [Attempt(*row) for row in self._db.execute(query)]

    def note_waiting(self, num_trials: int, reason: str) -> None:
        """So many trials have no place now, and why: for those who ask how the sweep stands."""
        with self._db:
            self._db.execute(
                "INSERT OR REPLACE INTO waiting VALUES (1, ?, ?)", (num_trials, reason)
            )

    def waiting(self) -> tuple[int, str]:
        """How many trials have no place, and why; of a driver that has ended, its last words."""
        if _version(self._db, self.path) < 2:
            return 0, ""
        row = self._db.execute("SELECT num_trials, reason FROM waiting").fetchone()
        return row or (0, "")

    def _insert(self, result: Result, attempt: int) -> bool:
        key = (result.trial_id, result.provenance.environment_id)
        status = self._one(
            "SELECT status FROM results WHERE (trial_id, environment_id) = (?, ?)", key
        )
        if status is not None and status not in FAILURES:
            return False
        self._db.execute(
            "INSERT OR REPLACE INTO results VALUES (?, ?, ?, ?, ?, ?)",
            (*key, attempt, result.status.value, result.sha256, _RESULT.dump_json(result)),
        )
        return True

    def _understood(self, adapter: TypeAdapter[_Body], body: bytes) -> _Body:
        try:
            return adapter.validate_json(body)
        except ValidationError as error:
            raise JournalError(
                f"{self.path}: a row is damaged, or was written by another version of bakeoff "
                f"({error.title}: {error.error_count()} errors)."
            ) from error

    def _one(self, query: str, values: tuple[object, ...]) -> Any:
        row = self._db.execute(query, values).fetchone()
        return None if row is None else row[0]


def _read_only_uri(path: Path) -> str:
    """Without a log beside it nobody writes: then read the file as it stands, and leave no log."""
    at_rest = "" if Path(f"{path}-wal").exists() else "&immutable=1"
    return f"{path.resolve().as_uri()}?mode=ro{at_rest}"


def _open(path: Path, *, read_only: bool) -> sqlite3.Connection:
    if read_only:
        db = sqlite3.connect(_read_only_uri(path), uri=True, timeout=20)
        if not _version(db, path):
            raise JournalError(f"{path}: this is no journal of bakeoff.")
        db.execute("BEGIN")  # all reads see the same moment, whatever the driver writes meanwhile
        return db
    db = sqlite3.connect(path, timeout=20, check_same_thread=False)
    version = _version(db, path)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = FULL")
    if version < _VERSION:  # every version so far has only added tables
        db.executescript(_TABLES)
    return db


def _version(db: sqlite3.Connection, path: Path) -> int:
    """The format that the file is written in; 0 where it is empty."""
    version: int = db.execute("PRAGMA user_version").fetchone()[0]
    if version > _VERSION:
        raise JournalError(
            f"{path}: written by a newer bakeoff (format {version}; this one reads {_VERSION})."
        )
    return version
