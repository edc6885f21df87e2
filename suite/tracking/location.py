"""Finds the MLflow store that belongs to an output folder."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path

from suite.spec import SpecError
from suite.tracking.uri import check_tracking_uri, sqlite_path


@dataclass(frozen=True, kw_only=True)
class Store:
    """Where an MLflow store is.

    Attributes:
        uri: Its address.
        artifacts: Folder for the artifacts of a local store; None for a server, which has its own.
    """

    uri: str
    artifacts: Path | None


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
