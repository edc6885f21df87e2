"""Stores the plans of a journal, and when the claim of each was stated.

The number of seeds that had results by then is stored with it. The trials of a plan are also
listed in a few columns, so that the status of a sweep needs no whole plan.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from pydantic import TypeAdapter

from suite.journal.preregistration import Statement, content_of, num_seeds_seen, registration_of
from suite.journal.sqlite_schema import FAILED, JournalError, marks, one, understood
from suite.schema import Cell, Plan, Status, Trial


class Listed(NamedTuple):
    """A trial of a sweep, in a few columns.

    Attributes:
        label: Its readable name.
        num_workers: Processes that it takes.
        num_cpus: Of one worker; so is `num_gpus`.
        is_alone: Whether it runs alone on its node, in the phase of the timings.
    """

    ablation: str
    scale: str
    trial_id: str
    probe: str
    label: str
    num_workers: int
    num_cpus: float
    num_gpus: float
    is_alone: bool

    @property
    def kind(self) -> tuple[str, str, str]:
        """Trials of one kind take about the same time."""
        return self.ablation, self.scale, self.probe


def listed(plan: Plan) -> Iterator[Listed]:
    """The plan's trials, in its order."""
    labels = labels_of([plan])
    asked = plan.resources
    for trial in plan.trials:
        yield Listed(
            *plan.key, trial.trial_id, trial.probe, labels.get(trial.trial_id, trial.trial_id),
            trial.num_workers, float(asked.num_cpus), asked.num_gpus, trial.is_timing,
        )  # fmt: skip


def labels_of(plans: Sequence[Plan]) -> dict[str, str]:
    """trial_id -> a short readable name, after the first cell that the trial fills."""
    labels: dict[str, str] = {}
    for plan in plans:
        trials = {trial.trial_id: trial for trial in plan.trials}
        for cell in plan.cells:
            if cell.trial_id in trials:
                labels.setdefault(cell.trial_id, _label(trials[cell.trial_id], cell))
    return labels


def _label(trial: Trial, cell: Cell) -> str:
    where = cell.at or trial.task
    if not trial.subjects:
        return f"{trial.probe}, {where}"
    if len(trial.subjects) > 1:
        return f"{trial.probe} of {len(trial.subjects)} variants, {where}, process {trial.seed}"
    if trial.training is None:
        return f"{trial.probe} of {cell.variant}, {where}"
    return f"{cell.variant}, {where}, seed {trial.seed}"


_PLAN = TypeAdapter(Plan)
_KEY = "(ablation, scale) = (?, ?)"


class JournalPlans:
    """The tables `sweeps`, `trials` and `statements` of a journal, which `Journal` opens."""

    path: Path
    _db: sqlite3.Connection
    _format: int  # of the file; older ones lack some of the tables

    def keep_plan(self, plan: Plan) -> Plan:
        """Remember what the sweep is made of, before any of its trials runs, and state its claim.

        Returns:
            The plan with the registration of its claim: the plan that results are published with.
        """
        with self._db:
            self._state_what_was_kept(plan.key)
            self._state(plan, self._num_seen(plan), time.time())
            self._write_plan(plan)
            self._db.execute("INSERT OR REPLACE INTO driver VALUES (1, ?)", (time.time(),))
            self._db.execute("DELETE FROM waiting")  # of an older driver
        return self._registered(plan)

    def adopt_plan(self, plan: Plan, other: JournalPlans) -> Plan:
        """Take a plan over from another folder's journal, with every statement of its claim.

        Where the same was stated in both, the earlier one holds. A claim that the other journal
        has results of, and does not say when it was stated, counts as not known here too.

        Returns:
            As `keep_plan`.
        """
        with self._db:
            self._state_what_was_kept(plan.key)
            self._take_over(plan.key, other.statements(plan.key))
            is_unknown = bool(other._num_seen(plan))
            self._state(plan, None if is_unknown else self._num_seen(plan), time.time())
            self._write_plan(plan)
        return self._registered(plan)

    def restore_plan(self, plan: Plan, statements: Iterable[Statement]) -> None:
        """Write a plan as it was here before, with the statements of its claim.

        A plan that is here already stays.
        """
        with self._db:
            self._take_over(plan.key, statements)
            if not one(self._db, f"SELECT 1 FROM sweeps WHERE {_KEY}", plan.key):
                self._write_plan(plan)

    def plans(self) -> list[Plan]:
        """Every sweep that was ever started here, each with the registration of its claim."""
        return [self._registered(self._plan(body)) for body in self._bodies()]

    def readable_plans(self) -> Iterator[Plan]:
        """As `plans`, without those that another version wrote and this one cannot read."""
        for body in self._bodies():
            with suppress(JournalError):
                yield self._registered(self._plan(body))

    def statements(self, key: tuple[str, str]) -> list[Statement]:
        """Every statement of the claim of (ablation, scale), each once; empty in old journals."""
        if self._format < 3:
            return []
        rows = self._db.execute(
            f"SELECT content, num_pairs, stated_seconds FROM statements WHERE {_KEY} "
            "ORDER BY stated_seconds, rowid",
            key,
        )
        names = ("content", "num_pairs", "stated_seconds")
        return [Statement(**dict(zip(names, row, strict=True))) for row in rows]

    def trials(self) -> list[Listed]:
        """The trials of every sweep, in a few columns; one that two sweeps share is in both."""
        if self._format < 3:
            return [row for body in self._bodies() for row in listed(self._plan(body))]
        query = f"SELECT {', '.join(Listed._fields)} FROM trials"
        return [Listed(*row) for row in self._db.execute(query)]

    def _plan(self, body: bytes) -> Plan:
        return understood(_PLAN, body, self.path)

    def _registered(self, plan: Plan) -> Plan:
        """The plan with the registration of its claim."""
        registration = registration_of(plan.about, self.statements(plan.key))
        return replace(plan, about=replace(plan.about, registration=registration))

    def _bodies(self) -> list[bytes]:
        rows = self._db.execute("SELECT plan FROM sweeps ORDER BY ablation, scale")
        return [body for (body,) in rows]

    def _num_seen(self, plan: Plan) -> int:
        """Seeds of its claim of which this journal says something on either side."""
        unseen = f"{FAILED}, '{Status.SKIPPED}'"
        query = f"SELECT 1 FROM results WHERE trial_id = ? AND status NOT IN ({unseen})"
        return num_seeds_seen(plan, lambda trial_id: bool(one(self._db, query, (trial_id,))))

    def _state(self, plan: Plan, num_pairs: int | None, seconds: float) -> None:
        """Write the test of the claim as it is now, unless the very same was stated before."""
        content = content_of(plan.about)
        if content is not None:
            statement = Statement(content=content, num_pairs=num_pairs, stated_seconds=seconds)
            row = (*plan.key, statement.sha256, content, num_pairs, seconds)
            self._db.execute(f"INSERT OR IGNORE INTO statements VALUES ({marks(row)})", row)

    def _state_what_was_kept(self, key: tuple[str, str]) -> None:
        """A plan from before statements were kept: if it has results, it is unknown since when."""
        body = one(self._db, f"SELECT plan FROM sweeps WHERE {_KEY}", key)
        if self.statements(key) or body is None:
            return
        with suppress(JournalError):  # of another version: what is stated now is then the first
            kept = self._plan(body)
            self._state(kept, None if self._num_seen(kept) else 0, 0.0)

    def _take_over(self, key: tuple[str, str], statements: Iterable[Statement]) -> None:
        self._db.executemany(
            "INSERT INTO statements VALUES (?, ?, ?, ?, ?, ?) "
            "ON CONFLICT (ablation, scale, sha256) DO UPDATE SET num_pairs = excluded.num_pairs, "
            "stated_seconds = excluded.stated_seconds "
            "WHERE excluded.stated_seconds < stated_seconds",
            [(*key, s.sha256, s.content, s.num_pairs, s.stated_seconds) for s in statements],
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
