"""Stores the plans of a journal, and when the claim of each was stated.

How many seeds had results by then is written down with it.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from pydantic import TypeAdapter

from suite.journal.preregistration import Statement, content_of, num_seeds_seen, registration_of
from suite.journal.rows import FAILED, marks, one, understood
from suite.journal.sqlite_schema import JournalError
from suite.journal.trial_index import Listed, listed
from suite.schema import Plan, Status

_PLAN = TypeAdapter(Plan)
_KEY = "(ablation, scale) = (?, ?)"


class JournalPlans:
    """The tables `sweeps`, `trials` and `statements`; whoever has it written commits.

    Args:
        db: The journal's connection.
        path: Its file.
        file_format: Its format; older ones lack some of the tables.
    """

    def __init__(self, db: sqlite3.Connection, path: Path, file_format: int) -> None:
        self._db = db
        self._path = path
        self._format = file_format

    def keep(self, plan: Plan) -> None:
        """Remember what the sweep is made of, and state its claim."""
        self._state_what_was_kept(plan.key)
        self._state(plan, self._num_seen(plan), time.time())
        self._write_plan(plan)

    def adopt(self, plan: Plan, other: JournalPlans) -> None:
        """The same of a plan of another folder's journal; the earlier of two statements holds."""
        self._state_what_was_kept(plan.key)
        for statement in other.statements(plan.key):
            self._take_over(plan.key, statement)
        is_unknown = bool(other._num_seen(plan))
        self._state(plan, None if is_unknown else self._num_seen(plan), time.time())
        self._write_plan(plan)

    def restore(self, plan: Plan, statements: Iterable[Statement]) -> None:
        """As both once stood here; a plan that is here already stays."""
        for statement in statements:
            self._take_over(plan.key, statement)
        if not one(self._db, f"SELECT 1 FROM sweeps WHERE {_KEY}", plan.key):
            self._write_plan(plan)

    def all(self) -> list[Plan]:
        """Every sweep, each with the registration of its claim."""
        return [self.registered(plan) for plan in self._bare()]

    def readable(self) -> Iterator[Plan]:
        """As `all`, without plans that another version wrote and this one cannot read."""
        for body in self._bodies():
            with suppress(JournalError):
                yield self.registered(understood(_PLAN, body, self._path))

    def registered(self, plan: Plan) -> Plan:
        """The plan with the registration of its claim."""
        registration = registration_of(plan.about, self.statements(plan.key))
        return replace(plan, about=replace(plan.about, registration=registration))

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
            return [row for plan in self._bare() for row in listed(plan)]
        query = (
            "SELECT ablation, scale, trial_id, probe, label, num_workers, num_cpus, num_gpus, "
            "is_alone FROM trials"
        )
        return [Listed(*row) for row in self._db.execute(query)]

    def _bare(self) -> list[Plan]:
        return [understood(_PLAN, body, self._path) for body in self._bodies()]

    def _bodies(self) -> list[bytes]:
        rows = self._db.execute("SELECT plan FROM sweeps ORDER BY ablation, scale")
        return [body for (body,) in rows]

    def _num_seen(self, plan: Plan) -> int:
        """Seeds of its claim of which this journal says something on either side."""
        unseen = f"{FAILED}, '{Status.SKIPPED}'"
        query = f"SELECT 1 FROM results WHERE trial_id = ? AND status NOT IN ({unseen})"
        return num_seeds_seen(plan, lambda trial_id: bool(one(self._db, query, (trial_id,))))

    def _state(self, plan: Plan, num_pairs: int | None, seconds: float) -> None:
        """Note the test as it stands now; a no-op where the very same was stated before."""
        content = content_of(plan.about)
        if content is not None:
            statement = Statement(content=content, num_pairs=num_pairs, stated_seconds=seconds)
            row = (*plan.key, statement.sha256, content, num_pairs, seconds)
            self._db.execute(f"INSERT OR IGNORE INTO statements VALUES ({marks(row)})", row)

    def _state_what_was_kept(self, key: tuple[str, str]) -> None:
        """A plan from before statements were kept: if it has results, it is unknown since when."""
        if self.statements(key):
            return
        body = one(self._db, f"SELECT plan FROM sweeps WHERE {_KEY}", key)
        if body is None:
            return
        with suppress(JournalError):  # of another version: what is stated now is then the first
            kept = understood(_PLAN, body, self._path)
            self._state(kept, None if self._num_seen(kept) else 0, 0.0)

    def _take_over(self, key: tuple[str, str], statement: Statement) -> None:
        row = (
            *key, statement.sha256, statement.content, statement.num_pairs,
            statement.stated_seconds,
        )  # fmt: skip
        self._db.execute(
            f"INSERT INTO statements VALUES ({marks(row)}) "
            "ON CONFLICT (ablation, scale, sha256) DO UPDATE SET num_pairs = excluded.num_pairs, "
            "stated_seconds = excluded.stated_seconds "
            "WHERE excluded.stated_seconds < stated_seconds",
            row,
        )

    def _write_plan(self, plan: Plan) -> None:
        """A no-op where the plan is there already, with its list of trials."""
        body = _PLAN.dump_json(replace(plan, about=replace(plan.about, registration=None)))
        is_known = one(self._db, f"SELECT plan FROM sweeps WHERE {_KEY}", plan.key) == body
        num_listed = one(self._db, f"SELECT COUNT(*) FROM trials WHERE {_KEY}", plan.key)
        if is_known and num_listed == len(plan.trials):
            return
        self._db.execute("INSERT OR REPLACE INTO sweeps VALUES (?, ?, ?)", (*plan.key, body))
        self._db.execute(f"DELETE FROM trials WHERE {_KEY}", plan.key)
        self._db.executemany(f"INSERT INTO trials VALUES ({marks(Listed._fields)})", listed(plan))
