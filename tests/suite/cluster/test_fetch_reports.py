"""Tests for fetching reports by the Jobs API, from a fake head that runs the command itself."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from bakeoff.suite.cluster.fetch_reports import fetch_journal, fetch_reports
from bakeoff.suite.cluster.jobs import Job
from bakeoff.suite.events import Unavailable
from tests.suite.fake_server import http_server

JOB = Job(
    submission_id="bakeoff-mine-quick-0123456789ab",
    status="SUCCEEDED",
    message="",
    names="mine.py",
    scale="quick",
    out="~/my out",
    start_seconds=1.0,
    exit_code=0,
)


@contextmanager
def head(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Yield the URL of a fake head, which runs each job at once in a shell."""
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    ran: list[subprocess.CompletedProcess[str]] = []

    def answer(request: BaseHTTPRequestHandler) -> None:
        if request.command == "POST":
            asked = json.loads(request.rfile.read(int(request.headers["Content-Length"])))
            ran.append(
                subprocess.run(
                    asked["entrypoint"],
                    shell=True,
                    check=False,
                    capture_output=True,
                    text=True,
                    env={"HOME": str(tmp_path), "PATH": os.environ["PATH"]},
                )
            )
        status = "FAILED" if ran[-1].returncode else "SUCCEEDED"
        answers = {"submission_id": "x", "status": status, "logs": f"It runs.\n{ran[-1].stdout}"}
        request.send_response(200)
        request.end_headers()
        request.wfile.write(json.dumps(answers).encode())

    with http_server(answer) as port:
        yield f"http://127.0.0.1:{port}"


@pytest.mark.whole
def test_the_reports_arrive_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, there = tmp_path / "fetched", tmp_path / "my out/reports/mine"
    with head(tmp_path, monkeypatch) as url:
        with pytest.raises(Unavailable, match="no reports of mine in ~/my out/reports there"):
            fetch_reports(url, JOB, home)
        assert not home.exists()
        there.mkdir(parents=True)
        for text in ("first", "second é"):  # the second fetch overwrites the first
            (there / "index.html").write_text(text)
            (there.parent / "index.html").write_text(f"overview of {text}")
            (page,) = fetch_reports(url, JOB, home)
            assert page.read_text() == text
            assert (page.parent.parent / "index.html").read_text() == f"overview of {text}"


def test_of_a_cancelled_sweep_the_journal_arrives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cancelled = replace(JOB, status="STOPPED", exit_code=None)
    assert JOB.has_reports
    assert replace(JOB, status="FAILED", exit_code=5).has_reports
    assert not cancelled.has_reports
    (tmp_path / "copy").mkdir()
    with head(tmp_path, monkeypatch) as url:
        with pytest.raises(
            Unavailable, match=r"nothing has been run in ~/my out there \(.*: stopped\)"
        ):
            fetch_journal(url, cancelled, tmp_path / "copy")
        (tmp_path / "my out").mkdir()
        with closing(sqlite3.connect(tmp_path / "my out/journal.db")) as kept:
            kept.execute("PRAGMA journal_mode=WAL")
            kept.execute("CREATE TABLE results (trial_id)")
            kept.execute("INSERT INTO results VALUES ('a')")
            kept.commit()  # the last write is still in the write-ahead log
            file = fetch_journal(url, cancelled, tmp_path / "copy")
    with closing(sqlite3.connect(file)) as found:
        assert found.execute("SELECT trial_id FROM results").fetchall() == [("a",)]
