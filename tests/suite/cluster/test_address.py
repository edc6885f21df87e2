"""Tests for the check of cluster addresses, which runs first and without importing Ray."""

import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from bakeoff.suite.cluster.address import (
    BadAddress,
    RefusedAddress,
    check_address,
    check_url,
    url_of,
)
from bakeoff.suite.events import Unavailable


@pytest.fixture(autouse=True)
def _no_token(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)


BAD_HEADS = [
    "garbage",
    "",
    "127.0.0.1",
    "127.0.0.1:",
    "127.0.0.1:0",
    "127.0.0.1:99999",
    "127.0.0.1:6379x",
    "127.0.0.1:٣",
    "127.0.0.1:6379\n",
    "file:///etc/passwd",
    "ray://127.0.0.1:10001",
    "http://127.0.0.1:8265",
    "127.0.0.1:6379;touch x",
    "user:pw@127.0.0.1:1",
    "[::1]",
    "[zz]:1",
    "Auto",
    " 127.0.0.1:6379",
]
BAD_DASHBOARDS = [
    "",
    " ",
    "ray://127.0.0.1:10001",
    "http://",
    "http://user:pw@127.0.0.1:8265",
    "auto/x",
    "auto",
    "http://127.0.0.1:8265/path",
    "http://127.0.0.1:99999",
    "http://127.0.0.1:0",
    "ftp://h:1",
    "http://127.0.0.1 :8265",
    "http://h?x=1",
    "http://127.0.0.1:8265\n",
    "[zz]:1",
    "a b",
]


@pytest.mark.parametrize(
    ("check", "address", "why"),
    [(check_address, address, "give HOST:PORT") for address in BAD_HEADS]
    + [(check_url, address, "give http://HOST:PORT") for address in BAD_DASHBOARDS],
)
def test_a_malformed_address_is_refused(
    check: Callable[[str], object], address: str, why: str
) -> None:
    with pytest.raises(BadAddress, match=why) as caught:
        check(address)
    assert "\n" not in str(caught.value)
    assert "pw" not in str(caught.value)


@pytest.mark.parametrize(
    ("address", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:8265"),
        ("localhost:1", "http://localhost:1"),
        ("http://[::1]/", "http://[::1]:8265"),
        ("https://127.0.0.1", "https://127.0.0.1:443"),
    ],
)
def test_a_port_is_filled_in(address: str, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "bakeoff.suite.cluster.head_client.HeadClient.check_version", lambda self: None
    )
    assert check_url(address) == url


@pytest.mark.parametrize("address", ["127.0.0.1:1", "localhost:1", "[::1]:1", "127.9.9.9:1"])
def test_nobody_at_home_is_told_at_once(address: str) -> None:
    start = time.monotonic()
    with pytest.raises(Unavailable, match="nothing answers there"):
        check_address(address)
    assert time.monotonic() - start < 5


def test_the_cluster_of_this_process_needs_no_check(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "create_connection", pytest.fail)
    check_address("auto")


FAR = ["10.0.0.1:6379", "example.com:6379", "0.0.0.0:6379", "[fe80::1]:6379", "127.0.0.1.a.b:1"]
FAR_DASHBOARDS = ["http://10.0.0.1:8265", "example.com", "https://127.0.0.1.a"]


@pytest.mark.parametrize(
    ("check", "address"),
    [(check_address, address) for address in FAR]
    + [(check_url, address) for address in FAR_DASHBOARDS],
)
def test_far_away_without_a_token_is_refused_without_connecting(
    check: Callable[[str], object], address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "create_connection", pytest.fail)
    monkeypatch.setattr("bakeoff.suite.cluster.head_client.HeadClient.check_version", pytest.fail)
    with pytest.raises(RefusedAddress, match="no token"):
        check(address)


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Return a list of attempted connections; each one raises OSError."""
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


@pytest.mark.parametrize(
    "environment",
    [
        {"RAY_AUTH_TOKEN": "s3cret", "RAY_AUTH_MODE": "disabled"},
        {"RAY_AUTH_TOKEN_PATH": "/no/such/file"},
    ],
    ids=["switched off", "missing file"],
)
def test_there_is_no_token(environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(RefusedAddress):
        check_address("10.0.0.1:6379")


def test_a_name_that_no_host_can_have_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_AUTH_TOKEN", "s3cret")
    with pytest.raises(Unavailable, match="nothing answers"):
        check_address("a..b:6379")


def test_what_may_be_a_secret_is_not_shown() -> None:
    for address in ("http://me:s3cret@h:1", "http://h:1?token=s3cret", "http://h:1/#s3cret"):
        with pytest.raises(BadAddress) as refused:
            url_of(address)
        assert "s3cret" not in str(refused.value)
