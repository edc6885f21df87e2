"""Which MLflow store belongs to an output folder?"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path

from suite.spec import SpecError
from suite.tracking.uri import check_tracking_uri, sqlite_path


@dataclass(frozen=True, kw_only=True)
class Store:
    """An MLflow store.

    Attributes:
        uri: Its address.
        artifacts: Where the artifacts of a local store go; None for a server, which has its own.
    """

    uri: str
    artifacts: Path | None


def store_of(out: Path, tracking_uri: str | None) -> Store:
    """The store at the address; by default an SQLite file in the output folder.

    Raises:
        BadUri, RefusedUri: see `tracking_uri.check_tracking_uri`.
    """
    artifacts = out.resolve() / "artifacts"
    if tracking_uri is None:
        return Store(uri=f"sqlite:///{out.resolve() / 'mlflow.db'}", artifacts=artifacts)
    uri = check_tracking_uri(tracking_uri)
    return Store(uri=uri, artifacts=artifacts if uri.startswith("sqlite:") else None)


def existing_store_of(out: Path, tracking_uri: str | None) -> Store:
    """As `store_of`, for those who only read.

    Raises:
        SpecError: if the store is a file, and there is none yet.
    """
    store = store_of(out, tracking_uri)
    file = sqlite_path(store.uri)
    if file is not None and not file.is_file():
        raise SpecError(f"--out {out}: nothing is recorded here yet; `bakeoff run` does that.")
    return store


def is_own(store: Store, out: Path) -> bool:
    """Whether it is the folder's own file, which no other folder records into."""
    return store == store_of(out, None)


def mlflow_is_installed() -> bool:
    """Whether there can be a store at all."""
    return importlib.util.find_spec("mlflow") is not None
