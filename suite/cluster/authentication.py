"""How does this process prove who asks? By the token that Ray itself would use."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from suite.events import Unavailable


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
