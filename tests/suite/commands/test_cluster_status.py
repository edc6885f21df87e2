"""Tests for `bakeoff status --address`, which shows a cluster's jobs from their logs."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from bakeoff.suite.cluster.jobs import Job
from bakeoff.suite.commands import cluster_status
from bakeoff.suite.commands.cluster_status import (
    as_objects,
    lines_of,
    show_cluster_status,
    submissions_on,
)
from bakeoff.suite.journal.status_message import SweepStatus, line_of

JOB = Job(
    submission_id="bakeoff-heads-quick-0123456789ab",
    status="RUNNING",
    message="It runs.",
    names="heads",
    scale="quick",
    out="~/out",
    start_seconds=100.0,
    exit_code=None,
)
STANDING = SweepStatus(
    counts={"missing": 2, "ok": 3, "running": 1, "error": 1},
    running={"a": "node 1"},
    waiting={"num_trials": 2, "reason": "no node is free"},
    failed={"b": "error: [bold]x"},
    labels={"a": "heads=4, seed 0"},
    eta_seconds=90.0,
)
LOG = f"9 trials to run\n{line_of(STANDING)}\nbakeoff: it ends here\n"


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> dict[str, tuple[Job, str]]:
    """Return the jobs and logs of a fake cluster, by submission id; a test may add to them."""
    has: dict[str, tuple[Job, str]] = {}
    monkeypatch.setattr(cluster_status, "check_url", lambda address: address)
    monkeypatch.setattr(cluster_status, "list_jobs", lambda url: [job for job, _ in has.values()])
    monkeypatch.setattr(cluster_status, "job_log", lambda url, key: has[key][1])
    return has


def put(cluster: dict[str, tuple[Job, str]], log: str = LOG, **changes: object) -> None:
    job = replace(JOB, **changes)  # type: ignore[arg-type]
    cluster[job.submission_id] = (job, log)


def test_a_program_reads_the_live_one_at_the_top(cluster, capsys) -> None:  # type: ignore[no-untyped-def]
    put(cluster, submission_id="bakeoff-x-2", status="FAILED", exit_code=5)
    put(cluster)
    show_cluster_status("http://h:1", as_json=True)
    found = json.loads(capsys.readouterr().out)
    assert found["submission"] == JOB.submission_id
    assert found["job_status"] == "RUNNING"
    assert found["counts"] == STANDING.counts
    assert found["running"] == {"a": "node 1"}
    assert found["waiting"]["reason"] == "no node is free"
    assert found["failed"] == {"b": "error: [bold]x"}
    assert found["eta_seconds"] == 90.0
    assert [each["submission"] for each in found["submissions"]] == [
        JOB.submission_id,
        "bakeoff-x-2",
    ]


def test_an_empty_cluster_has_the_same_keys(cluster, capsys) -> None:  # type: ignore[no-untyped-def]
    put(cluster)
    full = as_objects(submissions_on("http://h:1"))
    cluster.clear()
    empty = as_objects(submissions_on("http://h:1"))
    assert {"counts", "running", "waiting", "failed", "eta_seconds", "submissions"} <= empty.keys()
    assert empty.keys() <= full.keys()
    assert (empty["submission"], empty["submissions"]) == (None, [])
    show_cluster_status("http://h:1", as_json=False)
    assert "no sweep has been submitted to http://h:1 yet" in capsys.readouterr().out


def test_nothing_runs_any_more_once_the_driver_was_killed(cluster) -> None:  # type: ignore[no-untyped-def]
    put(cluster, status="STOPPED")
    (seen,) = submissions_on("http://h:1")
    assert seen.status.counts == {"missing": 3, "ok": 3, "error": 1}
    assert (seen.status.running, seen.status.waiting) == ({}, None)


def test_a_person_reads_names_places_and_reasons_as_they_are(cluster, capsys) -> None:  # type: ignore[no-untyped-def]
    put(cluster)
    show_cluster_status("http://h:1", as_json=False)
    assert capsys.readouterr().out.splitlines() == [
        f"bakeoff-heads-quick-0123456789ab: running (heads, {JOB.submitted}, results in ~/out)",
        "  2 missing, 3 ok, 1 running, 1 error",
        "  running heads=4, seed 0 on node 1",
        "  2 of the missing wait for a place: no node is free",
        "  failed 1: error: [bold]x (b; trial b)",
        "  1 min 30 s left",
    ]


def test_it_is_followed_until_all_have_ended(cluster, capsys, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    put(cluster)
    monkeypatch.setattr(
        "bakeoff.suite.commands.status.time.sleep",
        lambda _: put(cluster, status="SUCCEEDED", exit_code=0),
    )
    assert cluster_status.follow_cluster_status("http://h:1") == 0
    said = capsys.readouterr().out
    assert said.index(": running (") < said.index(": succeeded, exit code 0 (")
    assert JOB.submitted.startswith("submitted 1970-01-01 ")


def test_the_editions_of_a_file_are_told_apart_by_number(cluster, capsys) -> None:  # type: ignore[no-untyped-def]
    for number, status in ((2, "RUNNING"), (1, "SUCCEEDED")):
        log = line_of(replace(STANDING, editions={"heads": number}))
        put(cluster, log, submission_id=f"bakeoff-heads-quick-{number:012}", status=status)
    show_cluster_status("http://h:1", as_json=False)
    found = [line for line in capsys.readouterr().out.splitlines() if line.startswith("bakeoff")]
    assert [line.partition("(")[2].partition(", submitted")[0] for line in found] == [
        "heads edition 2",
        "heads edition 1",
    ]


def test_a_driver_that_could_not_begin_is_quoted(cluster) -> None:  # type: ignore[no-untyped-def]
    put(cluster, log="Running entrypoint\nbakeoff: no such thing\n", status="FAILED", exit_code=2)
    (seen,) = submissions_on("http://h:1")
    assert lines_of(seen) == [
        f"{JOB.submission_id}: failed, exit code 2 (heads, {JOB.submitted}, results in ~/out)",
        "  bakeoff: no such thing",
    ]


def test_a_pending_one_says_why(cluster) -> None:  # type: ignore[no-untyped-def]
    put(cluster, status="PENDING", message="Job has not started yet.")
    (seen,) = submissions_on("http://h:1")
    assert lines_of(seen)[1] == "  Job has not started yet."


def test_a_person_sees_the_newest_attempt_at_a_sweep_and_a_program_all(cluster, capsys) -> None:  # type: ignore[no-untyped-def]
    put(cluster, submission_id=f"{JOB.submission_id}-2", status="SUCCEEDED", exit_code=0)
    put(cluster, status="STOPPED")
    show_cluster_status("http://h:1", as_json=False)
    said = capsys.readouterr().out
    assert f"{JOB.submission_id}-2: succeeded" in said
    assert "stopped" not in said
    show_cluster_status("http://h:1", as_json=True)
    assert len(json.loads(capsys.readouterr().out)["submissions"]) == 2
