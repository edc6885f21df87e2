"""May this address be joined as a Ray cluster? Checked before anything runs; imports no ray."""

from __future__ import annotations

import ipaddress
import os
import re
import socket
from pathlib import Path

from suite.execution import Unavailable

_SECONDS_TO_CONNECT = 5.0
_HOST_AND_PORT = re.compile(r"(?P<host>[A-Za-z0-9.-]+|\[[0-9a-fA-F:]+\]):(?P<port>[0-9]{1,5})")


class BadAddress(ValueError):
    """The address cannot be meant: exit 2."""


class RefusedAddress(ValueError):
    """The address is refused for safety: exit 3."""


def check_address(address: str) -> None:
    """Refuse what is no HOST:PORT, what is far away and unprotected, what does not answer.

    Raises:
        BadAddress: if it is no address of a Ray head.
        RefusedAddress: if it is not this machine, and there is no token to prove who asks.
        Unavailable: if nothing answers there.
    """
    host, port = _split(address)
    if not _is_loopback(host) and not has_token():
        raise RefusedAddress(
            f"--address {address}: not this machine, and there is no token. A cluster runs "
            "whatever it is sent; set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN_PATH."
        )
    try:
        socket.create_connection((host, port), timeout=_SECONDS_TO_CONNECT).close()
    except (OSError, UnicodeError) as error:  # UnicodeError: "a..b" is no host name
        raise Unavailable(f"--address {address}: nothing answers there ({error}).") from error


def _split(address: str) -> tuple[str, int]:
    found = _HOST_AND_PORT.fullmatch(address)
    if not found or not 0 < int(found["port"]) < 65_536:
        raise BadAddress(
            f"--address {address!r} is no address of a Ray head; give HOST:PORT, as 127.0.0.1:6379."
        )
    return found["host"].strip("[]"), int(found["port"])


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def has_token() -> bool:
    """Whether Ray finds a token that proves who asks, and is to use it."""
    if os.environ.get("RAY_AUTH_MODE") == "disabled":
        return False
    named = os.environ.get("RAY_AUTH_TOKEN_PATH") or str(Path.home() / ".ray" / "auth_token")
    return bool(os.environ.get("RAY_AUTH_TOKEN")) or Path(named).is_file()
