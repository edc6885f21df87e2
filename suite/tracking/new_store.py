"""The recorder of a store, whose tables are made first where there are none: all of them or none.

MLflow makes its tables in some sixty migrations. A process that is killed in the middle of them
would leave a database that no MLflow opens any more; so they are made in a file beside it, which
takes its name when it is complete.
"""

from __future__ import annotations

from pathlib import Path

from suite.tracking.client import plainly
from suite.tracking.location import Store
from suite.tracking.run_writer import RunWriter
from suite.tracking.uri import sqlite_path


def open_writer(store: Store) -> RunWriter:
    """The one writer to the store.

    Raises:
        StoreUnavailable: if it cannot be reached, or cannot be made.
    """
    database = sqlite_path(store.uri)
    if database is not None:
        with plainly(store.uri, (OSError,)):
            if not database.exists() or not database.stat().st_size:
                _make(database)
    return RunWriter(store.uri, store.artifacts)


def _make(database: Path) -> None:
    aside = database.with_name(f"{database.name}.new")
    for left_behind in (aside, aside.with_name(f"{aside.name}-journal")):
        left_behind.unlink(missing_ok=True)
    RunWriter(f"sqlite:///{aside}", None)
    aside.replace(database)
