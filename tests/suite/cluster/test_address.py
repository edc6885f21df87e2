"""Which addresses may be joined: refused before anything runs, without importing ray."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from suite.cluster.address import BadAddress, RefusedAddress, check_address
from suite.executor import Unavailable


@pytest.fixture(autouse=True)
def _no_token(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    "address",
    [
        "garbage", "", "127.0.0.1", "127.0.0.1:", "127.0.0.1:0", "127.0.0.1:99999",
        "127.0.0.1:6379x", "127.0.0.1:٣", "127.0.0.1:6379\n", "file:///etc/passwd",
        "ray://127.0.0.1:10001", "http://127.0.0.1:8265", "127.0.0.1:6379;touch x",
        "user:pw@127.0.0.1:1", "[::1]", "[zz]:1", "auto", " 127.0.0.1:6379",
    ],
)  # fmt: skip
def test_what_is_no_address_is_bad(address: str) -> None:
    with pytest.raises(BadAddress, match="give HOST:PORT") as caught:
        check_address(address)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("address", ["127.0.0.1:1", "localhost:1", "[::1]:1", "127.9.9.9:1"])
def test_nobody_at_home_is_told_at_once(address: str) -> None:
    start = time.monotonic()
    with pytest.raises(Unavailable, match="nothing answers there"):
        check_address(address)
    assert time.monotonic() - start < 5


@contextmanager
def _answering(answer: bytes) -> Iterator[str]:
    """A server that says this to whoever connects, once it was spoken to."""

    def serve() -> None:
        connection, _ = server.accept()
        with connection:
            heard.append(connection.recv(100))
            connection.sendall(answer)

    heard: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        serving = threading.Thread(target=serve)
        serving.start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        serving.join(5)
    assert heard[0].startswith(b"PRI * HTTP/2.0")


def test_a_server_that_speaks_as_a_head_does_is_accepted() -> None:
    with _answering(bytes([0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 5, 0, 0, 64, 0])) as address:
        check_address(address)


@pytest.mark.parametrize("answer", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"", b"\0" * 9])
def test_a_server_of_another_kind_is_told_apart(answer: bytes) -> None:
    with _answering(answer) as address, pytest.raises(Unavailable, match="no head of a Ray"):
        check_address(address)


def test_a_server_that_says_nothing_is_waited_for_a_moment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("suite.cluster.address._SECONDS_TO_CONNECT", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(Unavailable, match="no head of a Ray"):
            check_address(address)


FAR = ["10.0.0.1:6379", "example.com:6379", "0.0.0.0:6379", "[fe80::1]:6379", "127.0.0.1.a.b:1"]


@pytest.mark.parametrize("address", FAR)
def test_far_away_without_a_token_is_refused_without_connecting(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "create_connection", pytest.fail)
    with pytest.raises(RefusedAddress, match="no token"):
        check_address(address)


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """What was connected to, had there been a network."""
    tried: list[object] = []

    def fail(place: object, timeout: float) -> None:
        tried.append(place)
        raise OSError("no network in a test")

    monkeypatch.setattr(socket, "create_connection", fail)
    return tried


@pytest.mark.parametrize("how", ["variable", "path", "home"])
def test_far_away_with_a_token_is_tried_and_the_token_not_shown(
    how: str, tried: list[object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".ray").mkdir()
    file = tmp_path / ".ray" / ("auth_token" if how == "home" else "elsewhere")
    file.write_text("s3cret")
    if how == "variable":
        monkeypatch.setenv("RAY_AUTH_TOKEN", "s3cret")
    if how == "path":
        monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(file))
    with pytest.raises(Unavailable) as caught:
        check_address("10.0.0.1:6379")
    assert tried == [("10.0.0.1", 6379)]
    assert "s3cret" not in str(caught.value)


def test_a_token_that_is_switched_off_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_AUTH_TOKEN", "s3cret")
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    with pytest.raises(RefusedAddress):
        check_address("10.0.0.1:6379")


def test_a_token_file_that_is_not_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", "/no/such/file")
    with pytest.raises(RefusedAddress):
        check_address("10.0.0.1:6379")


def test_a_name_that_no_host_can_have_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_AUTH_TOKEN", "s3cret")
    with pytest.raises(Unavailable, match="nothing answers"):
        check_address("a..b:6379")
