"""Open an MLflow store; the only module that imports mlflow, apart from its server."""

from __future__ import annotations

import glob
import logging
import os
import re
import shutil
import socket
import sqlite3
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from bakeoff.suite.text import command
from bakeoff.suite.tracking.client import MlflowStore, StoreUnavailable, store_errors
from bakeoff.suite.tracking.location import check_tracking_uri, sqlite_path

# Read by mlflow at import or call time. An outage is detected in seconds, not in the four minutes
# of the default, because the journal keeps whatever could not be sent.
_ENVIRONMENT = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "1",
    "MLFLOW_TRUNCATE_LONG_VALUES": "false",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "MLFLOW_LOGGING_LEVEL": "CRITICAL",  # its messages contain the address with its password
}
_PORTS = {"postgresql": 5432, "mysql": 3306, "mssql": 1433}
_BEFORE_SESSIONS = (
    "PRAGMA foreign_keys = ON",
    "PRAGMA busy_timeout = 20000",
    "PRAGMA case_sensitive_like = true",
    "BEGIN IMMEDIATE",  # otherwise sqlite3 commits at each savepoint
)


def connect(tracking_uri: str, *, is_new_allowed: bool = False) -> MlflowStore:
    """Import mlflow and open the store.

    Raises:
        BadUri, RefusedUri: In the cases of `check_tracking_uri`.
        StoreUnavailable: If mlflow is not installed, or if the store does not exist or cannot be
            opened.
    """
    uri = check_tracking_uri(tracking_uri)
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    # Otherwise it logs each retry.
    logging.getLogger("urllib3.connectionpool").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # between mlflow and SQLAlchemy
        return _import_and_open(uri, is_new_allowed)


def _import_and_open(uri: str, is_new_allowed: bool) -> MlflowStore:
    try:
        import mlflow.exceptions
        from alembic.util import CommandError
        from google.protobuf.json_format import (  # type: ignore[import-untyped]
            Error as UnexpectedAnswer,
        )
        from mlflow import entities
        from mlflow.tracking._tracking_service import utils
        from sqlalchemy.exc import SQLAlchemyError
    except ImportError as error:
        raise StoreUnavailable(f"MLflow cannot be imported: {error}.") from None
    # MLflow caches the artifact location of each run; for a copied folder it is the original's.
    utils._artifact_repos_cache.clear()
    # Exceptions of requests are OSErrors.
    failures = (
        mlflow.exceptions.MlflowException,
        SQLAlchemyError,
        CommandError,
        UnexpectedAnswer,
        OSError,
    )
    # The driver of a database may not be installed.
    with store_errors(uri, (*failures, sqlite3.Error, ImportError)):
        database = sqlite_path(uri)
        has_content = database is not None and database.exists() and database.stat().st_size > 0
        if database is not None and is_new_allowed and not has_content:
            _create_database(database, mlflow.MlflowClient)
        _check_reachable(uri, database)
        client = mlflow.MlflowClient(uri)
        transaction = partial(_transaction, client) if database is not None else None
        return MlflowStore(uri, client, entities, failures, transaction)


@contextmanager
def _transaction(client: Any) -> Iterator[None]:
    """Make the sessions that mlflow opens within the block parts of one transaction.

    MLflow writes a run in seven sessions; each begins with three settings and ends with fsyncs.
    """
    from mlflow.store.db.utils import _get_managed_session_maker
    from sqlalchemy.orm import sessionmaker

    store = client._tracking_client.store
    before = store.ManagedSessionMaker
    with store.engine.connect() as connection, connection.begin():
        for statement in _BEFORE_SESSIONS:
            connection.exec_driver_sql(statement)
        sessions = sessionmaker(bind=connection, join_transaction_mode="create_savepoint")
        store.ManagedSessionMaker = _get_managed_session_maker(sessions, db_type="")
        try:
            yield
        finally:
            store.ManagedSessionMaker = before


def _check_reachable(uri: str, database: Path | None) -> None:
    """Try to reach the store once; mlflow would retry to open a database for 100 seconds."""
    if database is None:
        parts = urlsplit(uri)
        port = parts.port or _PORTS.get(parts.scheme.partition("+")[0])
        if port is not None and parts.scheme not in ("http", "https"):
            socket.create_connection((parts.hostname or "", port), timeout=5).close()
        return
    if not database.exists():
        raise StoreUnavailable(
            f"There is no store at {database} yet; `{command('run', 'NAME')}` creates it."
        )
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("PRAGMA schema_version")


def _create_database(database: Path, client: Callable[[str], object]) -> None:
    """Create the tables in a temporary folder, and move the database once it is complete.

    MLflow creates them in some sixty migrations; a database whose creation was interrupted can
    never be opened again. Each attempt has a folder of its own, because MLflow keeps its connection
    to a file of the same name, even to one that was deleted.
    """
    prefix = f".{database.name}.unfinished-"
    try:
        database.parent.mkdir(parents=True, exist_ok=True)
        for left in database.parent.glob(f"{glob.escape(prefix)}*"):  # left by a killed process
            shutil.rmtree(left)
        with tempfile.TemporaryDirectory(prefix=prefix, dir=database.parent) as folder:
            client(f"sqlite:///{folder}/{database.name}")
            Path(folder, database.name).replace(database)
    except Exception as error:  # from MLflow, alembic, SQLAlchemy or the disk
        said = re.sub(rf"/?{re.escape(prefix)}\w+", "", str(error).strip().partition("\n")[0])
        raise OSError(f"its tables cannot be created: {said}") from error
