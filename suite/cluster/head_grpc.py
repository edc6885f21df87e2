"""Does the head of a Ray cluster let us in? Asked by one call, since Ray itself knocks for long.

The call is `ray.rpc.NodeInfoGcsService/CheckAlive`, whose empty request needs none of Ray's code;
of the answer only the version is read (protobuf's wire format: field 2, a string).
"""

from __future__ import annotations

import re

from suite.cluster.peer import not_our_version
from suite.events import Unavailable

_SECONDS = 5.0
_CHECK_ALIVE = "/ray.rpc.NodeInfoGcsService/CheckAlive"
_VERSION = re.compile(rb"\x12[\x01-\x40]([0-9A-Za-z.+-]+)")


def check_head(address: str, token: str) -> None:
    """Refuse what is no head, a head of another version, one that our token does not open.

    Raises:
        Unavailable: in one sentence, which never shows the token.
    """
    code, answer = _asked(address, token)
    if code != "OK":
        raise Unavailable(f"--address {address}: {_why(code, token)}")
    found = _VERSION.search(answer)
    if why := not_our_version(found[1].decode() if found else ""):
        raise Unavailable(f"--address {address}: the cluster there {why}; they must be the same.")


def _asked(address: str, token: str) -> tuple[str, bytes]:
    """The status of the call, as gRPC names it, and the answer."""
    import grpc  # type: ignore[import-untyped]

    metadata = [("authorization", f"Bearer {token}")] if token else []
    options = [("grpc.enable_http_proxy", 0)]  # a token goes to the head, and to nobody else
    with grpc.insecure_channel(address, options=options) as channel:
        ask = channel.unary_unary(
            _CHECK_ALIVE, request_serializer=bytes, response_deserializer=bytes
        )
        try:
            return "OK", ask(b"", timeout=_SECONDS, metadata=metadata)
        except grpc.RpcError as error:
            return error.code().name, b""


def _why(code: str, token: str) -> str:
    if code == "UNAUTHENTICATED" and token:
        return "the cluster there does not know our token; is the right one in RAY_AUTH_TOKEN_PATH?"
    if code == "UNAUTHENTICATED":
        return (
            "the cluster there asks for a token; set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN_PATH."
        )
    return (
        "what answers there is no head of a Ray cluster; its port is the one of "
        "`ray start --head --port`, 6379 by default, not the dashboard's."
    )
