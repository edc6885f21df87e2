"""Test `bakeoff fetch` of a cancelled sweep: it renders the reports from the finished trials."""

from __future__ import annotations

from pathlib import Path

import pytest

from bakeoff.suite.cluster.jobs import Job
from bakeoff.suite.commands import fetch as fetch_command
from bakeoff.suite.errors import DONE
from bakeoff.suite.events import Unavailable
from bakeoff.suite.journal.journal import Journal
from tests.suite.finished_sweep import FinishedSweep

JOB = Job(
    submission_id="bakeoff-own-quick-0123456789ab",
    status="STOPPED",
    message="",
    names="own.py",
    scale="quick",
    out="~/out",
    start_seconds=1.0,
    exit_code=None,
)


def test_what_a_cancelled_sweep_has_done_becomes_a_report_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    finished, there = FinishedSweep("own"), tmp_path / "journal.db"
    monkeypatch.setattr(fetch_command, "fetch_journal", lambda url, job, folder: there)
    monkeypatch.setattr(fetch_command, "check_url", lambda url: url)
    monkeypatch.setattr(fetch_command, "list_jobs", lambda url: [JOB])
    with Journal(there) as journal:
        journal.keep_plan(finished.plan)
    url, home = "http://127.0.0.1:8265", tmp_path / "fetched"
    with pytest.raises(Unavailable, match="no trial has finished yet"):
        fetch_command.fetch([], url, home)
    with Journal(there) as journal:
        for result in finished.results[:6]:
            journal.commit(result, journal.begin(result.trial_id, "there"))
    assert fetch_command.fetch(["own"], url, home) == DONE
    page = home / "reports" / "own" / "index.html"
    said = capsys.readouterr().out
    assert f"{JOB.submission_id} (stopped): 6 trials done so far in ~/out" in said
    assert f"report:    {page}" in said
    assert page.is_file()
    assert (home / "reports" / "index.html").is_file()  # target of the "All ablations" link
