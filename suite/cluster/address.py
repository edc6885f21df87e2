"""May this address be used as a Ray cluster, and how? Settled before ray is imported."""

from __future__ import annotations

import re
import socket
from urllib.parse import urlsplit

from suite.cluster.authentication import has_token, token
from suite.cluster.head_grpc import check_head
from suite.cluster.head_http import Head
from suite.cluster.peer import is_loopback
from suite.errors import RefusedError, UsageError
from suite.events import Unavailable

AUTO = "auto"  # the cluster that this process is part of
_SECONDS_TO_CONNECT = 5.0
_HOST = r"(?P<host>[A-Za-z0-9.-]+|\[[0-9a-fA-F:]+\])"
_HOST_AND_PORT = re.compile(rf"{_HOST}:(?P<port>[0-9]{{1,5}})")
_URL = re.compile(rf"(?:(?P<scheme>https?)://)?{_HOST}(?::(?P<port>[0-9]{{1,5}}))?/?")
_PORTS = {"http": 8265, "https": 443}  # 8265 is the dashboard's own; https is a proxy before it


class BadAddress(UsageError):
    """The address cannot be meant: exit 2."""


class RefusedAddress(RefusedError):
    """The address is refused for safety: exit 3."""


def check_address(address: str) -> None:
    """Refuse what is no HOST:PORT, what is far away and unprotected, what is no head of Ray.

    ``auto`` passes: it is the cluster that this process is part of, by Ray's own word.

    Raises:
        BadAddress: if it is no address of a Ray head.
        RefusedAddress: if it is not this machine, and there is no token to prove who asks.
        Unavailable: if nothing answers there, or not as a head of our version that lets us in.
    """
    if address == AUTO:
        return
    host, port = _split(address)
    _refuse_unprotected(address, host)
    try:
        socket.create_connection((host, port), timeout=_SECONDS_TO_CONNECT).close()
    except (OSError, UnicodeError) as error:  # UnicodeError: "a..b" is no host name
        raise Unavailable(f"--address {address}: nothing answers there ({error}).") from error
    check_head(address, token())


def check_url(address: str) -> str:
    """The URL of a cluster's dashboard, if it lets us in.

    Args:
        address: ``http://HOST:PORT``, ``https://HOST`` or HOST:PORT; the port is 8265 by default.

    Raises:
        BadAddress: if it is no such address.
        RefusedAddress: if it is not this machine, and there is no token to prove who asks.
        Unavailable: if nothing answers there, or not as a dashboard of our version that lets us in.
    """
    url = url_of(address)
    _refuse_unprotected(url, urlsplit(url).hostname or "")
    Head(url).check_version()
    return url


def url_of(address: str) -> str:
    """The URL that the address comes to; nobody is asked.

    Raises:
        BadAddress: if it is no such address.
    """
    found = _URL.fullmatch(address)
    if not found or address == AUTO or not 0 < int(found["port"] or 1) < 65_536:
        raise BadAddress(
            f"--address {_shown(address)} is no address of a Ray dashboard; give "
            "http://HOST:PORT, as http://127.0.0.1:8265, without a path, user or password."
        )
    scheme = found["scheme"] or "http"
    return f"{scheme}://{found['host']}:{found['port'] or _PORTS[scheme]}"


def _split(address: str) -> tuple[str, int]:
    found = _HOST_AND_PORT.fullmatch(address)
    if not found or not 0 < int(found["port"]) < 65_536:
        raise BadAddress(
            f"--address {_shown(address)} is no address of a Ray head; give HOST:PORT, as "
            "127.0.0.1:6379."
        )
    return found["host"].strip("[]"), int(found["port"])


def _refuse_unprotected(address: str, host: str) -> None:
    if not is_loopback(host) and not has_token():
        raise RefusedAddress(
            f"--address {address}: not this machine, and there is no token. A cluster runs "
            "whatever it is sent; set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN_PATH."
        )


def _shown(address: str) -> str:
    """Without what may be a password: all before the last @, but for a scheme, and a query."""
    found = re.match(r"[A-Za-z]{1,10}://", address)
    scheme = found.group() if found else ""
    _, at, rest = address.removeprefix(scheme).rpartition("@")
    hidden = f"{scheme}***@{rest}" if at else address
    return repr(re.sub(r"[?#].*", "?***", hidden))
