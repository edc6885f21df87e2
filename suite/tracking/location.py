"""Finds the MLflow store of an output folder, and checks its address."""

from __future__ import annotations

import importlib.util
import os
import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit

from suite.errors import RefusedError, UsageError
from suite.spec import SpecError
from suite.text import redact

_SERVERS = ("http", "https")
_DATABASES = ("postgresql", "mysql", "mssql")
_ALLOWED = "sqlite:///PATH, http://HOST:PORT, https://HOST or postgresql://HOST/NAME"


class BadUri(UsageError):
    """The address is not valid: exit 2."""


class RefusedUri(RefusedError):
    """The address is refused for safety: exit 3."""


@dataclass(frozen=True, kw_only=True)
class Store:
    """Where an MLflow store is.

    Attributes:
        uri: Its address.
        artifacts: Folder for the artifacts of a local store; None for a server, which has its own.
    """

    uri: str
    artifacts: Path | None

    @property
    def may_exist(self) -> bool:
        """Whether there may be something in it; to ask for a missing file would create it."""
        file = sqlite_path(self.uri)
        return file is None or file.is_file()


def store_of(out: Path, tracking_uri: str | None) -> Store:
    """Return the store at the address; by default an SQLite file in the output folder.

    Raises:
        BadUri, RefusedUri: see `check_tracking_uri`.
    """
    artifacts = out.resolve() / "artifacts"
    if tracking_uri is None:
        return Store(uri=f"sqlite:///{out.resolve() / 'mlflow.db'}", artifacts=artifacts)
    uri = check_tracking_uri(tracking_uri)
    return Store(uri=uri, artifacts=artifacts if uri.startswith("sqlite:") else None)


def existing_store_of(out: Path, tracking_uri: str | None) -> Store:
    """Return the store as `store_of` does, for reading.

    Raises:
        SpecError: if the store is a file that does not exist yet.
    """
    store = store_of(out, tracking_uri)
    file = sqlite_path(store.uri)
    if file is not None and not file.is_file():
        raise SpecError(f"--out {out}: nothing is recorded here yet; `bakeoff run` does that.")
    return store


def is_own(store: Store, out: Path) -> bool:
    """Tell whether this is the folder's own file, which no other folder writes to."""
    return store == store_of(out, None)


def mlflow_is_installed() -> bool:
    """Tell whether a store can be used at all."""
    return importlib.util.find_spec("mlflow") is not None


def check_tracking_uri(uri: str) -> str:
    """Return the address if it is valid and allowed.

    Raises:
        BadUri: if it is not the address of a store.
        RefusedUri: if it is a bare folder (``file:``), or climbs out of one (``..``).
    """
    shown = redact(uri)
    scheme = uri.partition(":")[0].lower()
    is_file = scheme == "sqlite"  # a path may hold spaces
    if not uri or not uri.isprintable() or (" " in uri and not is_file):
        raise BadUri(f"--tracking-uri {shown!r} is empty or holds spaces; allowed: {_ALLOWED}.")
    if scheme == "file":
        raise RefusedUri(
            f"--tracking-uri {shown}: stores of plain files are refused; allowed: {_ALLOWED}."
        )
    if scheme == "sqlite":
        return _checked_sqlite(uri, shown)
    if scheme not in _SERVERS and scheme.partition("+")[0] not in _DATABASES:
        raise BadUri(f"--tracking-uri {shown!r} is no address of a store; allowed: {_ALLOWED}.")
    parts = _split(uri)
    if parts is None or not parts.hostname:
        raise BadUri(f"--tracking-uri {shown!r} has no valid host and port; allowed: {_ALLOWED}.")
    return uri.rstrip("/")


def sqlite_path(uri: str) -> Path | None:
    """Return the file of a ``sqlite:///`` address; None for a server."""
    prefix = "sqlite:///"
    return Path(uri.removeprefix(prefix)) if uri.startswith(prefix) else None


def secrets_of(uri: str) -> tuple[str, ...]:
    """Return the password in a URI, as written and decoded."""
    parts = _split(uri)
    password = parts.password if parts else None
    return (password, unquote(password)) if password else ()


def _checked_sqlite(uri: str, shown: str) -> str:
    path = unquote(uri.removeprefix("sqlite:///"))
    is_too_long = any(len(os.fsencode(part)) > 255 for part in path.split("/"))
    is_no_file = path in ("", ":memory:") or path.endswith("/") or "\0" in path or is_too_long
    if not uri.startswith("sqlite:///") or is_no_file:
        raise BadUri(f"--tracking-uri {shown!r} names no file; allowed: sqlite:///PATH.")
    if ".." in re.split(r"[/\\]", path) or "?" in path or path.startswith("file:"):
        raise RefusedUri(
            f"--tracking-uri {shown}: a path with '..' or options is refused; "
            "give the plain path of the file."
        )
    return uri


def _split(uri: str) -> SplitResult | None:
    """Return None if the port is not a number from 0 to 65535, or the host is malformed."""
    try:
        parts = urlsplit(uri)
        _ = parts.port
    except ValueError:
        return None
    return parts
