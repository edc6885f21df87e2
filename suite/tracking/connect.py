"""MLflow, opened, and what the reports are made of read back. The only file that imports mlflow.

`suite.tracking.run_writer` writes what is read here.
"""

from __future__ import annotations

import logging
import os
import re
import socket
import sqlite3
import warnings
from collections.abc import Collection
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from suite.tracking.client import NO_FILE, SHA256_TAG, Store, StoreUnavailable, plainly
from suite.tracking.run_index import TrialRun, trial_run_from_tags
from suite.tracking.uri import check_tracking_uri, sqlite_path

# Read by mlflow when it is imported or called. An outage shows in seconds, not in the four minutes
# of the default, since the journal keeps what could not be sent.
_ENVIRONMENT = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "1",
    "MLFLOW_TRUNCATE_LONG_VALUES": "false",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "MLFLOW_LOGGING_LEVEL": "CRITICAL",  # its messages hold the address, password and all
}
_PORTS = {"postgresql": 5432, "mysql": 3306, "mssql": 1433}
_FILES = ("results.parquet", "curves.parquet")


def children(tracking_uri: str, ablation: str, scale: str) -> tuple[TrialRun, ...]:
    """What the store holds of a sweep's trials, doubles included; the earliest first.

    Raises:
        BadUri, RefusedUri: see `check_tracking_uri`.
        StoreUnavailable: if there is no store, or it does not answer.
    """
    store = connect(tracking_uri, is_new_allowed=False)
    with store.reached():
        experiment = store.client.get_experiment_by_name(ablation)
        runs = store.runs(experiment.experiment_id, scale) if experiment else []
    return tuple(recorded(run) for run in runs if run.data.tags.get("bakeoff.role") == "trial")


def reading(tracking_uri: str) -> Store:
    """A store to read from, request by request.

    Raises:
        BadUri, RefusedUri: see `check_tracking_uri`.
        StoreUnavailable: if there is no store, or it does not answer.
    """
    return connect(tracking_uri, is_new_allowed=False)


def load_artifacts(tracking_uri: str, ablation: str, into: Path) -> list[tuple[str, Path]]:
    """Fetch what the reports are made of.

    Returns:
        For each scale that has results, by name: the scale, and a folder in `into` that holds
        its ``results.parquet`` and ``curves.parquet``.

    Raises:
        BadUri, RefusedUri: see `check_tracking_uri`.
        StoreUnavailable: if there is no store, it does not answer, or a file is not the one that
            was published.
    """
    return load_all_artifacts(tracking_uri, into, [ablation]).get(ablation, [])


def load_all_artifacts(
    tracking_uri: str, into: Path, ablations: Collection[str] | None = None
) -> dict[str, list[tuple[str, Path]]]:
    """The same of several ablations, by name; of all that the store holds where none are named.

    Raises:
        BadUri, RefusedUri, StoreUnavailable: as `load_artifacts`.
    """
    store = connect(tracking_uri, is_new_allowed=False)
    found: dict[str, dict[str, Path]] = {}
    with store.reached():
        names = {
            experiment.experiment_id: experiment.name
            for experiment in store.experiments()
            if experiment.tags.get("bakeoff.ablation") == experiment.name
            and (ablations is None or experiment.name in ablations)
        }
        for run in store.parents(list(names)):
            scales = found.setdefault(names[run.info.experiment_id], {})
            scale = re.sub(r"[^\w-]", "_", run.data.tags.get("bakeoff.scale", ""))
            held = [run.data.tags.get(SHA256_TAG + name, NO_FILE).split() for name in _FILES]
            if not any(NO_FILE in digests for digests in held) and scale not in scales:
                scales[scale] = into / run.info.run_id
                scales[scale].mkdir(parents=True, exist_ok=True)
                for name in _FILES:
                    store.fetch(run, name, scales[scale])
    return {name: sorted(scales.items()) for name, scales in sorted(found.items())}


def connect(tracking_uri: str, *, is_new_allowed: bool) -> Store:
    """Import mlflow and open the store.

    Raises:
        StoreUnavailable: if mlflow is not installed, there is no store, or it cannot be opened.
    """
    uri = check_tracking_uri(tracking_uri)
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    logging.getLogger("urllib3.connectionpool").setLevel(logging.ERROR)  # each retry, else
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # between mlflow and SQLAlchemy
        return _imported_and_opened(uri, is_new_allowed)


def _imported_and_opened(uri: str, is_new_allowed: bool) -> Store:
    try:
        import mlflow.exceptions
        from alembic.util import CommandError
        from google.protobuf.json_format import (  # type: ignore[import-untyped]
            Error as NotAsAsked,
        )
        from mlflow import entities
        from sqlalchemy.exc import SQLAlchemyError
    except ImportError as error:
        raise StoreUnavailable(f"MLflow cannot be imported: {error}.") from None
    # Those of requests are OSErrors.
    failures = (
        mlflow.exceptions.MlflowException, SQLAlchemyError, CommandError, NotAsAsked, OSError,
    )  # fmt: skip
    with plainly(uri, (*failures, sqlite3.Error)):
        _probe(uri, is_new_allowed)
        return Store(uri, mlflow.MlflowClient(uri), entities, failures)


def _probe(uri: str, is_new_allowed: bool) -> None:
    """Knock once: mlflow would knock at a database that does not open for 100 seconds."""
    database = sqlite_path(uri)
    if database is None:
        parts = urlsplit(uri)
        port = parts.port or _PORTS.get(parts.scheme.partition("+")[0])
        if port is not None and parts.scheme not in ("http", "https"):
            socket.create_connection((parts.hostname or "", port), timeout=5).close()
        return
    if is_new_allowed:
        database.parent.mkdir(parents=True, exist_ok=True)
    elif not database.is_file():
        raise StoreUnavailable(f"There is no store at {database} yet: `bakeoff run` makes it.")
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("PRAGMA schema_version")


def recorded(run: Any) -> TrialRun:
    """A child, as MLflow's client gives it."""
    info = run.info
    return trial_run_from_tags(info.run_id, info.status, info.start_time, run.data.tags)
