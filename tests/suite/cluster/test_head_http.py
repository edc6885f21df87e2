"""What a dashboard answers, and what that means; the real one is tried in test_submit."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.metadata import version
from pathlib import Path

import pytest

from suite.cluster.head_http import Head, NotThere
from suite.events import Unavailable

OURS = json.dumps({"ray_version": version("ray")}).encode()


@pytest.fixture(autouse=True)
def _token(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("RAY_AUTH_TOKEN", "s3cret")
    monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
    for name in ("http_proxy", "HTTP_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")


@contextmanager
def serving(status: int, body: bytes, **headers: str) -> Iterator[tuple[Head, list[str | None]]]:
    """A server, and what proof each request brought along."""
    heard: list[str | None] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            heard.append(self.headers["Authorization"])
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield Head(f"http://127.0.0.1:{server.server_port}"), heard
        finally:
            server.shutdown()
            thread.join()


def test_a_dashboard_of_our_version_gets_the_token_past_any_proxy() -> None:
    with serving(200, OURS) as (head, heard):
        head.check_version()
    assert heard == ["Bearer s3cret"]


@pytest.mark.parametrize(
    ("status", "body", "why"),
    [
        (200, b'{"ray_version": "2.9.0"}', r"runs Ray 2\.9\.0, and this is Ray"),
        (200, b"<html>s3cret</html>", "no dashboard of a Ray cluster"),
        (200, b"[]", "no dashboard of a Ray cluster"),
        (404, b"", "no dashboard of a Ray cluster"),
        (500, b"s3cret", "no dashboard of a Ray cluster.*status 500"),
        (401, b"s3cret", "does not know our token"),
        (403, b"s3cret", "does not know our token"),
    ],
)
def test_everything_else_is_one_sentence(status: int, body: bytes, why: str) -> None:
    with serving(status, body) as (head, _), pytest.raises(Unavailable, match=why) as caught:
        head.check_version()
    assert "s3cret" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_without_a_token_the_answer_is_that_one_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    with serving(401, b"") as (head, heard), pytest.raises(Unavailable, match="asks for a token"):
        head.check_version()
    assert heard == [None]


def test_the_token_follows_nobody_elsewhere() -> None:
    with (
        serving(200, OURS) as (elsewhere, heard),
        serving(302, b"", Location=elsewhere.url) as (head, _),
        pytest.raises(Unavailable, match="status 302"),
    ):
        head.check_version()
    assert heard == []


def test_what_is_not_there_is_told_apart() -> None:
    with serving(404, b"") as (head, _), pytest.raises(NotThere):
        head.get("/api/jobs/none")


def test_a_server_that_says_nothing_is_waited_for_a_moment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("suite.cluster.head_http._SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as server:
        head = Head(f"http://127.0.0.1:{server.getsockname()[1]}")
        with pytest.raises(Unavailable, match=r"no answer within 0\.2 seconds"):
            head.check_version()


def test_nobody_at_home_is_told() -> None:
    with pytest.raises(Unavailable, match="nothing answers there"):
        Head("http://127.0.0.1:1").check_version()


def test_a_server_that_drips_is_not_waited_for_to_its_end() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

        def drip() -> None:
            connection, _ = server.accept()
            with connection, suppress(OSError):
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
                for _ in range(100):
                    connection.sendall(b" ")
                    time.sleep(0.1)

        thread = threading.Thread(target=drip)
        thread.start()
        start = time.monotonic()
        with pytest.raises(Unavailable, match=r"no answer within 0\.5 seconds"):
            Head(f"http://127.0.0.1:{port}").get("/api/version", seconds=0.5)
        assert time.monotonic() - start < 5
        thread.join()
