"""Send requests to the head of a Ray cluster, with our token and a time limit, without ray.

The dashboard is accessed over HTTP, because Ray's own client has no time limit, and lets the
environment override the address. The head's other port is checked by one gRPC call, because Ray
itself tries to connect for a long time.
"""

from __future__ import annotations

import ipaddress
import json
import os
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPException
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import (
    HTTPRedirectHandler,
    ProxyHandler,
    Request,
    build_opener,
)

from bakeoff.suite.events import Unavailable

_SECONDS = 5.0
_SECONDS_OF_A_LONG_ANSWER = 30.0
_BYTES_OF_A_PIECE = 1 << 16
_NO_DASHBOARD = (
    "the server there is not the dashboard of a Ray cluster; its port is the one of "
    "`ray start --head --dashboard-port`, 8265 by default, not the head's"
)
_NO_HEAD = (
    "the server there is not the head of a Ray cluster; its port is the one of "
    "`ray start --head --port`, 6379 by default, not the dashboard's"
)
# An empty request needs no code of Ray; only the version is read from the answer. It is field 2 in
# protobuf's wire format, a string.
_CHECK_ALIVE = "/ray.rpc.NodeInfoGcsService/CheckAlive"
_VERSION = re.compile(rb"\x12[\x01-\x40]([0-9A-Za-z.+-]+)")


class NotThere(Unavailable):
    """Raised if the cluster has nothing at a path."""


def is_loopback(host: str) -> bool:
    """Return True if the name of the host alone shows that it is this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def token() -> str:
    """Return the token that Ray would use; empty if there is none, or tokens are disabled.

    Raises:
        Unavailable: If its file does not hold a token; the message does not show the content.
    """
    if os.environ.get("RAY_AUTH_MODE") == "disabled":
        return ""
    try:
        found = (os.environ.get("RAY_AUTH_TOKEN") or token_file().read_text()).strip()
    except (OSError, UnicodeDecodeError):
        return ""
    if not found.isascii() or not all(character.isprintable() for character in found):
        raise Unavailable("The token of the cluster is invalid: it must be one line of ASCII.")
    return found


def token_file() -> Path:
    """Return the file where Ray would look for the token."""
    return Path(os.environ.get("RAY_AUTH_TOKEN_PATH") or Path.home() / ".ray" / "auth_token")


def how_to_give_a_token() -> str:
    """Return a clause on what to do without a token."""
    return (
        f"copy that of the cluster to {token_file()}, or name its file in RAY_AUTH_TOKEN_PATH, and "
        "set RAY_AUTH_MODE=token"
    )


def check_head(address: str) -> None:
    """Raise if a server is not a head, has another version, or rejects our token.

    Raises:
        Unavailable: The message is one sentence, which never shows the token.
    """
    code, answer = _check_alive(address)
    if code == "UNAUTHENTICATED":
        raise _unavailable(address, _why_unauthorised())
    if code != "OK":
        raise _unavailable(address, _NO_HEAD)
    found = _VERSION.search(answer)
    _refuse_other_version(address, found[1].decode() if found else "")


def _check_alive(address: str) -> tuple[str, bytes]:
    """Return the status of the call, as gRPC names it, and the answer."""
    import grpc  # type: ignore[import-untyped]

    metadata = [("authorization", f"Bearer {ours}")] if (ours := token()) else []
    options = [("grpc.enable_http_proxy", 0)]  # the token must reach the head only
    with grpc.insecure_channel(address, options=options) as channel:
        call = channel.unary_unary(
            _CHECK_ALIVE, request_serializer=bytes, response_deserializer=bytes
        )
        try:
            return "OK", call(b"", timeout=_SECONDS, metadata=metadata)
        except grpc.RpcError as error:
            return error.code().name, b""


@dataclass(frozen=True)
class HeadClient:
    """A client of the dashboard at a checked URL, see `bakeoff.suite.cluster.address.check_url`.

    https://docs.ray.io/en/latest/cluster/running-applications/job-submission/rest.html
    """

    url: str

    def check_version(self) -> None:
        """Raise if a server is not a dashboard, has another version, or rejects our token.

        Raises:
            Unavailable: The message is one sentence, which never shows the token.
        """
        try:
            found = self.ask("/api/version", seconds=_SECONDS)
        except NotThere:
            raise _unavailable(self.url, _NO_DASHBOARD) from None
        if not isinstance(found, dict) or "ray_version" not in found:
            raise _unavailable(self.url, _NO_DASHBOARD)
        _refuse_other_version(self.url, str(found["ray_version"]))

    def ask(
        self,
        path: str,
        *,
        method: str = "GET",
        body: Mapping[str, Any] | None = None,
        seconds: float = _SECONDS_OF_A_LONG_ANSWER,
    ) -> Any:
        """Return the JSON at the path; a body is sent as JSON.

        Raises:
            NotThere: If there is nothing at the path.
            Unavailable: If the cluster does not answer, or its answer is invalid.
        """
        sent = None if body is None else json.dumps(body).encode()
        kind = {} if body is None else {"Content-Type": "application/json"}
        request = Request(self.url + path, method=method, data=sent, headers=kind)
        if ours := token():
            request.add_unredirected_header("Authorization", f"Bearer {ours}")
        # A proxy is for other machines: a token for this one must not leave it.
        is_here = is_loopback(urlsplit(self.url).hostname or "")
        opener = build_opener(_NoRedirect, *([ProxyHandler({})] if is_here else []))
        try:
            until = time.monotonic() + seconds
            with opener.open(request, timeout=seconds) as answer:
                return json.loads(_read(answer, until))
        except HTTPError as error:
            with error:
                raise self._refusal(error.code) from None
        except URLError as error:
            raise _unavailable(self.url, f"nothing answers there ({error.reason})") from None
        except TimeoutError:
            raise _unavailable(self.url, f"no answer within {seconds:g} seconds") from None
        except (HTTPException, OSError, ValueError):  # ValueError: not JSON
            raise _unavailable(self.url, _NO_DASHBOARD) from None

    def _refusal(self, code: int) -> Unavailable:
        if code in (401, 403):
            return _unavailable(self.url, _why_unauthorised())
        if code == 404:
            return NotThere(f"--address {self.url}: the cluster does not know this request.")
        return _unavailable(self.url, f"{_NO_DASHBOARD} (status {code})")


class _NoRedirect(HTTPRedirectHandler):
    """A handler that follows no redirect, because it would forward the token."""

    def redirect_request(self, *arguments: Any) -> None:
        return None


def _read(answer: IO[bytes], until: float) -> bytes:
    """Read a whole answer in time; a socket's own limit applies to each piece of it."""
    pieces = []
    while piece := answer.read1(_BYTES_OF_A_PIECE):  # type: ignore[attr-defined]
        pieces.append(piece)
        if time.monotonic() > until:
            raise TimeoutError
    return b"".join(pieces)


def _why_unauthorised() -> str:
    if token():
        path = f"{token_file()} (RAY_AUTH_TOKEN_PATH)"
        place = "RAY_AUTH_TOKEN" if os.environ.get("RAY_AUTH_TOKEN") else path
        return f"the cluster there does not accept the token; check the token in {place}"
    return f"the cluster there requires a token; {how_to_give_a_token()}"


def _refuse_other_version(address: str, theirs: str) -> None:
    """Raise if the cluster runs another version of Ray, because versions are incompatible."""
    ours = version("ray")
    if theirs != ours:
        raise _unavailable(
            address,
            f"the cluster there runs Ray {theirs or '(unknown)'}, and this machine runs Ray "
            f"{ours}; the versions must be the same",
        )


def _unavailable(address: str, why: str) -> Unavailable:
    return Unavailable(f"--address {address}: {why}" + ("" if why.endswith("?") else "."))
