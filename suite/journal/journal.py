"""Record finished trials in one SQLite file, written by one driver, that survives any kill.

A result is committed with its fsync before it is acknowledged. The key is (`trial_id`,
environment), so that a result cannot be stored twice; a later attempt replaces a failure.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from bakeoff.suite.journal.plans import JournalPlans
from bakeoff.suite.journal.sqlite_schema import (
    ENDS_OF_RESULTS,
    FAILED,
    Attempt,
    Contradiction,
    End,
    JournalEntry,
    JournalError,
    Kept,
    format_of,
    journal_in,
    marks,
    one,
    opened,
    result_json,
    understood,
)
from bakeoff.suite.schema import FAILURES, Result, Status
from bakeoff.suite.text import command

__all__ = ["Journal", "JournalError", "journal_in"]

_RESULT = TypeAdapter(Result)
_PLACE = "(trial_id, environment_id)"
_NO_ENDS = "SELECT '' AS trial_id, '' AS environment_id, 0 AS attempt, NULL AS ended_seconds"
_KEPT = """
SELECT r.attempt, r.sha256, a.started_seconds, e.ended_seconds, CAST(r.result AS BLOB)
FROM results AS r
LEFT JOIN attempts AS a ON (a.trial_id, a.attempt) = (r.trial_id, r.attempt)
LEFT JOIN {ends} AS e ON (e.trial_id, e.environment_id, e.attempt)
    = (r.trial_id, r.environment_id, r.attempt)
WHERE r.trial_id = ? ORDER BY r.environment_id
"""
_ADOPTED = 0  # the attempt number of a result from another folder's driver


class Journal(JournalPlans):
    """The record of what an output folder has planned and done; use it in a `with` block.

    Raises:
        JournalError: If the file cannot be opened or was written by a newer version; or, at the end
            of the block, if it is damaged or not writable.
    """

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self.path = path
        try:
            self._db = opened(path, read_only=read_only)
        except sqlite3.Error as error:
            raise JournalError(f"{path}: the journal cannot be opened: {error}.") from error
        self._format = format_of(self._db, path)

    def close(self) -> None:
        """Merge the write-ahead log into the file and close it."""
        self._db.close()

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.close()
        if isinstance(error, sqlite3.Error):
            raise JournalError(f"{self.path}: the journal cannot be used: {error}.") from error

    def begin(self, trial_id: str, place: str) -> int:
        """Start a new attempt, and return its number; late results of older ones are discarded."""
        with self._db:
            attempt = (self._last_attempt(trial_id) or 0) + 1
            self._db.execute(
                "INSERT INTO attempts VALUES (?, ?, ?, ?)", (trial_id, attempt, time.time(), place)
            )
        return attempt

    def commit(self, result: Result, attempt: int) -> bool:
        """Write a result, with fsync; return False if it is late or already stored."""
        with self._db:
            last = self._last_attempt(result.trial_id)
            is_late = last is not None and attempt < last
            is_kept = not is_late and self._insert(result, attempt)
            self._note_end(result, attempt, time.time(), is_kept=is_kept)
            return is_kept

    def adopt(self, result: Result) -> bool:
        """Write a result of another folder's journal; attempts that were started here stay.

        Return False if there is already a result.
        """
        with self._db:
            is_kept = self._insert(result, self._last_attempt(result.trial_id) or 0)
            if is_kept:
                self._note_end(result, _ADOPTED, None, is_kept=True)
            return is_kept

    def restore(self, kept: Kept) -> bool:
        """Write a result with its original attempt and times.

        It replaces a row that does not match its hash, but no other row.

        Returns:
            False if there is already a valid result.

        Raises:
            JournalError: If the result does not match its own hash.
        """
        result = understood(_RESULT, kept.body, self.path)
        if result.sha256 != kept.sha256:
            raise JournalError(
                f"{self.path}: the result of trial {result.trial_id} cannot be restored, because "
                "it was altered: its SHA-256 differs."
            )
        key = (result.trial_id, result.provenance.environment_id)
        with self._db:
            query = f"SELECT sha256, status, result FROM results WHERE {_PLACE} = (?, ?)"
            row = self._db.execute(query, key).fetchone()
            if row is not None and not _is_damaged(*row):
                return False
            self._db.execute(f"DELETE FROM results WHERE {_PLACE} = (?, ?)", key)
            self._insert(result, kept.attempt)
            if kept.started_seconds is not None:
                start = (result.trial_id, kept.attempt, kept.started_seconds, "")
                self._db.execute("INSERT OR IGNORE INTO attempts VALUES (?, ?, ?, ?)", start)
            self._note_end(result, kept.attempt, kept.ended_seconds, is_kept=True)
            return True

    def results(self, trial_ids: Iterable[str]) -> Iterator[Result]:
        """Yield all results of these trials, of every environment, in the order of the ids.

        Raises:
            JournalError: At a result that does not match its hash.
        """
        for trial_id in trial_ids:
            rows = self._db.execute(
                "SELECT sha256, result FROM results WHERE trial_id = ? ORDER BY environment_id",
                (trial_id,),
            )
            for sha256, body in rows:
                yield self._sound(sha256, body)

    def kept(self, trial_ids: Iterable[str]) -> Iterator[Kept]:
        """Yield all results of these trials in stored form, in the order of `results`.

        Raises:
            JournalError: In the same cases as `results`.
        """
        is_old = self._format < 3
        query = _KEPT.format(ends=f"({_NO_ENDS})" if is_old else "ends")
        for trial_id in trial_ids:
            for kept in map(Kept._make, self._db.execute(query, (trial_id,))):
                self._sound(kept.sha256, kept.body)
                yield kept

    def refuse_damaged(self) -> None:
        """Raise JournalError if any result does not match its hash: no run continues from that."""
        for trial_id, _ in self.damaged():
            raise self._damage(trial_id)

    def damaged(self) -> list[tuple[str, str]]:
        """Return (trial_id, environment_id) of the rows that do not match their hash."""
        names = "trial_id, environment_id, sha256, status, result"
        rows = self._db.execute(f"SELECT {names} FROM results ORDER BY 1, 2")
        return [(trial, environment) for trial, environment, *row in rows if _is_damaged(*row)]

    def contradictions(self) -> list[Contradiction]:
        """Return the trials, except timings, with different numbers in one environment."""
        if self._format < 4:
            return []
        query = (
            "SELECT trial_id, environment_id, attempt, finding_sha256 FROM ends WHERE "
            "finding_sha256 != '' AND trial_id IN (SELECT trial_id FROM trials WHERE NOT is_alone)"
            " ORDER BY 1, 2, 3"
        )
        first: dict[tuple[str, str], tuple[int, str]] = {}
        found: dict[tuple[str, str], Contradiction] = {}
        for trial_id, environment_id, attempt, sha256 in self._db.execute(query):
            key = (trial_id, environment_id)
            earlier, before = first.setdefault(key, (attempt, sha256))
            if sha256 != before:
                found.setdefault(key, Contradiction(*key, (earlier, attempt)))
        return list(found.values())

    def done(self) -> dict[str, set[str]]:
        """Return trial_id -> the environments in which it has a result that is not a failure."""
        found: dict[str, set[str]] = {}
        query = f"SELECT trial_id, environment_id FROM results WHERE status NOT IN ({FAILED})"
        for trial_id, environment_id in self._db.execute(query):
            found.setdefault(trial_id, set()).add(environment_id)
        return found

    def entries(self) -> list[JournalEntry]:
        """Return an entry for every stored result, by trial and environment."""
        query = "SELECT trial_id, environment_id, attempt, sha256 FROM results ORDER BY 1, 2"
        return [JournalEntry(*row) for row in self._db.execute(query)]

    def attempts(self) -> list[Attempt]:
        """Return the newest attempt of every trial that was ever started."""
        query = "SELECT trial_id, MAX(attempt), started_seconds, place FROM attempts GROUP BY 1"
        return [Attempt(*row) for row in self._db.execute(query)]

    def starts(self) -> list[Attempt]:
        """Return every attempt, ordered by trial and attempt number."""
        query = "SELECT trial_id, attempt, started_seconds, place FROM attempts ORDER BY 1, 2"
        return [Attempt(*row) for row in self._db.execute(query)]

    def ends(self) -> list[End]:
        """Return how attempts ended, except those that were lost with their driver or node."""
        query = "SELECT * FROM ends" if self._format >= 3 else ENDS_OF_RESULTS
        return [End(*row) for row in self._db.execute(query)]

    def statuses(self) -> dict[str, str]:
        """Return trial_id -> status; a finding takes precedence over failures elsewhere."""
        query = f"SELECT trial_id, status FROM results ORDER BY status NOT IN ({FAILED})"
        return dict(self._db.execute(query).fetchall())

    def failed(self) -> set[str]:
        """Return the trials that have failed in some environment."""
        query = f"SELECT trial_id FROM results WHERE status IN ({FAILED})"
        return {trial_id for (trial_id,) in self._db.execute(query)}

    def gpu_bytes(self) -> dict[str, int]:
        """Return trial_id -> peak GPU memory in bytes, for trials that had a GPU."""
        taken = "json_extract(CAST(result AS TEXT), '$.gpu_bytes')"
        query = f"SELECT trial_id, {taken} FROM results WHERE json_valid(CAST(result AS TEXT))"
        return {trial_id: taken for trial_id, taken in self._db.execute(query) if taken}

    def driver_started(self) -> float:
        """Return when the newest driver started, in seconds since 1970; 0 if unknown."""
        if self._format < 3:
            return 0.0
        return float(one(self._db, "SELECT started_seconds FROM driver", ()) or 0.0)

    def note_waiting(self, num_trials: int, reason: str) -> None:
        """Write how many trials cannot be placed now, and why, for `bakeoff status`."""
        query = "INSERT OR REPLACE INTO waiting VALUES (1, ?, ?)"
        with self._db:
            self._db.execute(query, (num_trials, reason))

    def waiting(self) -> tuple[int, str]:
        """Return how many trials cannot be placed, and why, as the last driver wrote it."""
        if self._format < 2:
            return 0, ""
        row = self._db.execute("SELECT num_trials, reason FROM waiting").fetchone()
        return row or (0, "")

    def _sound(self, sha256: str, body: bytes) -> Result:
        """Return the result in a row; raise if it does not match its hash, so it is not sent."""
        result = understood(_RESULT, body, self.path)
        if result.sha256 != sha256:
            raise self._damage(result.trial_id)
        return result

    def _damage(self, trial_id: str) -> JournalError:
        return JournalError(
            f"{self.path}: the result of trial {trial_id} was altered: its SHA-256 differs. "
            f"`{command('verify', '--repair')}` restores it from the store."
        )

    def _insert(self, result: Result, attempt: int) -> bool:
        key = (result.trial_id, result.provenance.environment_id)
        status = one(self._db, f"SELECT status FROM results WHERE {_PLACE} = (?, ?)", key)
        if status is not None and status not in FAILURES:
            return False
        self._db.execute(
            "INSERT OR REPLACE INTO results VALUES (?, ?, ?, ?, ?, ?)",
            (*key, attempt, result.status.value, result.sha256, result_json(result)),
        )
        return True

    def _last_attempt(self, trial_id: str) -> int | None:
        query = "SELECT MAX(attempt) FROM attempts WHERE trial_id = ?"
        last: int | None = one(self._db, query, (trial_id,))
        return last

    def _note_end(
        self, result: Result, attempt: int, ended_seconds: float | None, *, is_kept: bool
    ) -> None:
        """Record the end of an attempt; a discarded attempt never overwrites a kept result."""
        made = result.provenance
        end = End(
            result.trial_id,
            made.environment_id,
            attempt,
            result.status.value,
            result.seconds,
            made.num_cpus,
            made.num_gpus,
            ended_seconds,
            result.reason,
            is_kept,
            result.finding_sha256 if result.status is Status.OK else "",
            result.joules,
        )
        clash = "REPLACE" if is_kept else "IGNORE"
        self._db.execute(f"INSERT OR {clash} INTO ends VALUES ({marks(end)})", end)


def _is_damaged(sha256: str, status: str, body: bytes) -> bool:
    try:
        result = _RESULT.validate_json(body)
    except ValidationError:
        return True
    return result.sha256 != sha256 or result.status.value != status
