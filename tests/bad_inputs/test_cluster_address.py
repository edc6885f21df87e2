"""Test cluster addresses that are invalid, unsafe or without an answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bad_inputs.command import Called, Place, expect_refused

TOKEN = "CANARY-0123456789-CANARY-0123456789"

BAD = {
    "line-30 garbage": ("garbage", 2, ["--address 'garbage'", "HOST:PORT"]),
    "line-30 port 99999": ("127.0.0.1:99999", 2, ["HOST:PORT"]),
    "line-30 a file": ("file:///etc", 2, ["HOST:PORT"]),
    "a protocol of Ray's": ("ray://127.0.0.1:10001", 2, ["HOST:PORT"]),
    "nothing": ("", 2, ["--address ''", "HOST:PORT"]),
    "port 0": ("127.0.0.1:0", 2, ["HOST:PORT"]),
    "digits of another script": ("127.0.0.1:٣٣", 2, ["HOST:PORT"]),
    "a line break": ("127.0.0.1:1\n", 2, [r"127.0.0.1:1\n", "HOST:PORT"]),
    "an escape sequence": ("\x1b[2J:1", 2, [r"\x1b[2J:1"]),
    "a password": ("me:s3cret@127.0.0.1:1", 2, ["***@127.0.0.1:1"]),
    "100,000 characters": ("a" * 100_000, 2, ["HOST:PORT"]),
    "line-31 nobody": ("127.0.0.1:1", 4, ["127.0.0.1:1", "nothing answers"]),
    "line-32 far away": ("10.1.2.3:6379", 3, ["10.1.2.3:6379", "no token"]),
    "line-32 every address": ("0.0.0.0:6379", 3, ["0.0.0.0:6379", "no token"]),
    "line-32 far away by name": ("ray.example.com:6379", 3, ["ray.example.com", "no token"]),
}


@pytest.mark.parametrize("case", BAD)
def test_a_run_does_not_join(case: str, place: Place, called: Called) -> None:
    address, code, fragments = BAD[case]
    ended = called("run", "heads", "--address", address)
    expect_refused(ended, code, fragments, place)


OF_DASHBOARDS = {
    "line-30 a protocol of Ray's": ("ray://127.0.0.1:10001", 2, ["http://HOST:PORT"]),
    "a password": ("http://me:s3cret@127.0.0.1:8265", 2, ["'http://***@127.0.0.1:8265'"]),
    "line-31 nobody": ("127.0.0.1:1", 4, ["127.0.0.1:1", "nothing answers"]),
    "line-32 far away": ("http://10.1.2.3:8265", 3, ["10.1.2.3:8265", "token"]),
    "line-32 a proxy far away": ("https://ray.example.com", 3, ["ray.example.com:443", "token"]),
}


@pytest.mark.parametrize("case", OF_DASHBOARDS)
@pytest.mark.parametrize("command", [["submit", "heads"], ["status"], ["cancel"]])
def test_nothing_is_sent_to_a_dashboard(
    case: str, command: list[str], place: Place, called: Called
) -> None:
    address, code, fragments = OF_DASHBOARDS[case]
    ended = called(*command, "--address", address)
    expect_refused(ended, code, fragments, place)


@pytest.mark.bad_input(35)
@pytest.mark.parametrize("is_there", [True, False])
def test_tokens_switched_off_are_no_tokens(
    is_there: bool, place: Place, called: Called, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    if is_there:
        monkeypatch.setenv("RAY_AUTH_TOKEN", TOKEN)
    ended = called("run", "heads", "--address", "10.1.2.3:6379")
    expect_refused(ended, 3, ["10.1.2.3:6379", "RAY_AUTH_MODE=token"])
    assert TOKEN not in ended.output


@pytest.mark.bad_input(33)
@pytest.mark.parametrize("token", [f"{TOKEN}\nX-More: header", f"{TOKEN}\u202e", f"{TOKEN}\0"])
def test_a_token_that_could_not_be_sent_is_not_shown(
    token: str, tmp_path: Path, place: Place, called: Called, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "token").write_text(token)
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(tmp_path / "token"))
    ended = called("run", "heads", "--address", "10.1.2.3:6379")
    expect_refused(ended, 4, ["token"])
    assert TOKEN not in ended.output


def test_an_address_is_not_for_this_process(place: Place, called: Called) -> None:
    ended = called("run", "heads", "--address", "127.0.0.1:6379", "--executor", "inline")
    expect_refused(ended, 2, ["--executor"])
