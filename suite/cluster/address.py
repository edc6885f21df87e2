"""May this address be used as a Ray cluster, and how? Settled before ray is imported."""

from __future__ import annotations

import ipaddress
import os
import re
import secrets
import socket
from importlib.metadata import version
from pathlib import Path
from urllib.parse import urlsplit

from suite.executor import Unavailable

AUTO = "auto"  # the cluster that this process is part of
_SECONDS_TO_CONNECT = 5.0
_HOST = r"(?P<host>[A-Za-z0-9.-]+|\[[0-9a-fA-F:]+\])"
_HOST_AND_PORT = re.compile(rf"{_HOST}:(?P<port>[0-9]{{1,5}})")
_URL = re.compile(rf"(?:(?P<scheme>https?)://)?{_HOST}(?::(?P<port>[0-9]{{1,5}}))?/?")
_PORTS = {"http": 8265, "https": 443}  # 8265 is the dashboard's own; https is a proxy before it


class BadAddress(ValueError):
    """The address cannot be meant: exit 2."""


class RefusedAddress(ValueError):
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
    from suite.cluster.head_grpc import check_head

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
    from suite.cluster.head_http import Head

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


def has_token() -> bool:
    """Whether Ray finds a token that proves who asks, and is to use it."""
    return bool(token())


def token() -> str:
    """The token that Ray would use; empty where there is none, or where it is switched off.

    Raises:
        Unavailable: if its file holds something else; it must not be shown by whoever sends it.
    """
    if os.environ.get("RAY_AUTH_MODE") == "disabled":
        return ""
    named = os.environ.get("RAY_AUTH_TOKEN_PATH") or str(Path.home() / ".ray" / "auth_token")
    try:
        found = os.environ.get("RAY_AUTH_TOKEN") or Path(named).read_text()
    except (OSError, UnicodeDecodeError):
        return ""
    found = found.strip()
    if not found.isascii() or not all(character.isprintable() for character in found):
        raise Unavailable("The token of the cluster is none: it must be one line of ASCII.")
    return found


def is_loopback(host: str) -> bool:
    """Whether that host is this machine, whatever the network says."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def not_our_version(theirs: str) -> str:
    """Why two versions of Ray do not understand each other; empty if they are one."""
    ours = version("ray")
    return "" if theirs == ours else f"runs Ray {theirs or '(unknown)'}, and this is Ray {ours}"


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
    """Without what may be a password."""
    return repr(re.sub(r"[?#].*", "?***", re.sub(r"[^/\s]*@", "***@", address)))
