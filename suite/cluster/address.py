"""Check the address of a Ray cluster, and choose the token for it, before ray is imported."""

from __future__ import annotations

import os
import re
import secrets
import socket
from urllib.parse import urlsplit

from bakeoff.suite.cluster.head_client import (
    HeadClient,
    check_head,
    how_to_give_a_token,
    is_loopback,
    token,
)
from bakeoff.suite.errors import RefusedError, UsageError
from bakeoff.suite.events import Unavailable

AUTO = "auto"  # the cluster that this process is part of
_SECONDS_TO_CONNECT = 5.0
_HOST = r"(?P<host>[A-Za-z0-9.-]+|\[[0-9a-fA-F:]+\])"
_HOST_AND_PORT = re.compile(rf"{_HOST}:(?P<port>[0-9]{{1,5}})")
_URL = re.compile(rf"(?:(?P<scheme>https?)://)?{_HOST}(?::(?P<port>[0-9]{{1,5}}))?/?")
# 8265 is the dashboard's own port; https is a proxy in front of it.
_PORTS = {"http": 8265, "https": 443}


class BadAddress(UsageError):
    """Raised if the address is malformed: exit 2."""


class RefusedAddress(RefusedError):
    """Raised if the address is refused for safety: exit 3."""


def authenticate(address: str | None) -> None:
    """Choose how Ray authenticates, unless the environment sets it; call before importing ray.

    A cluster of our own gets a token that never leaves this process and its children; without one
    Ray would write a permanent token into the home folder. Another cluster gets the existing token;
    a cluster on this machine may have none.
    """
    if address is None:
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
    os.environ.setdefault("RAY_AUTH_MODE", "token" if address is None or token() else "disabled")


def check_address(address: str) -> None:
    """Raise for an address that is malformed, remote without a token, or not of a Ray head.

    ``auto`` is accepted: it is the cluster that this process is part of.

    Raises:
        BadAddress: If it is not the address of a Ray head.
        RefusedAddress: If it is not this machine, and there is no token.
        Unavailable: If the server there is not a head of our version that accepts our token.
    """
    if address == AUTO:
        return
    host, port = _split(address)
    _refuse_unprotected(address, host)
    try:
        socket.create_connection((host, port), timeout=_SECONDS_TO_CONNECT).close()
    except (OSError, UnicodeError) as error:  # UnicodeError: "a..b" is not a host name
        raise Unavailable(f"--address {address}: nothing answers there ({error}).") from error
    check_head(address)


def check_url(address: str) -> str:
    """Return the URL of a cluster's dashboard that accepts our token.

    Args:
        address: ``http://HOST:PORT``, ``https://HOST`` or HOST:PORT; the port is 8265 by default.

    Raises:
        BadAddress: If it is not such an address.
        RefusedAddress: If it is not this machine, and there is no token.
        Unavailable: If the server is not a dashboard of our version that accepts our token.
    """
    url = url_of(address)
    _refuse_unprotected(url, urlsplit(url).hostname or "")
    HeadClient(url).check_version()
    return url


def url_of(address: str) -> str:
    """Return the URL of the address without connecting.

    Raises:
        BadAddress: If it is not such an address.
    """
    found = _URL.fullmatch(address)
    if not found or address == AUTO or not 0 < int(found["port"] or 1) < 65_536:
        raise BadAddress(
            f"--address {_shown(address)} is not the address of a Ray dashboard; give "
            "http://HOST:PORT, as http://127.0.0.1:8265, without a path, user or password."
        )
    scheme = found["scheme"] or "http"
    return f"{scheme}://{found['host']}:{found['port'] or _PORTS[scheme]}"


def _split(address: str) -> tuple[str, int]:
    found = _HOST_AND_PORT.fullmatch(address)
    if not found or not 0 < int(found["port"]) < 65_536:
        raise BadAddress(
            f"--address {_shown(address)} is not the address of a Ray head; give HOST:PORT, as "
            "127.0.0.1:6379."
        )
    return found["host"].strip("[]"), int(found["port"])


def _refuse_unprotected(address: str, host: str) -> None:
    if not is_loopback(host) and not token():
        raise RefusedAddress(
            f"--address {address}: this is another machine, and there is no token. A cluster runs "
            f"any code that it receives; {how_to_give_a_token()}."
        )


def _shown(address: str) -> str:
    """Return the address without what may be a secret: user, password and query."""
    found = re.match(r"[A-Za-z]{1,10}://", address)
    scheme = found.group() if found else ""
    _, at, rest = address.removeprefix(scheme).rpartition("@")
    hidden = f"{scheme}***@{rest}" if at else address
    return repr(re.sub(r"[?#].*", "?***", hidden))
