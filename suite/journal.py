"""What has finished, on disk, surviving any kill: one SQLite file, written by one driver.

A result is committed with its fsync before anybody is told of it. `results.trial_id` and
environment are the key, so nothing can be in it twice; a failure gives way to a later attempt.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable, Iterator, Sized
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from suite.journal_file import ENDS_OF_RESULTS, JournalError, format_of, journal_in, opened
from suite.journal_rows import Attempt, Contradiction, End, Entry, Kept
from suite.registration import Statement, content_of, num_pairs_known, registration_of
from suite.schema import FAILURES, Plan, Result, Status
from suite.trial_list import Listed, listed

__all__ = ["Journal", "JournalError", "journal_in"]

_Body = TypeVar("_Body")
_PLAN = TypeAdapter(Plan)
_RESULT = TypeAdapter(Result)
_FAILED = ", ".join(f"'{status.value}'" for status in sorted(FAILURES))
_KEY = "(ablation, scale) = (?, ?)"
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
_ADOPTED = 0  # stands for the attempt of a result that another folder's driver made


class Journal:
    """The book of an output folder; use it in a `with` block.

    Raises:
        JournalError: if the file cannot be opened, was written by a newer version, or, at the end
            of the block, turned out damaged or not writable.
    """

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self.path = path
        try:
            self._db = opened(path, read_only=read_only)
        except sqlite3.Error as error:
            raise JournalError(f"{path}: the journal cannot be opened: {error}.") from error
        self._format = format_of(self._db, path)

    def close(self) -> None:
        """Fold the write-ahead log into the file and let go of it."""
        self._db.close()

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.close()
        if isinstance(error, sqlite3.Error):
            raise JournalError(f"{self.path}: the journal fails: {error}.") from error

    def keep_plan(self, plan: Plan) -> Plan:
        """Remember what the sweep is made of, before any of its trials runs, and state its claim.

        Returns:
            The plan with the registration of its claim: the plan that results are published with.
        """
        with self._db:
            self._state_what_was_kept(plan.key)
            self._state(plan, self._num_pairs(plan), time.time())
            self._write_plan(plan)
            self._db.execute("INSERT OR REPLACE INTO driver VALUES (1, ?)", (time.time(),))
            self._db.execute("DELETE FROM waiting")  # the last words of an older driver
        return self._registered(plan)

    def adopt_plan(self, plan: Plan, other: Journal) -> Plan:
        """Take a plan over from another folder's journal, with every statement of its claim.

        Where the same was stated in both, the earlier one holds. A claim that the other journal
        has results of, and does not say when it was stated, counts as not known here too.

        Returns:
            As `keep_plan`.
        """
        with self._db:
            self._state_what_was_kept(plan.key)
            for statement in other.statements(plan.key):
                self._take_over(plan.key, statement)
            is_unknown = bool(other._num_pairs(plan))
            self._state(plan, None if is_unknown else self._num_pairs(plan), time.time())
            self._write_plan(plan)
        return self._registered(plan)

    def plans(self) -> list[Plan]:
        """Every sweep that was ever started here, each with the registration of its claim."""
        return [self._registered(plan) for plan in self._plans()]

    def statements(self, key: tuple[str, str]) -> list[Statement]:
        """Every statement of the claim of (ablation, scale), each once; empty in old journals."""
        if self._format < 3:
            return []
        rows = self._db.execute(
            f"SELECT content, num_pairs, stated_seconds FROM statements WHERE {_KEY} "
            "ORDER BY stated_seconds, rowid",
            key,
        )
        return [
            Statement(content=content, num_pairs=num_pairs, stated_seconds=seconds)
            for content, num_pairs, seconds in rows
        ]

    def trials(self) -> list[Listed]:
        """The trials of every sweep, in a few columns; one that two sweeps share stands in both."""
        if self._format < 3:
            return [row for plan in self._plans() for row in listed(plan)]
        query = (
            "SELECT ablation, scale, trial_id, probe, label, num_workers, num_cpus, num_gpus, "
            "is_alone FROM trials"
        )
        return [Listed(*row) for row in self._db.execute(query)]

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
            last = self._last_attempt(result.trial_id)
            is_late = last is not None and attempt < last
            is_kept = not is_late and self._insert(result, attempt)
            self._note_end(result, attempt, time.time(), is_kept=is_kept)
            return is_kept

    def adopt(self, result: Result) -> bool:
        """Write down a result of another folder's journal; attempts that were begun here stand.

        False if there was one already.
        """
        with self._db:
            is_kept = self._insert(result, self._last_attempt(result.trial_id) or 0)
            if is_kept:
                self._note_end(result, _ADOPTED, None, is_kept=True)
            return is_kept

    def restore(self, kept: Kept) -> bool:
        """Write a result down as it once stood here, attempt and times included.

        It takes the place of a row that is not what its hash says, and of nothing else.

        Returns:
            False if there is a sound one already.

        Raises:
            JournalError: if it is not what its own hash says.
        """
        result = self._understood(_RESULT, kept.body)
        if result.sha256 != kept.sha256:
            raise JournalError(
                f"{self.path}: the result of trial {result.trial_id} cannot be restored, since it "
                "is not the one that was written, by its SHA-256."
            )
        key = (result.trial_id, result.provenance.environment_id)
        with self._db:
            if self._is_damaged(*key):
                self._db.execute(f"DELETE FROM results WHERE {_PLACE} = (?, ?)", key)
            if self._one(f"SELECT 1 FROM results WHERE {_PLACE} = (?, ?)", key):
                return False
            self._insert(result, kept.attempt)
            if kept.started_seconds is not None:
                row = (result.trial_id, kept.attempt, kept.started_seconds, "")
                self._db.execute(f"INSERT OR IGNORE INTO attempts VALUES ({_marks(row)})", row)
            self._note_end(result, kept.attempt, kept.ended_seconds, is_kept=True)
            return True

    def restore_plan(self, plan: Plan, statements: Iterable[Statement]) -> None:
        """Write a plan down as it once stood here, with the statements of its claim.

        A plan that is here already stays.
        """
        with self._db:
            for statement in statements:
                self._take_over(plan.key, statement)
            if not self._one(f"SELECT 1 FROM sweeps WHERE {_KEY}", plan.key):
                self._write_plan(plan)

    def results(self, trial_ids: Iterable[str]) -> Iterator[Result]:
        """All results of these trials, of every environment, in the order asked for."""
        for trial_id in trial_ids:
            rows = self._db.execute(
                "SELECT result FROM results WHERE trial_id = ? ORDER BY environment_id",
                (trial_id,),
            )
            for (body,) in rows:
                yield self._understood(_RESULT, body)

    def kept(self, trial_ids: Iterable[str]) -> Iterator[Kept]:
        """All results of these trials as they are written, in the order of `results`."""
        is_old = self._format < 3
        query = _KEPT.format(ends=f"({_NO_ENDS})" if is_old else "ends")
        for trial_id in trial_ids:
            yield from map(Kept._make, self._db.execute(query, (trial_id,)))

    def damaged(self) -> list[tuple[str, str]]:
        """(trial_id, environment_id) of the rows that are not what was written, by their hash."""
        return [
            (entry.trial_id, entry.environment_id)
            for entry in self.entries()
            if self._is_damaged(entry.trial_id, entry.environment_id)
        ]

    def contradictions(self) -> list[Contradiction]:
        """Where a trial that is no timing gave different numbers in one environment."""
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
        """trial_id -> environments in which it has a result that is no failure."""
        found: dict[str, set[str]] = {}
        query = f"SELECT trial_id, environment_id FROM results WHERE status NOT IN ({_FAILED})"
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

    def starts(self) -> list[Attempt]:
        """Every attempt, of each trial the first one first."""
        query = "SELECT trial_id, attempt, started_seconds, place FROM attempts ORDER BY 1, 2"
        return [Attempt(*row) for row in self._db.execute(query)]

    def ends(self) -> list[End]:
        """How every attempt ended that did; what was lost with its driver or node is not here."""
        query = "SELECT * FROM ends" if self._format >= 3 else ENDS_OF_RESULTS
        return [End(*row) for row in self._db.execute(query)]

    def statuses(self) -> dict[str, str]:
        """trial_id -> the status of its result: of a finding, where another environment failed."""
        query = f"SELECT trial_id, status FROM results ORDER BY status NOT IN ({_FAILED})"
        return dict(self._db.execute(query).fetchall())

    def failed(self) -> set[str]:
        """Trials that have failed somewhere, whatever they did elsewhere."""
        query = f"SELECT trial_id FROM results WHERE status IN ({_FAILED})"
        return {trial_id for (trial_id,) in self._db.execute(query)}

    def driver_started(self) -> float:
        """When the newest driver began, in seconds since 1970; 0 where that is not known."""
        if self._format < 3:
            return 0.0
        return float(self._one("SELECT started_seconds FROM driver", ()) or 0.0)

    def note_waiting(self, num_trials: int, reason: str) -> None:
        """So many trials have no place now, and why: for those who ask how the sweep stands."""
        with self._db:
            self._db.execute(
                "INSERT OR REPLACE INTO waiting VALUES (1, ?, ?)", (num_trials, reason)
            )

    def waiting(self) -> tuple[int, str]:
        """How many trials have no place, and why; of a driver that has ended, its last words."""
        if self._format < 2:
            return 0, ""
        row = self._db.execute("SELECT num_trials, reason FROM waiting").fetchone()
        return row or (0, "")

    def _is_damaged(self, trial_id: str, environment_id: str) -> bool:
        query = f"SELECT sha256, status, result FROM results WHERE {_PLACE} = (?, ?)"
        row = self._db.execute(query, (trial_id, environment_id)).fetchone()
        if row is None:
            return False
        sha256, status, body = row
        try:
            result = _RESULT.validate_json(body)
        except ValidationError:
            return True
        return bool(result.sha256 != sha256 or result.status.value != status)

    def _insert(self, result: Result, attempt: int) -> bool:
        key = (result.trial_id, result.provenance.environment_id)
        status = self._one(f"SELECT status FROM results WHERE {_PLACE} = (?, ?)", key)
        if status is not None and status not in FAILURES:
            return False
        self._db.execute(
            "INSERT OR REPLACE INTO results VALUES (?, ?, ?, ?, ?, ?)",
            (*key, attempt, result.status.value, result.sha256, _RESULT.dump_json(result)),
        )
        return True

    def _last_attempt(self, trial_id: str) -> int | None:
        last: int | None = self._one(
            "SELECT MAX(attempt) FROM attempts WHERE trial_id = ?", (trial_id,)
        )
        return last

    def _note_end(
        self, result: Result, attempt: int, ended_seconds: float | None, *, is_kept: bool
    ) -> None:
        """What is dropped never takes the place of what was kept."""
        made = result.provenance
        end = End(
            result.trial_id, made.environment_id, attempt, result.status.value, result.seconds,
            made.num_cpus, made.num_gpus, ended_seconds, result.reason, is_kept,
            result.finding_sha256 if result.status is Status.OK else "",
        )  # fmt: skip
        clash = "REPLACE" if is_kept else "IGNORE"
        self._db.execute(f"INSERT OR {clash} INTO ends VALUES ({_marks(end)})", end)

    def _plans(self) -> list[Plan]:
        rows = self._db.execute("SELECT plan FROM sweeps ORDER BY ablation, scale")
        return [self._understood(_PLAN, body) for (body,) in rows]

    def _registered(self, plan: Plan) -> Plan:
        registration = registration_of(plan.about, self.statements(plan.key))
        return replace(plan, about=replace(plan.about, registration=registration))

    def _num_pairs(self, plan: Plan) -> int:
        """Pairs of its claim of which this journal holds both results."""
        query = "SELECT 1 FROM results WHERE trial_id = ? AND status = 'ok'"
        return num_pairs_known(plan, lambda trial_id: bool(self._one(query, (trial_id,))))

    def _state(self, plan: Plan, num_pairs: int | None, seconds: float) -> None:
        """Note the test as it stands now; a no-op where the very same was stated before."""
        content = content_of(plan.about)
        if content is not None:
            statement = Statement(content=content, num_pairs=num_pairs, stated_seconds=seconds)
            row = (*plan.key, statement.sha256, content, num_pairs, seconds)
            self._db.execute(f"INSERT OR IGNORE INTO statements VALUES ({_marks(row)})", row)

    def _state_what_was_kept(self, key: tuple[str, str]) -> None:
        """A plan from before statements were kept: where it has results, none knows since when."""
        if self.statements(key):
            return
        body = self._one(f"SELECT plan FROM sweeps WHERE {_KEY}", key)
        if body is None:
            return
        with suppress(JournalError):  # of another version: what is stated now is then the first
            kept = self._understood(_PLAN, body)
            self._state(kept, None if self._num_pairs(kept) else 0, 0.0)

    def _take_over(self, key: tuple[str, str], statement: Statement) -> None:
        row = (
            *key, statement.sha256, statement.content, statement.num_pairs,
            statement.stated_seconds,
        )  # fmt: skip
        self._db.execute(
            f"INSERT INTO statements VALUES ({_marks(row)}) "
            "ON CONFLICT (ablation, scale, sha256) DO UPDATE SET num_pairs = excluded.num_pairs, "
            "stated_seconds = excluded.stated_seconds "
            "WHERE excluded.stated_seconds < stated_seconds",
            row,
        )

    def _write_plan(self, plan: Plan) -> None:
        """A no-op where the plan is there already, with its list of trials."""
        body = _PLAN.dump_json(replace(plan, about=replace(plan.about, registration=None)))
        is_known = self._one(f"SELECT plan FROM sweeps WHERE {_KEY}", plan.key) == body
        num_listed = self._one(f"SELECT COUNT(*) FROM trials WHERE {_KEY}", plan.key)
        if is_known and num_listed == len(plan.trials):
            return
        self._db.execute("INSERT OR REPLACE INTO sweeps VALUES (?, ?, ?)", (*plan.key, body))
        self._db.execute(f"DELETE FROM trials WHERE {_KEY}", plan.key)
        self._db.executemany(f"INSERT INTO trials VALUES ({_marks(Listed._fields)})", listed(plan))

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


def _marks(values: Sized) -> str:
    """As ``?, ?, ?``."""
    return ", ".join("?" * len(values))
