"""Test that the checkers of `make chaos` count lost and duplicate results and alarms."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from bakeoff.suite.journal.journal import Journal
from bakeoff.suite.journal.sqlite_schema import journal_in
from bakeoff.suite.schema import Measurement, Result, Status
from tests.suite.finished_sweep import FinishedSweep
from tools.chaos.figures import Figures
from tools.chaos.recorded import (
    Watcher,
    acknowledged_in,
    findings_in,
    names_a_damaged_checkpoint,
    num_committed_twice,
    recorded,
    results_in,
    steps_resumed,
)

DELETE_FIRST = "DELETE FROM results WHERE trial_id = (SELECT MIN(trial_id) FROM results)"
NUM_TRIALS = 9


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """Return an output folder whose journal holds a finished sweep."""
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


def other(result: Result) -> Result:
    measured = Measurement(metric="found", value=0.5, unit="bit", better="lower")
    return replace(result, measurements=(measured,))


def test_nothing_is_reported_where_nothing_happened(out: Path) -> None:
    before, reference = acknowledged_in(out), findings_in(out)
    figures = recorded(
        out, NUM_TRIALS, before=before, reference=reference, output="it goes on from step 5"
    )
    assert figures == Figures(
        num_submitted=NUM_TRIALS,
        num_acknowledged=NUM_TRIALS,
        num_repeated=NUM_TRIALS,
        num_resumed=1,
        num_resumed_equal=1,
    )


def test_a_watcher_counts_once_what_is_gone_or_changed(out: Path) -> None:
    watcher = Watcher(out)
    watcher.look()
    assert (len(watcher.seen), watcher.num_changed) == (NUM_TRIALS, 0)
    assert watcher.seen == {
        (one.trial_id, one.provenance.environment_id): one.sha256 for one in results_in(out)
    }
    change(out, DELETE_FIRST)
    last = "(SELECT MAX(trial_id) FROM results)"
    change(out, f"UPDATE results SET sha256 = 'x' WHERE trial_id = {last}")
    watcher.look()
    watcher.look()
    assert watcher.num_changed == 2


def test_a_row_that_is_gone_or_too_many_counts_as_lost(out: Path) -> None:
    before = acknowledged_in(out)
    assert recorded(out, NUM_TRIALS - 1).num_lost == 1  # one too many
    change(out, DELETE_FIRST)
    assert recorded(out, NUM_TRIALS).num_lost == 1
    assert recorded(out, NUM_TRIALS - 1, before=before).num_lost == 1


def test_a_result_that_has_changed_is_lost_and_another_finding_is_an_alarm(out: Path) -> None:
    before, reference, result = acknowledged_in(out), findings_in(out), results_in(out)[0]
    change(out, f"DELETE FROM results WHERE trial_id = '{result.trial_id}'")
    with Journal(journal_in(out)) as journal:
        journal.commit(other(result), 2)
    assert recorded(out, NUM_TRIALS, before=before).num_lost == 1
    output = "it goes on from step 5"
    differing = recorded(out, NUM_TRIALS, reference=reference, output=output)
    assert differing.num_alarms == 2  # the finding differs from both the reference and the journal
    assert (differing.num_resumed, differing.num_resumed_equal) == (1, 0)


def test_a_failure_may_give_way(out: Path) -> None:
    result = results_in(out)[0]
    change(out, f"DELETE FROM results WHERE trial_id = '{result.trial_id}'")
    with Journal(journal_in(out)) as journal:
        journal.commit(replace(result, status=Status.CRASHED), 2)
    assert len(acknowledged_in(out)) == NUM_TRIALS - 1


def test_when_and_how_long_is_no_alarm(out: Path) -> None:
    result = results_in(out)[0]
    assert replace(result, seconds=99.0).finding_sha256 == result.finding_sha256


def test_a_second_commit_is_seen(out: Path) -> None:
    change(
        out,
        "CREATE TEMP TABLE again AS SELECT * FROM ends LIMIT 1; "
        "UPDATE again SET attempt = attempt + 1; INSERT INTO ends SELECT * FROM again",
    )
    assert num_committed_twice(out) == recorded(out, NUM_TRIALS).num_doubled == 1


def test_an_attempt_that_found_something_else_is_an_alarm(out: Path) -> None:
    result = results_in(out)[0]
    with Journal(journal_in(out)) as journal:
        attempt = journal.begin(result.trial_id, "there")
        assert recorded(out, NUM_TRIALS).num_alarms == 0
        assert not journal.commit(other(result), attempt)
        assert not journal.commit(other(result), 1)  # too late
    figures = recorded(out, NUM_TRIALS)
    assert (figures.num_alarms, figures.num_doubled) == (1, 0)


def test_there_may_be_no_journal_yet(tmp_path: Path) -> None:
    assert results_in(tmp_path / "nothing") == []
    assert acknowledged_in(tmp_path / "nothing") == {}


@pytest.mark.parametrize(
    "damaged",
    ["its checkpoint 4 is left aside: short", "checkpoint 4 fails its checksum and is skipped"],
)
def test_messages_about_checkpoints_are_read(damaged: str) -> None:
    output = f"a, seed 0: it goes on from step 1,200 of 3,000\n{damaged}"
    assert steps_resumed(output) == [1200]
    assert names_a_damaged_checkpoint(output)
    assert not names_a_damaged_checkpoint("it begins anew")
