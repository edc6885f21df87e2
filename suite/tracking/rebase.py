"""Points the store of an output folder that was moved or copied to the artifacts in that folder.

MLflow keeps the absolute path of every run's artifacts. In a copy these are the original's: what is
recorded for the copy would be written there, and break both.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing, suppress
from pathlib import Path

from suite.tracking.location import Store, is_own, sqlite_path

_EXPERIMENTS = (
    "SELECT name, creation_time, artifact_location FROM experiments JOIN experiment_tags "
    "USING (experiment_id) WHERE key = 'bakeoff.ablation'"
)
# Where MLflow keeps such paths; we write the first two, and people may add the others.
_COLUMNS = (
    ("experiments", "artifact_location"), ("runs", "artifact_uri"),
    ("logged_models", "artifact_location"), ("trace_tags", "value"),
    ("model_versions", "source"), ("model_versions", "storage_location"),
)  # fmt: skip
_SECONDS_TO_WAIT = 1.0  # for whoever writes to the file now


def rebased(store: Store) -> str:
    """Replace the paths of another folder by this one's, in one transaction.

    Only in the file `mlflow.db` of the output folder itself: a store that was named by its address
    may be shared, and stays as it is. So does an experiment that another folder made here.

    Returns:
        One sentence to show; empty where there was nothing to replace.

    Raises:
        sqlite3.Error: if the file cannot be read or written, or is no store.
    """
    database, artifacts = sqlite_path(store.uri), store.artifacts
    if database is None or artifacts is None or not database.is_file():
        return ""
    if not is_own(store, artifacts.parent):
        return ""
    with closing(sqlite3.connect(database, timeout=_SECONDS_TO_WAIT)) as db:
        moved = _moved(db, artifacts)
        with db:
            for old, new in moved.items():
                _replace(db, str(old), str(new))
    if not moved:
        return ""
    before = ", ".join(sorted({str(old.parent.parent) for old in moved}))
    return (
        f"--out {artifacts.parent} was moved or copied from {before}; its MLflow store now uses "
        "the artifacts in this folder"
    )


def try_rebase(store: Store) -> str:
    """As `rebased`; where that is not possible now, nothing: the writer says why, and waits."""
    with suppress(sqlite3.Error):
        return rebased(store)
    return ""


def _moved(db: sqlite3.Connection, artifacts: Path) -> dict[Path, Path]:
    """Where experiments keep their artifacts outside of this folder -> where they belong."""
    if not db.execute("SELECT 1 FROM sqlite_master WHERE name = 'experiment_tags'").fetchone():
        return {}
    found = {}
    for name, created, location in db.execute(_EXPERIMENTS).fetchall():
        old = Path(location)
        new = artifacts / old.name
        if not old.is_absolute() or old.is_relative_to(artifacts):  # an address is not absolute
            continue
        if new.is_dir() or not old.is_dir() or _has_same(old.parent.parent, name, created):
            found[old] = new
    return found


def _has_same(out: Path, name: str, created: int) -> bool:
    """Whether the store of that folder has this very experiment: then ours is a copy of it."""
    file = out / "mlflow.db"
    if not file.is_file():
        return False
    query = "SELECT 1 FROM experiments WHERE (name, creation_time) = (?, ?)"
    with (
        suppress(sqlite3.Error),
        closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True)) as db,
    ):
        return db.execute(query, (name, created)).fetchone() is not None
    return False


def _replace(db: sqlite3.Connection, old: str, new: str) -> None:
    """The path itself, and what lies below it."""
    for table, column in _COLUMNS:
        names = {row[1] for row in db.execute(f"PRAGMA table_info({table})")}
        if column in names:  # other versions of MLflow have other tables
            db.execute(
                f"UPDATE {table} SET {column} = ? || substr({column}, ?) "
                f"WHERE {column} = ? OR substr({column}, 1, ?) = ?",
                (new, len(old) + 1, old, len(old) + 1, f"{old}/"),
            )
