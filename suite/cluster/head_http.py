"""What does the dashboard of a Ray cluster answer? Its HTTP interface, with token and time limit.

Plain HTTP by the standard library: Ray's own client has no time limit, and reads the environment
where an address was given. (https://docs.ray.io/en/latest/cluster/running-applications/
job-submission/rest.html)
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from http.client import HTTPException
from typing import IO, Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import (
    HTTPRedirectHandler,
    OpenerDirector,
    ProxyHandler,
    Request,
    build_opener,
)

from suite.cluster.authentication import token
from suite.cluster.peer import is_loopback, not_our_version
from suite.events import Unavailable

_SECONDS = 5.0
_SECONDS_OF_A_LONG_ANSWER = 30.0
_BYTES_OF_A_PIECE = 1 << 16
_NO_DASHBOARD = (
    "what answers there is no dashboard of a Ray cluster; its port is the one of "
    "`ray start --head --dashboard-port`, 8265 by default, not the head's"
)


class _StaysHere(HTTPRedirectHandler):
    """Follows nobody elsewhere: the token would go along."""

    def redirect_request(self, *arguments: Any) -> None:
        return None


def _read(answer: IO[bytes], until: float) -> bytes:
    """All of it; a socket's time limit is for each piece, and a server may send many."""
    pieces = []
    while piece := answer.read1(_BYTES_OF_A_PIECE):  # type: ignore[attr-defined]
        pieces.append(piece)
        if time.monotonic() > until:
            raise TimeoutError
    return b"".join(pieces)


class NotThere(Unavailable):
    """The cluster has no such thing."""


@dataclass(frozen=True)
class Head:
    """The dashboard at a URL that was checked: see `suite.cluster.address.check_url`."""

    url: str

    def check_version(self) -> None:
        """Refuse what is no dashboard, one of another Ray, one that does not let us in.

        Raises:
            Unavailable: in one sentence, which never shows the token.
        """
        try:
            found = self.get("/api/version", seconds=_SECONDS)
        except NotThere:
            raise self._trouble(_NO_DASHBOARD) from None
        if not isinstance(found, dict) or "ray_version" not in found:
            raise self._trouble(_NO_DASHBOARD)
        if why := not_our_version(str(found["ray_version"])):
            raise self._trouble(f"the cluster there {why}; they must be the same")

    def get(self, path: str, *, seconds: float = _SECONDS_OF_A_LONG_ANSWER) -> Any:
        """The JSON that stands at the path.

        Raises:
            NotThere: if there is nothing.
            Unavailable: if the cluster does not answer, or not as it should.
        """
        return self._asked(Request(self.url + path), seconds)

    def post(self, path: str) -> Any:
        """As `get`, for what changes something."""
        return self._asked(Request(self.url + path, method="POST"), _SECONDS_OF_A_LONG_ANSWER)

    def _asked(self, request: Request, seconds: float) -> Any:
        ours = token()
        if ours:
            request.add_unredirected_header("Authorization", f"Bearer {ours}")
        try:
            until = time.monotonic() + seconds
            with self._opener().open(request, timeout=seconds) as answer:
                return json.loads(_read(answer, until))
        except HTTPError as error:
            with error:
                raise self._refusal(error.code, has_token=bool(ours)) from None
        except URLError as error:
            raise self._trouble(f"nothing answers there ({error.reason})") from None
        except TimeoutError:
            raise self._trouble(f"no answer within {seconds:g} seconds") from None
        except (HTTPException, OSError, ValueError):  # ValueError: no JSON
            raise self._trouble(_NO_DASHBOARD) from None

    def _opener(self) -> OpenerDirector:
        """A proxy is for other machines: a token for this one must not leave it."""
        is_here = is_loopback(urlsplit(self.url).hostname or "")
        return build_opener(_StaysHere, *([ProxyHandler({})] if is_here else []))

    def _refusal(self, code: int, *, has_token: bool) -> Unavailable:
        if code in (401, 403) and has_token:
            return self._trouble(
                "the cluster there does not know our token; is the right one in "
                "RAY_AUTH_TOKEN_PATH?"
            )
        if code in (401, 403):
            return self._trouble(
                "the cluster there asks for a token; set RAY_AUTH_MODE=token and "
                "RAY_AUTH_TOKEN_PATH"
            )
        if code == 404:
            return NotThere(f"--address {self.url}: the cluster has no such thing.")
        return self._trouble(f"{_NO_DASHBOARD} (status {code})")

    def _trouble(self, why: str) -> Unavailable:
        return Unavailable(f"--address {self.url}: {why}" + ("" if why.endswith("?") else "."))
