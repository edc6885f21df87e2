"""Tests for the answers of a head and its dashboard; test_join and test_jobs use real ones."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler
from importlib.metadata import version
from pathlib import Path
from typing import Any

import grpc
import pytest

from bakeoff.suite.cluster.head_client import HeadClient, NotThere, check_head
from bakeoff.suite.events import Unavailable
from tests.suite.fake_server import http_server

OUR_VERSION = json.dumps({"ray_version": version("ray")}).encode()
CHECK_ALIVE = "/ray.rpc.NodeInfoGcsService/CheckAlive"
Answer = Callable[[bytes, Any], bytes]


@pytest.fixture(autouse=True)
def _token(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("RAY_AUTH_TOKEN", "s3cret")
    monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
    for name in ("http_proxy", "HTTP_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")


@pytest.fixture
def no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")


@contextmanager
def dashboard(
    status: int, body: bytes, **headers: str
) -> Iterator[tuple[HeadClient, list[str | None]]]:
    """Yield a client of a fake dashboard, and the Authorization header of each request."""
    heard: list[str | None] = []

    def answer(request: BaseHTTPRequestHandler) -> None:
        heard.append(request.headers["Authorization"])
        request.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            request.send_header(name, value)
        request.end_headers()
        request.wfile.write(body)

    with http_server(answer) as port:
        yield HeadClient(f"http://127.0.0.1:{port}"), heard


def test_a_dashboard_of_our_version_gets_the_token_past_any_proxy() -> None:
    with dashboard(200, OUR_VERSION) as (client, heard):
        client.check_version()
    assert heard == ["Bearer s3cret"]


@pytest.mark.parametrize(
    ("status", "body", "why"),
    [
        (200, b'{"ray_version": "2.9.0"}', r"runs Ray 2\.9\.0, and this machine runs Ray"),
        (200, b"<html>s3cret</html>", "not the dashboard of a Ray cluster"),
        (200, b"[]", "not the dashboard of a Ray cluster"),
        (404, b"", "not the dashboard of a Ray cluster"),
        (500, b"s3cret", "not the dashboard of a Ray cluster.*status 500"),
        (401, b"s3cret", "does not accept the token"),
        (403, b"s3cret", "does not accept the token"),
    ],
)
def test_everything_else_is_one_sentence(status: int, body: bytes, why: str) -> None:
    with dashboard(status, body) as (client, _), pytest.raises(Unavailable, match=why) as caught:
        client.check_version()
    assert "s3cret" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_without_a_token_the_answer_is_that_one_is_asked_for(no_token: None) -> None:
    with (
        dashboard(401, b"") as (client, heard),
        pytest.raises(Unavailable, match=r"requires a token; copy .* to .*/\.ray/auth_token"),
    ):
        client.check_version()
    assert heard == [None]


def test_the_token_follows_no_redirect() -> None:
    with (
        dashboard(200, OUR_VERSION) as (elsewhere, heard),
        dashboard(302, b"", Location=elsewhere.url) as (client, _),
        pytest.raises(Unavailable, match="status 302"),
    ):
        client.check_version()
    assert heard == []


def test_what_is_not_there_is_an_error_of_its_own() -> None:
    with dashboard(404, b"") as (client, _), pytest.raises(NotThere):
        client.ask("/api/jobs/none")
    with pytest.raises(Unavailable, match="nothing answers there"):
        HeadClient("http://127.0.0.1:1").check_version()


@pytest.mark.parametrize(
    ("check", "why"),
    [
        (lambda address: HeadClient(f"http://{address}").check_version(), r"within 0\.2 seconds"),
        (check_head, "not the head of a Ray"),
    ],
)
def test_a_silent_server_is_waited_for_a_moment(
    check: Callable[[str], None], why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bakeoff.suite.cluster.head_client._SECONDS", 0.2)
    start = time.monotonic()
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        pytest.raises(Unavailable, match=why),
    ):
        check(f"127.0.0.1:{server.getsockname()[1]}")
    assert time.monotonic() - start < 5


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
            HeadClient(f"http://127.0.0.1:{port}").ask("/api/version", seconds=0.5)
        assert time.monotonic() - start < 5
        thread.join()


class Service(grpc.GenericRpcHandler):
    def __init__(self, method: str, answer: Answer) -> None:
        self.method, self.answer = method, answer

    def service(self, call: Any) -> Any:
        if call.method != self.method:
            return None
        return grpc.unary_unary_rpc_method_handler(
            self.answer, request_deserializer=bytes, response_serializer=bytes
        )


@contextmanager
def head(answer: Answer, method: str = CHECK_ALIVE) -> Iterator[str]:
    server = grpc.server(ThreadPoolExecutor(1), handlers=[Service(method, answer)])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(None).wait()


def of_version(text: str) -> bytes:
    """Return Ray's wire format: an empty status, the version, and that the raylet is alive."""
    return b"\n\x00\x12" + bytes([len(text)]) + text.encode() + b" \x01"


@pytest.mark.parametrize("has_token", [True, False])
def test_a_head_of_our_version_is_accepted_and_gets_the_token(
    has_token: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard = []

    def answer(request: bytes, context: Any) -> bytes:
        heard.append(dict(context.invocation_metadata()).get("authorization"))
        return of_version(version("ray"))

    if not has_token:
        monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    with head(answer) as address:
        check_head(address)
    assert heard == ["Bearer s3cret" if has_token else None]


@pytest.mark.bad_input(34)
@pytest.mark.parametrize("theirs", ["2.9.0", "3.0.0.dev0"])
def test_another_version_is_refused(theirs: str) -> None:
    with head(lambda *_: of_version(theirs)) as address, pytest.raises(Unavailable) as caught:
        check_head(address)
    assert f"runs Ray {theirs}, and this machine runs Ray {version('ray')}" in str(caught.value)


@pytest.mark.bad_input(33)
@pytest.mark.parametrize(("mode", "why"), [("token", "not accept the"), ("disabled", "requires a")])
def test_a_refusal_is_reported_without_the_token(
    mode: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(request: bytes, context: Any) -> bytes:
        context.abort(grpc.StatusCode.UNAUTHENTICATED, "no: s3cret")
        return b""

    monkeypatch.setenv("RAY_AUTH_MODE", mode)
    with head(answer) as address, pytest.raises(Unavailable, match=why) as caught:
        check_head(address)
    assert "s3cret" not in str(caught.value)


def test_another_service_is_no_head() -> None:
    with head(lambda *_: b"", method="/a/b") as address, pytest.raises(Unavailable) as caught:
        check_head(address)
    assert "not the head of a Ray cluster" in str(caught.value)
