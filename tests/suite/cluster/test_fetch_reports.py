"""Reports come home through the Jobs API; a stand-in for the head runs the command itself."""

from __future__ import annotations

import json
import subprocess
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from suite.cluster.fetch_reports import fetch_reports
from suite.cluster.jobs import Job
from suite.events import Unavailable
from tests.suite.fake_server import http_server

JOB = Job(
    submission_id="bakeoff-mine-quick-0123456789ab", status="SUCCEEDED", message="",
    names="mine.py", scale="quick", out="~/my out", start_seconds=1.0, exit_code=0,
)  # fmt: skip


def test_the_reports_arrive_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    ran: list[subprocess.CompletedProcess[str]] = []

    def answer(request: BaseHTTPRequestHandler) -> None:
        if request.command == "POST":
            asked = json.loads(request.rfile.read(int(request.headers["Content-Length"])))
            ran.append(subprocess.run(
                asked["entrypoint"], shell=True, env={"HOME": str(tmp_path)}, check=False,
                capture_output=True, text=True,
            ))  # fmt: skip
        status = "FAILED" if ran[-1].returncode else "SUCCEEDED"
        answers = {"submission_id": "x", "status": status, "logs": f"It runs.\n{ran[-1].stdout}"}
        request.send_response(200)
        request.end_headers()
        request.wfile.write(json.dumps(answers).encode())

    home, there = tmp_path / "fetched", tmp_path / "my out/reports/mine"
    with http_server(answer) as port:
        url = f"http://127.0.0.1:{port}"
        with pytest.raises(Unavailable, match="no reports of mine in ~/my out/reports there"):
            fetch_reports(url, JOB, home)
        assert not home.exists()
        there.mkdir(parents=True)
        for text in ("first", "second é"):  # over the first
            (there / "index.html").write_text(text)
            (page,) = fetch_reports(url, JOB, home)
            assert page.read_text() == text
