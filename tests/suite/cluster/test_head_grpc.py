"""What the port of a head answers, and what that means; the real one is tried in test_join."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib.metadata import version
from typing import Any

import grpc
import pytest

from suite.cluster.head_grpc import check_head
from suite.events import Unavailable

CHECK_ALIVE = "/ray.rpc.NodeInfoGcsService/CheckAlive"
Answer = Callable[[bytes, Any], bytes]


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
def serving(answer: Answer, method: str = CHECK_ALIVE) -> Iterator[str]:
    server = grpc.server(ThreadPoolExecutor(1), handlers=[Service(method, answer)])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(None).wait()


def of_version(text: str) -> bytes:
    """As the wire has it: an empty status, the version, that the raylet is alive."""
    return b"\n\x00\x12" + bytes([len(text)]) + text.encode() + b" \x01"


def test_a_head_of_our_version_is_accepted_and_gets_the_token() -> None:
    heard = []

    def answer(request: bytes, context: Any) -> bytes:
        heard.append(dict(context.invocation_metadata())["authorization"])
        return of_version(version("ray"))

    with serving(answer) as address:
        check_head(address, "s3cret")
    assert heard == ["Bearer s3cret"]


def test_without_a_token_none_is_sent() -> None:
    def answer(request: bytes, context: Any) -> bytes:
        assert "authorization" not in dict(context.invocation_metadata())
        return of_version(version("ray"))

    with serving(answer) as address:
        check_head(address, "")


@pytest.mark.bad_input(34)
@pytest.mark.parametrize("theirs", ["2.9.0", "3.0.0.dev0"])
def test_another_version_is_told(theirs: str) -> None:
    with serving(lambda *_: of_version(theirs)) as address, pytest.raises(Unavailable) as caught:
        check_head(address, "")
    assert f"runs Ray {theirs}, and this is Ray {version('ray')}" in str(caught.value)


@pytest.mark.bad_input(33)
@pytest.mark.parametrize(("token", "why"), [("s3cret", "does not know our"), ("", "asks for a")])
def test_a_refusal_is_told_without_the_token(token: str, why: str) -> None:
    def answer(request: bytes, context: Any) -> bytes:
        context.abort(grpc.StatusCode.UNAUTHENTICATED, f"no: {token}")
        return b""

    with serving(answer) as address, pytest.raises(Unavailable, match=why) as caught:
        check_head(address, token)
    assert "s3cret" not in str(caught.value)


def test_another_service_is_no_head() -> None:
    with serving(lambda *_: b"", method="/a/b") as address, pytest.raises(Unavailable) as caught:
        check_head(address, "")
    assert "no head of a Ray cluster" in str(caught.value)


def test_a_server_that_says_nothing_is_waited_for_a_moment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("suite.cluster.head_grpc._SECONDS", 0.3)
    start = time.monotonic()
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(Unavailable, match="no head of a Ray"):
            check_head(address, "")
    assert time.monotonic() - start < 5
