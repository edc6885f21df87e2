"""What the checkers of `make chaos` call lost, doubled or an alarm: each can be brought about."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from suite.journal.journal import Journal
from suite.journal.sqlite_schema import journal_in
from suite.schema import Measurement, Result, Status
from tests.suite.finished_sweep import FinishedSweep
from tools.chaos.books import (
    Watcher,
    acknowledged_in,
    findings_in,
    kept_in,
    num_amiss,
    num_committed_twice,
    num_contradictions,
    num_differing,
    num_lost,
    without_failures,
)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """An output folder whose journal holds a finished sweep."""
    sweep = FinishedSweep("finished")
    with Journal(journal_in(tmp_path)) as journal:
        journal.keep_plan(sweep.plan)
        for result in sweep.results:
            journal.commit(result, journal.begin(result.trial_id, "here"))
    return tmp_path


def change(out: Path, statement: str) -> None:
    db = sqlite3.connect(journal_in(out))
    with db:
        db.executescript(statement)
    db.close()


def first(out: Path) -> Result:
    with Journal(journal_in(out), read_only=True) as journal:
        return next(journal.results([journal.entries()[0].trial_id]))


def other(result: Result) -> Result:
    measured = Measurement(metric="found", value=0.5, unit="bit", better="lower")
    return replace(result, measurements=(measured,))


def test_nothing_is_amiss_where_nothing_happened(out: Path) -> None:
    kept, findings = without_failures(kept_in(out)), findings_in(out)
    assert len(kept) == 9
    assert num_lost(kept, kept) == 0
    assert num_amiss(9, kept) == 0
    assert num_differing(findings, findings) == 0
    assert num_committed_twice(out) == 0


def test_a_watcher_sees_what_was_acknowledged_and_is_gone_or_changed(out: Path) -> None:
    watcher = Watcher(out)
    watcher.look()
    assert watcher.seen == acknowledged_in(out) == without_failures(kept_in(out))
    change(out, "DELETE FROM results WHERE trial_id = (SELECT MIN(trial_id) FROM results)")
    last = "(SELECT MAX(trial_id) FROM results)"
    change(out, f"UPDATE results SET sha256 = 'x' WHERE trial_id = {last}")
    watcher.look()
    watcher.look()
    assert watcher.num_changed == 2


def test_a_row_that_is_gone_is_lost(out: Path) -> None:
    before = without_failures(kept_in(out))
    change(out, "DELETE FROM results WHERE trial_id = (SELECT MIN(trial_id) FROM results)")
    now = without_failures(kept_in(out))
    assert num_lost(before, now) == 1
    assert num_amiss(9, now) == 1


def test_a_row_that_has_changed_is_lost(out: Path) -> None:
    before = without_failures(kept_in(out))
    result = first(out)
    change(out, f"DELETE FROM results WHERE trial_id = '{result.trial_id}'")
    with Journal(journal_in(out)) as journal:
        journal.commit(other(result), 2)
    assert num_lost(before, without_failures(kept_in(out))) == 1


def test_a_failure_may_give_way(out: Path) -> None:
    kept = {key: replace(one, status=Status.CRASHED.value) for key, one in kept_in(out).items()}
    assert without_failures(kept) == {}


def test_another_finding_is_an_alarm(out: Path) -> None:
    reference, result = findings_in(out), first(out)
    found = dict(reference)
    key = (result.trial_id, result.provenance.environment_id)
    found[key] = other(result).finding_sha256
    assert num_differing(reference, found) == 1


def test_when_and_how_long_is_no_alarm(out: Path) -> None:
    result = first(out)
    assert replace(result, seconds=99.0).finding_sha256 == result.finding_sha256


def test_a_second_commit_is_seen(out: Path) -> None:
    change(
        out,
        "CREATE TEMP TABLE again AS SELECT * FROM ends LIMIT 1; "
        "UPDATE again SET attempt = attempt + 1; INSERT INTO ends SELECT * FROM again",
    )
    assert num_committed_twice(out) == 1


def test_an_attempt_that_found_something_else_is_an_alarm(out: Path) -> None:
    result = first(out)
    with Journal(journal_in(out)) as journal:
        attempt = journal.begin(result.trial_id, "there")
        assert num_contradictions(out) == 0
        assert not journal.commit(other(result), attempt)
    assert num_contradictions(out) == 1


def test_a_late_commit_is_not_taken(out: Path) -> None:
    result = first(out)
    with Journal(journal_in(out)) as journal:
        assert not journal.commit(other(result), 1)
    assert num_committed_twice(out) == 0


def test_a_watcher_notices_what_goes_away(out: Path) -> None:
    watcher = Watcher(out)
    watcher.look()
    assert (len(watcher.seen), watcher.num_changed) == (9, 0)
    change(out, "DELETE FROM results WHERE trial_id = (SELECT MIN(trial_id) FROM results)")
    watcher.look()
    watcher.look()
    assert watcher.num_changed == 1


def test_there_may_be_no_journal_yet(tmp_path: Path) -> None:
    assert kept_in(tmp_path / "nothing") == {}
