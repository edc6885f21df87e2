"""May this address be joined as a Ray cluster, and how? Settled before ray is imported."""

from __future__ import annotations

import ipaddress
import os
import re
import secrets
import socket
from pathlib import Path

from suite.executor import Unavailable

_SECONDS_TO_CONNECT = 5.0
# What opens an HTTP/2 connection (RFC 9113, section 3.4), and an empty frame of settings. A head
# speaks gRPC and answers with settings of its own; at a port of another kind Ray would wait long.
_GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
_SETTINGS = 4
_HOST_AND_PORT = re.compile(r"(?P<host>[A-Za-z0-9.-]+|\[[0-9a-fA-F:]+\]):(?P<port>[0-9]{1,5})")


class BadAddress(ValueError):
    """The address cannot be meant: exit 2."""


class RefusedAddress(ValueError):
    """The address is refused for safety: exit 3."""


def check_address(address: str) -> None:
    """Refuse what is no HOST:PORT, what is far away and unprotected, what is no head of Ray.

    Raises:
        BadAddress: if it is no address of a Ray head.
        RefusedAddress: if it is not this machine, and there is no token to prove who asks.
        Unavailable: if nothing answers there, or not as a head of Ray would.
    """
    host, port = _split(address)
    if not _is_loopback(host) and not has_token():
        raise RefusedAddress(
            f"--address {address}: not this machine, and there is no token. A cluster runs "
            "whatever it is sent; set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN_PATH."
        )
    try:
        with socket.create_connection((host, port), timeout=_SECONDS_TO_CONNECT) as connection:
            is_head = _speaks_grpc(connection)
    except (OSError, UnicodeError) as error:  # UnicodeError: "a..b" is no host name
        raise Unavailable(f"--address {address}: nothing answers there ({error}).") from error
    if not is_head:
        raise Unavailable(
            f"--address {address}: what answers there is no head of a Ray cluster; its port is "
            "the one of `ray start --head --port`, 6379 by default, not the dashboard's."
        )


def authenticate(address: str | None) -> None:
    """Choose how Ray proves who asks, where the environment does not say: before it is imported.

    A cluster of our own takes a token that never leaves this process and its children; without
    one Ray would write a lasting token into the home folder. Another's cluster takes the token
    that there is; one of this machine may do without.
    """
    if address is None:
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
    mode = "token" if address is None or has_token() else "disabled"
    os.environ.setdefault("RAY_AUTH_MODE", mode)


def _split(address: str) -> tuple[str, int]:
    found = _HOST_AND_PORT.fullmatch(address)
    if not found or not 0 < int(found["port"]) < 65_536:
        raise BadAddress(
            f"--address {address!r} is no address of a Ray head; give HOST:PORT, as 127.0.0.1:6379."
        )
    return found["host"].strip("[]"), int(found["port"])


def _speaks_grpc(connection: socket.socket) -> bool:
    try:
        connection.sendall(_GREETING)
        return connection.recv(9)[3:4] == bytes([_SETTINGS])
    except OSError:  # it hung up, or says nothing
        return False


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
