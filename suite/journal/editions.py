"""Store the editions of each sweep: every version of its plan, and the source that made it.

An edition is identified by a hash of everything that determines the plan. So the same file planned
again is the same edition, and a file that was changed and changed back is the earlier edition
again.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from bakeoff.models.model_spec import Knob, canonical_json, in_hashed_words, in_present_words
from bakeoff.suite.journal.sqlite_schema import FAILED, JournalError, marks, one, understood
from bakeoff.suite.schema import About, Edition, Plan
from bakeoff.suite.schema.training import without_idle
from bakeoff.suite.spec import default_warmup_steps

# Fields of a claim about the literature, which do not affect the test.
CITED = frozenset({"source", "published"})
# Fields that older claims lack, with the value at which they do nothing.
_IDLE_IN_CLAIM: Mapping[str, object] = {"counted_by": "", "curve": ()}
# Settings of the place of execution. Times of different machines and thread counts are never
# compared anyway.
PLACE = frozenset({"cpus", "threads", "gpus", "gpu_model", "memory_gib"})
_FIRST_SCHEDULE = ("schedule", "cosine")  # the only one before plans recorded their schedule
SHOWN_DIGITS = 12  # digits of a hash
_MOST_LISTED = 6  # variants; for more, only their number is displayed
_LEVEL = 6  # compression level of gzip
_PLAN = TypeAdapter(Plan)
_KEY = "(ablation, scale) = (?, ?)"

Source = Mapping[str, str]  # place of a file -> its text
Sources = Mapping[str, Source]  # by the SHA-256 of the source
_Key = tuple[str, str]


@dataclass(frozen=True, kw_only=True)
class KeptEdition:
    """An edition as the journal stores it.

    Attributes:
        number: The number of the edition within its sweep, from 1.
        sha256: The hash of everything that determines the plan.
        started_seconds: The time when it was first planned, in seconds since 1970; 0 if unknown.
        plan: The plan, or None for the edition that the sweep shows, whose plan is known already.
        source_sha256: The hash of the user's files; empty if there are none, or if they are
            unknown.
    """

    number: int
    sha256: str
    started_seconds: float
    plan: Plan | None = None
    source_sha256: str = ""


def edition_sha256(plan: Plan) -> str:
    """Return the SHA-256 of everything that determines the plan, 64 hexadecimal digits."""
    about = plan.about
    content = {
        "baseline": about.baseline,
        "variants": about.variants,
        "tasks": about.tasks,
        "probes": about.probes,
        "seeds": about.num_seeds,
        "model": in_hashed_words(about.model),
        "claim": what_is_claimed(about),
        "settings": settings_of(about),
        "trials": sorted(trial.trial_id for trial in plan.trials),
    }
    return hashlib.sha256(canonical_json(content).encode()).hexdigest()


def source_sha256(source: Source) -> str:
    """Return the SHA-256 of the user's files, 64 hexadecimal digits; empty without any."""
    text = canonical_json(dict(source)).encode()
    return hashlib.sha256(text).hexdigest() if source else ""


def what_is_claimed(about: About) -> dict[str, Any]:
    """Return the fields of the claim that its test depends on; empty without a claim."""
    claim = asdict(about.claim) if about.claim else {}
    stated = without_idle(claim, is_check=False, **_IDLE_IN_CLAIM)
    return {name: value for name, value in stated.items() if name not in CITED}


def settings_of(about: About) -> dict[str, Knob]:
    """Return the scale's settings that determine the plan; early plans recorded no schedule."""
    return {
        name: value
        for name, value in about.settings.items()
        if name not in PLACE and (name, value) != _FIRST_SCHEDULE
    }


def edition_settings(about: About) -> dict[str, Knob]:
    """Return everything that may differ between two editions, by name, the most important first."""
    found: dict[str, Knob] = {k: v for k, v in about.settings.items() if k not in PLACE}
    steps = found.get("steps")
    if isinstance(steps, int) and found.get("warmup_steps") == default_warmup_steps(steps):
        del found["warmup_steps"]  # it follows from the steps
    found.setdefault(*_FIRST_SCHEDULE)
    found["seeds"] = about.num_seeds
    for name, value in about.model.items():
        found[f"model {name}" if name in found else name] = value
    labels = about.variants
    found |= {
        "baseline": about.baseline,
        "variants": ", ".join(labels) if len(labels) <= _MOST_LISTED else f"{len(labels):,}",
        "tasks": ", ".join(about.tasks),
        "probes": ", ".join(about.probes),
    }
    if claim := about.claim:
        found |= {
            "claim": claim.statement,
            "claim compares": f"{claim.a} with {claim.b}",
            "claim by": claim.by,
            "claim metric": f"{claim.stated_metric} {claim.at}".rstrip(),
            "claim task": claim.task,
        }
    return found


def bare_json(plan: Plan) -> bytes:
    """Return the plan as JSON, without the fields that the journal adds."""
    bare = replace(plan, about=replace(plan.about, registration=None))
    late = (
        "part_titles",
        "opens_with",
        "words",
        "held_out",
        "axis_values",
        "named_axes",
    )  # left out, so that the JSON of an older plan does not change
    idle = {name for name in late if not getattr(bare.about, name)}
    of_about: dict[str, Any] = dict.fromkeys(("editions", "costs", "price", *idle), True)
    if bare.about.claim and not bare.about.claim.counted_by:
        of_about["claim"] = set(_IDLE_IN_CLAIM)
    exclude: dict[str, Any] = {"about": of_about}
    if not plan.shared_module:
        exclude["shared_module"] = True
    return _PLAN.dump_json(bare, exclude=exclude)


def parsed_plan(body: str | bytes, path: Path) -> Plan:
    """Return the plan that a row of that journal holds.

    Raises:
        JournalError: If the row does not hold a valid plan.
    """
    return understood(_PLAN, in_present_words(body), path)


class JournalEditions:
    """The tables `editions` and `sources` of a journal, which `Journal` opens."""

    path: Path
    _db: sqlite3.Connection
    _format: int

    def history(self, plan: Plan) -> list[tuple[Edition, Plan]]:
        """Return the editions of the plan's sweep with their plans, newest first, without verdicts.

        The list is empty in journals of format 4 and older, until their next plan is stored.
        """
        kept = self.kept_editions(plan)
        done = self._done() if kept else frozenset()
        return [(_edition(each, each.plan or plan, done), each.plan or plan) for each in kept[::-1]]

    def kept_editions(self, plan: Plan) -> list[KeptEdition]:
        """Return the editions of the plan's sweep, by number, that this version can read."""
        if self._format < 5:
            return []
        rows = self._db.execute(
            "SELECT number, sha256, started_seconds, source_sha256, "
            "CASE sha256 WHEN ? THEN NULL ELSE plan END "
            f"FROM editions WHERE {_KEY} ORDER BY number",
            (edition_sha256(plan), *plan.key),
        )
        return list(self._kept(rows))

    def edition_number(self, plan: Plan) -> int | None:
        """Return the number of the plan's own edition, or None if it is not stored."""
        if self._format < 5:
            return None
        query = f"SELECT number FROM editions WHERE {_KEY} AND sha256 = ?"
        number: int | None = one(self._db, query, (*plan.key, edition_sha256(plan)))
        return number

    def trials_of_editions(self, plan: Plan) -> list[str]:
        """Return the ids of the plan's trials, then of those that only its other editions have."""
        others = [each.plan for each in self.kept_editions(plan) if each.plan is not None]
        return list(dict.fromkeys(t.trial_id for p in (plan, *others) for t in p.trials))

    def edition_hashes(self) -> list[tuple[str, str, str]]:
        """Return (ablation, hash, hash of the source) of every edition, at any scale."""
        if self._format < 5:
            return [(name, "", "") for (name,) in self._db.execute("SELECT ablation FROM sweeps")]
        return self._db.execute("SELECT ablation, sha256, source_sha256 FROM editions").fetchall()

    def source_sha256_of(self, plan: Plan) -> str:
        """Return the hash of the user's files that the plan was made from; empty without any."""
        kept = (each.source_sha256 for each in self.kept_editions(plan) if each.plan is None)
        return next(kept, "")

    def sources(self, editions: Iterable[KeptEdition]) -> dict[str, Source]:
        """Return the source of each edition that has one, by its hash."""
        hashes = sorted({each.source_sha256 for each in editions} - {""})
        query = "SELECT body FROM sources WHERE sha256 = ?"
        bodies = {sha256: one(self._db, query, (sha256,)) for sha256 in hashes}
        return {k: json.loads(gzip.decompress(body)) for k, body in bodies.items() if body}

    def _kept(
        self, rows: Iterable[tuple[int, str, float, str, bytes | None]]
    ) -> Iterator[KeptEdition]:
        for number, sha256, started, source, body in rows:
            with suppress(JournalError):
                plan = parsed_plan(gzip.decompress(body), self.path) if body else None
                yield KeptEdition(
                    number=number,
                    sha256=sha256,
                    started_seconds=started,
                    plan=plan,
                    source_sha256=source,
                )

    def _done(self) -> frozenset[str]:
        query = f"SELECT DISTINCT trial_id FROM results WHERE status NOT IN ({FAILED})"
        return frozenset(trial_id for (trial_id,) in self._db.execute(query))

    def _keep_edition(self, plan: Plan, source: Source) -> None:
        """Store the plan if it is new; an edition without any result starts now."""
        self._keep_first(plan.key)
        sha256, now = edition_sha256(plan), time.time()
        of_it = (*plan.key, sha256)
        query = f"SELECT number FROM editions WHERE {_KEY} AND sha256 = ?"
        number = one(self._db, query, of_it)
        if number is None or self._done().isdisjoint(t.trial_id for t in plan.trials):
            kept = KeptEdition(
                number=number or self._next_number(plan.key),
                sha256=sha256,
                started_seconds=now,
                source_sha256=self._keep_source(source),
            )
            self._write_edition(kept, plan)
        else:
            change = f"UPDATE editions SET plan = ? WHERE {_KEY} AND sha256 = ?"
            self._db.execute(change, (gzip.compress(bare_json(plan), _LEVEL, mtime=0), *of_it))

    def _keep_first(self, key: _Key) -> None:
        """Store a plan from before editions were recorded as the first edition."""
        body = one(self._db, f"SELECT plan FROM sweeps WHERE {_KEY}", key)
        if body is None or one(self._db, f"SELECT 1 FROM editions WHERE {_KEY}", key):
            return
        with suppress(JournalError):  # a plan of another version
            plan = parsed_plan(body, self.path)
            self._write_edition(self._first_edition(plan), plan)

    def _first_edition(self, plan: Plan) -> KeptEdition:
        """Return the edition of a plan from before editions; its first attempt is its start."""
        ids = {trial.trial_id for trial in plan.trials}
        rows = self._db.execute("SELECT trial_id, started_seconds FROM attempts")
        started = min((seconds for trial_id, seconds in rows if trial_id in ids), default=0.0)
        return KeptEdition(number=1, sha256=edition_sha256(plan), started_seconds=started)

    def _take_over_editions(
        self, plan: Plan, editions: Iterable[KeptEdition], sources: Sources
    ) -> None:
        """Merge the editions of another journal of the same sweep; the earlier start counts.

        An edition whose number is taken here gets the next free one.
        """
        self._keep_first(plan.key)
        for source in sources.values():
            self._keep_source(source)
        for each in editions:
            query = f"SELECT started_seconds FROM editions WHERE {_KEY} AND sha256 = ?"
            known = one(self._db, query, (*plan.key, each.sha256))
            if known is None:
                query = f"SELECT 1 FROM editions WHERE {_KEY} AND number = ?"
                is_taken = one(self._db, query, (*plan.key, each.number))
                number = self._next_number(plan.key) if is_taken else each.number
                self._write_edition(replace(each, number=number), each.plan or plan)
            elif 0 < each.started_seconds < known:
                change = f"UPDATE editions SET started_seconds = ? WHERE {_KEY} AND sha256 = ?"
                self._db.execute(change, (each.started_seconds, *plan.key, each.sha256))

    def _next_number(self, key: _Key) -> int:
        return 1 + (one(self._db, f"SELECT MAX(number) FROM editions WHERE {_KEY}", key) or 0)

    def _write_edition(self, kept: KeptEdition, plan: Plan) -> None:
        body = gzip.compress(bare_json(plan), _LEVEL, mtime=0)
        row = (*plan.key, kept.number, kept.sha256, kept.started_seconds, body, kept.source_sha256)
        self._db.execute(f"INSERT OR REPLACE INTO editions VALUES ({marks(row)})", row)

    def _keep_source(self, source: Source) -> str:
        """Store the source, and return its hash; see `source_sha256`."""
        if not source:
            return ""
        text, sha256 = canonical_json(dict(source)).encode(), source_sha256(source)
        row = (sha256, gzip.compress(text, _LEVEL, mtime=0))
        self._db.execute("INSERT OR IGNORE INTO sources VALUES (?, ?)", row)
        return sha256


def _edition(kept: KeptEdition, plan: Plan, done: frozenset[str]) -> Edition:
    return Edition(
        number=kept.number,
        sha256=kept.sha256[:SHOWN_DIGITS],
        started_seconds=kept.started_seconds,
        settings=edition_settings(plan.about),
        num_trials=len(plan.trials),
        num_done=sum(trial.trial_id in done for trial in plan.trials),
        source_sha256=kept.source_sha256,
        is_shown=kept.plan is None,
    )
