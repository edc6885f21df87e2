"""Store the plans of a journal, and register the claim of each.

A claim is registered by a hash of everything that fixes its test, with the number of seeds that
already had results and the changes since then. If a claim is worded, or a seed is added, after
results were seen, its interval overstates the evidence: with enough looks some claim will hold
(Simmons et al. 2011, "False-Positive Psychology"; for seeds, optional stopping). This is not
forbidden, but the report states it.

The trials of a plan are also listed in a few columns, so that the status of a sweep can be read
without the whole plan.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from bakeoff.models.model_spec import canonical_json
from bakeoff.suite.journal.editions import (
    JournalEditions,
    KeptEdition,
    Source,
    Sources,
    bare_json,
    parsed_plan,
    settings_of,
    what_is_claimed,
)
from bakeoff.suite.journal.sqlite_schema import FAILED, JournalError, marks, one
from bakeoff.suite.schema import (
    FINDERS,
    About,
    Cell,
    Plan,
    Registration,
    Status,
    Trial,
)

ALPHA = 0.05  # significance level: one false verdict in twenty if there is no effect


@dataclass(frozen=True, kw_only=True)
class Statement:
    """A test, as it was stated for an ablation at a scale.

    Attributes:
        content: Canonical JSON of everything that fixes the test.
        num_pairs: The number of seeds for which at least one side of the claim had a result then,
            or None if unknown. The name comes from the journal's file, where it once meant both
            sides.
        stated_seconds: The time in seconds since 1970, by the clock of the machine where it was
            stated.
    """

    content: str
    num_pairs: int | None
    stated_seconds: float

    @property
    def sha256(self) -> str:
        """The SHA-256 of the content, 64 hexadecimal digits."""
        return hashlib.sha256(self.content.encode()).hexdigest()


def content_of(about: About) -> str | None:
    """Return canonical JSON of everything that fixes the claim's test, or None without a claim."""
    if about.claim is None:
        return None
    return canonical_json(
        {
            "alpha": ALPHA,
            "claim": what_is_claimed(about),
            "seeds": about.num_seeds,
            "settings": settings_of(about),
        }
    )


def num_seeds_seen(plan: Plan, has_result: Callable[[str], bool]) -> int:
    """Return the number of seeds with a known result of any side, since one side is a hint.

    Args:
        plan: The plan.
        has_result: Returns whether a trial has a result, from any ablation.
    """
    return len({cell.seed for cell in claim_cells(plan) if has_result(cell.trial_id)})


def claim_cells(plan: Plan) -> Iterator[Cell]:
    """Yield the cells of all sides of the claim, at all coordinates if the claim names none."""
    claim = plan.about.claim
    for cell in plan.cells if claim else ():
        assert claim is not None, "without a claim there are no cells"
        is_side = cell.task == claim.task and cell.variant in claim.compared
        is_there = not claim.at or cell.at == claim.at
        if is_side and is_there and any(metric.name == claim.metric for metric in cell.metrics):
            yield cell


def registration_of(about: About, statements: Sequence[Statement]) -> Registration | None:
    """Return the registration of the claim, from all known statements of this ablation and scale.

    The first statement of exactly this test counts, regardless of other statements in between.

    Returns:
        The registration, or None without a claim, or if the time of its statement is unknown.
    """
    content = content_of(about)
    in_order = sorted(statements, key=lambda each: each.stated_seconds)
    current = next((each for each in in_order if each.content == content), None)
    if current is None or current.num_pairs is None:
        return None
    return Registration(
        sha256=current.sha256,
        num_pairs_before=current.num_pairs,
        changes=tuple(_changes(in_order[0], current)),
    )


def _changes(first: Statement, current: Statement) -> Iterator[str]:
    """Yield the differences, for example ``by 0.02 -> 0.01``."""
    before, now = (_flat(json.loads(each.content)) for each in (first, current))
    for name in dict.fromkeys((*before, *now)):
        old, new = before.get(name), now.get(name)
        if old != new:
            is_late = name == "seeds" and current.num_pairs
            remark = ", after results were seen" if is_late else ""
            yield f"{name} {_shown(old)} -> {_shown(new)}{remark}"


def _flat(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the claim's fields first, then seeds and settings, by name."""
    named: dict[str, Any] = {name: content[name] for name in ("seeds", "alpha")}
    return {**content["claim"], **named, **content["settings"]}


def _shown(value: object) -> str:
    if value is None or value == "":
        return "none"
    return f'"{value}"' if isinstance(value, str) and " " in value else str(value)


class Listed(NamedTuple):
    """A trial of a sweep, in a few columns.

    Attributes:
        label: Its readable name.
        num_workers: Number of worker processes.
        num_cpus: CPUs of one worker.
        num_gpus: GPUs of one worker.
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
        """A key for trials that take about the same time."""
        return self.ablation, self.scale, self.probe


def listed(plan: Plan) -> Iterator[Listed]:
    """Yield the plan's trials, in its order."""
    labels = labels_of(plan)
    for trial in plan.trials:
        asked = plan.resources.for_trial(trial)
        yield Listed(
            *plan.key,
            trial.trial_id,
            trial.probe,
            labels.get(trial.trial_id, trial.trial_id),
            trial.num_workers,
            float(asked.num_cpus),
            asked.num_gpus,
            trial.is_timing,
        )


def labels_of(plan: Plan) -> dict[str, str]:
    """Return trial_id -> a short readable name, after the first cell that the trial fills."""
    trials = {trial.trial_id: trial for trial in plan.trials}
    cells = [cell for cell in reversed(plan.cells) if cell.trial_id in trials]
    cells += parent_cells(plan)
    return {cell.trial_id: _label(trials[cell.trial_id], cell) for cell in cells}


def parent_cells(plan: Plan) -> list[Cell]:
    """Return substitute cells for the trials that fill none, because they only precede others."""
    idle = {t.trial_id for t in plan.trials} - {cell.trial_id for cell in plan.cells}
    parts: dict[str, dict[str, Trial]] = {}
    for trial in plan.trials:
        for part, parent in trial.parents.items():
            parts.setdefault(parent.trial_id, {})[part] = parent
    return [
        Cell(
            variant=" and ".join(of_one),
            task=parent.task_label,
            seed=parent.seed,
            probe=parent.probe,
            trial_id=trial_id,
            metrics=(),
        )
        for trial_id, of_one in parts.items()
        if trial_id in idle
        for parent in [next(iter(of_one.values()))]
    ]


def _label(trial: Trial, cell: Cell) -> str:
    where = cell.at or trial.task_label
    if not trial.subjects:
        return f"{trial.probe}, {where}"
    if len(trial.subjects) > 1:
        return f"{trial.probe} of {len(trial.subjects)} variants, {where}, process {trial.seed}"
    if trial.training is None or trial.probe in FINDERS.values():
        seed = f", seed {trial.seed}" if trial.trained else ""
        return f"{trial.probe} of {cell.variant}, {where}{seed}"
    return f"{cell.variant}, {where}, seed {trial.seed}"


_KEY = "(ablation, scale) = (?, ?)"


class JournalPlans(JournalEditions):
    """The tables `sweeps`, `trials` and `statements` of a journal, which `Journal` opens."""

    _format: int  # the format of the file; older ones lack some of the tables

    def keep_plan(self, plan: Plan, source: Source | None = None) -> Plan:
        """Store the plan of the sweep before any of its trials runs, and state its claim.

        Args:
            plan: It becomes an edition of its sweep, unless it is one already.
            source: The user's files that it was made from.

        Returns:
            The plan with the registration of its claim and its editions: the plan that results are
                published with.
        """
        with self._db:
            self._keep_edition(plan, source or {})
            self._state_what_was_kept(plan.key)
            self._state(plan, self._num_seen(plan), time.time())
            self._write_plan(plan)
            self._db.execute("INSERT OR REPLACE INTO driver VALUES (1, ?)", (time.time(),))
            self._db.execute("DELETE FROM waiting")  # entries of an older driver
        return self._registered(plan)

    def adopt_plan(self, plan: Plan, other: JournalPlans) -> Plan:
        """Copy a plan from another folder's journal, with editions and statements of its claim.

        If both journals hold the same statement, the earlier one counts. If the other journal has
        results of a claim but no time of its statement, the time is unknown here too.

        Returns:
            The plan, as returned by `keep_plan`.
        """
        with self._db:
            self._state_what_was_kept(plan.key)
            self._take_over(plan.key, other.statements(plan.key))
            is_unknown = bool(other._num_seen(plan))
            self._state(plan, None if is_unknown else self._num_seen(plan), time.time())
            editions = other.kept_editions(plan)
            known = editions or [other._first_edition(plan)]
            self._take_over_editions(plan, known, other.sources(editions))
            self._write_plan(plan)
        return self._registered(plan)

    def restore_plan(
        self,
        plan: Plan,
        statements: Iterable[Statement],
        editions: Iterable[KeptEdition] = (),
        sources: Sources | None = None,
    ) -> None:
        """Write a plan as it was stored before, with the statements of its claim and its editions.

        A plan that is already stored is kept.
        """
        with self._db:
            self._take_over(plan.key, statements)
            self._take_over_editions(plan, editions, sources or {})
            if not one(self._db, f"SELECT 1 FROM sweeps WHERE {_KEY}", plan.key):
                self._write_plan(plan)

    def plans(self) -> list[Plan]:
        """Return every sweep ever started here, with its claim's registration and editions."""
        return [self._registered(self._plan(body)) for body in self._bodies()]

    def readable_plans(self) -> Iterator[Plan]:
        """Yield the same plans as `plans`, without those that this version cannot read."""
        for body in self._bodies():
            with suppress(JournalError):
                yield self._registered(self._plan(body))

    def statements(self, key: tuple[str, str]) -> list[Statement]:
        """Return all statements of the claim of (ablation, scale); empty in old journals."""
        if self._format < 3:
            return []
        rows = self._db.execute(
            f"SELECT content, num_pairs, stated_seconds FROM statements WHERE {_KEY} "
            "ORDER BY stated_seconds, rowid",
            key,
        )
        return [Statement(content=c, num_pairs=n, stated_seconds=s) for c, n, s in rows]

    def trials(self) -> list[Listed]:
        """Return the trials of all sweeps, in a few columns; shared ones once for each sweep."""
        if self._format < 3:
            return [row for body in self._bodies() for row in listed(self._plan(body))]
        query = f"SELECT {', '.join(Listed._fields)} FROM trials"
        return [Listed(*row) for row in self._db.execute(query)]

    def _plan(self, body: bytes) -> Plan:
        return parsed_plan(body, self.path)

    def _registered(self, plan: Plan) -> Plan:
        """Return the plan with the registration of its claim, and its editions."""
        registration = registration_of(plan.about, self.statements(plan.key))
        editions = tuple(edition for edition, _ in self.history(plan))
        about = replace(plan.about, registration=registration, editions=editions)
        return replace(plan, about=about)

    def _bodies(self) -> list[bytes]:
        rows = self._db.execute("SELECT plan FROM sweeps ORDER BY ablation, scale")
        return [body for (body,) in rows]

    def _num_seen(self, plan: Plan) -> int:
        """Return the number of seeds for which a side of the claim has a result here."""
        unseen = f"{FAILED}, '{Status.SKIPPED}'"
        query = f"SELECT 1 FROM results WHERE trial_id = ? AND status NOT IN ({unseen})"
        return num_seeds_seen(plan, lambda trial_id: bool(one(self._db, query, (trial_id,))))

    def _state(self, plan: Plan, num_pairs: int | None, seconds: float) -> None:
        """Write the test of the claim as it is now, unless it was stated before."""
        content = content_of(plan.about)
        if content is not None:
            statement = Statement(content=content, num_pairs=num_pairs, stated_seconds=seconds)
            row = (*plan.key, statement.sha256, content, num_pairs, seconds)
            self._db.execute(f"INSERT OR IGNORE INTO statements VALUES ({marks(row)})", row)

    def _state_what_was_kept(self, key: tuple[str, str]) -> None:
        """State the claim of a plan without statements; if it has results, its time is unknown."""
        body = one(self._db, f"SELECT plan FROM sweeps WHERE {_KEY}", key)
        if self.statements(key) or body is None:
            return
        # A plan of another version cannot be read: the present statement is then the first.
        with suppress(JournalError):
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
        """Write the plan and its list of trials, unless both are stored already."""
        body = bare_json(plan)
        is_known = one(self._db, f"SELECT plan FROM sweeps WHERE {_KEY}", plan.key) == body
        num_listed = one(self._db, f"SELECT COUNT(*) FROM trials WHERE {_KEY}", plan.key)
        if is_known and num_listed == len(plan.trials):
            return
        self._db.execute("INSERT OR REPLACE INTO sweeps VALUES (?, ?, ?)", (*plan.key, body))
        self._db.execute(f"DELETE FROM trials WHERE {_KEY}", plan.key)
        self._db.executemany(f"INSERT INTO trials VALUES ({marks(Listed._fields)})", listed(plan))
