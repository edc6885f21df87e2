"""Tests for the editions of a plan: they are kept, numbered, and copied with the journal."""

from __future__ import annotations

import gzip
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from bakeoff.suite.journal.editions import bare_json
from bakeoff.suite.journal.export import exported, parsed
from bakeoff.suite.journal.journal import Journal
from bakeoff.suite.planning.plan import plan
from bakeoff.suite.schema import Plan
from tests.suite.journal.test_preregistration import commit_all
from tests.suite.small_ablation import make_ablation


def make(steps: int = 4, **scale: int) -> Plan:
    return plan(make_ablation(scale={"steps": steps, **scale}))


def numbers(planned: Plan) -> tuple[int, list[tuple[int, int]]]:
    """Return the number of the shown edition, and each edition's number and finished trials."""
    return planned.about.edition, [(e.number, e.num_done) for e in planned.about.editions]


def test_an_edition_keeps_its_number_and_what_is_older_is_the_first(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    with Journal(path) as journal:
        assert numbers(journal.keep_plan(make())) == (1, [(1, 0)])
        commit_all(journal, make())
    with closing(sqlite3.connect(path)) as db:
        db.executescript(
            "DROP TABLE editions; DROP TABLE sources; ALTER TABLE ends DROP COLUMN joules; "
            "PRAGMA user_version = 4;"
        )
    with Journal(path, read_only=True) as journal:
        assert numbers(journal.plans()[0]) == (1, [])
    with Journal(path) as journal:
        elsewhere = make(cpus=2)
        about = replace(elsewhere.about, note="Another note.", regenerate="again")
        assert numbers(journal.keep_plan(replace(elsewhere, about=about))) == (1, [(1, 6)])
        shown = journal.keep_plan(make(5))
        assert numbers(shown) == (2, [(2, 0), (1, 6)])
        assert [each.settings["steps"] for each in shown.about.editions] == [5, 4]
        assert [journal.edition_number(make(steps)) for steps in (5, 4, 3)] == [2, 1, None]
        first = min(each.started_seconds for each in journal.starts())
        assert shown.about.editions[1].started_seconds == first
        assert numbers(journal.keep_plan(make())) == (1, [(2, 0), (1, 6)])


def test_what_was_kept_under_old_names_is_read_and_is_the_same_edition(tmp_path: Path) -> None:
    """Read a journal and a file from when an architecture was called a skeleton."""
    path = tmp_path / "journal.db"
    with Journal(path) as journal:
        shown = journal.keep_plan(make())
        lines = gzip.decompress(exported(shown, journal)).replace(b"architecture", b"skeleton")
    assert lines.count(b'"skeleton"') > 3
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE sweeps SET plan = replace(plan, 'architecture', 'skeleton')")
        old = gzip.compress(bare_json(shown).replace(b"architecture", b"skeleton"))
        db.execute("UPDATE editions SET plan = ?", (old,))
    with Journal(path) as journal:
        assert journal.plans() == [shown]
        assert numbers(journal.keep_plan(make())) == (1, [(1, 0)])
    assert parsed(gzip.compress(lines)).plan.trials == shown.trials


def test_history_and_source_go_where_the_journal_goes(tmp_path: Path) -> None:
    journal, restored, other = (Journal(tmp_path / f"{n}.db") for n in range(3))
    journal.keep_plan(make(), {"mine.py": "ABLATION = 1\n"})
    commit_all(journal, make())
    shown = journal.keep_plan(make(5))
    held = parsed(exported(shown, journal))
    restored.restore_plan(held.plan, held.statements, held.editions, held.sources)
    assert [restored.restore(kept) for kept in held.results] == [True] * 6
    assert restored.plans()[0].about == shown.about
    assert list(held.sources.values()) == [{"mine.py": "ABLATION = 1\n"}]
    other.keep_plan(make(6))
    for result in journal.results(journal.trials_of_editions(shown)):
        other.adopt(result)
    assert numbers(other.adopt_plan(shown, journal)) == (3, [(3, 0), (2, 6), (1, 0)])
    for each in (journal, restored, other):
        each.close()
