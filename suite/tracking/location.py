"""Find the MLflow store of an output folder, check its address, and repair it after a move."""

from __future__ import annotations

import importlib.util
import os
import re
import sqlite3
import tempfile
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit

from bakeoff.suite.errors import RefusedError, UnavailableError, UsageError
from bakeoff.suite.spec import SpecError
from bakeoff.suite.text import command, redact

# MLflow and SQLAlchemy decode the path of a file as if it were an address.
_UNFIT = re.compile(r"\?|%[0-9a-fA-F]{2}")
_SERVERS = ("http", "https")
_DATABASES = ("postgresql", "mysql", "mssql")
_ALLOWED = "sqlite:///PATH, http://HOST:PORT, https://HOST or postgresql://HOST/NAME"
_EXPERIMENTS = (
    "SELECT experiment_id, creation_time, artifact_location FROM experiments JOIN experiment_tags "
    "USING (experiment_id) WHERE key = 'bakeoff.ablation'"
)
# The columns in which MLflow stores such paths; we write the first two, users may add the others.
_COLUMNS = (
    ("experiments", "artifact_location"),
    ("runs", "artifact_uri"),
    ("logged_models", "artifact_location"),
    ("trace_tags", "value"),
    ("model_versions", "source"),
    ("model_versions", "storage_location"),
)
_SECONDS_TO_WAIT = 1.0  # for a process that is writing to the file


class BadUri(UsageError):
    """Raised if the address is not valid: exit 2."""


class UnusableFile(UnavailableError):
    """Raised if the path can never hold a store in its present state: exit 4."""


class RefusedUri(RefusedError):
    """Raised if the address is refused for safety: exit 3."""


@dataclass(frozen=True, kw_only=True)
class Store:
    """The location of an MLflow store.

    Attributes:
        uri: Its address.
        artifacts: Folder for the artifacts of a local store, or None for a server, which has its
            own.
        out: The output folder, whose journal identifies its own experiments.
    """

    uri: str
    artifacts: Path | None
    out: Path | None = field(default=None, compare=False)

    @property
    def may_exist(self) -> bool:
        """True if the store may have content; a query to a missing file would create it."""
        file = sqlite_path(self.uri)
        return file is None or file.is_file()


def store_of(out: Path, tracking_uri: str | None) -> Store:
    """Return the store at the address; by default an SQLite file in the output folder.

    Raises:
        BadUri, RefusedUri: In the cases of `check_tracking_uri`.
        SpecError: If a local store cannot keep artifacts in a folder of that name.
    """
    out = out.resolve()
    if tracking_uri is not None:
        uri = check_tracking_uri(tracking_uri)
        if not uri.startswith("sqlite:"):
            return Store(uri=uri, artifacts=None, out=out)
    if _UNFIT.search(str(out)) or not str(out).isprintable():
        raise SpecError(
            f"--out {str(out)!r}: MLflow reads '?', and '%' before two hexadecimal digits, in the "
            "path of a folder as parts of an address, and does not accept line breaks; rename the "
            "folder."
        )
    uri = f"sqlite:///{out / 'mlflow.db'}" if tracking_uri is None else uri
    return Store(uri=uri, artifacts=out / "artifacts", out=out)


def refuse_unusable(store: Store) -> None:
    """Raise if the file can never be a store; send no request to a server.

    A file that is locked is accepted, because it is written to later.

    Raises:
        UnusableFile: If the path is a folder, belongs to another program, or cannot be written.
    """
    file = sqlite_path(store.uri)
    if file is None or not mlflow_is_installed():
        return
    problem = ""
    try:
        if file.is_dir():
            problem = "this is a folder"
        elif file.is_file() and file.stat().st_size:
            problem = _fault_of_database(file)
        elif (
            store.out is None or file.parent != store.out
        ):  # the output folder has a lock of its own
            file.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=file.parent):
                pass
    except (FileExistsError, NotADirectoryError):
        problem = "a parent of this path is a file"
    except OSError as error:
        problem = f"it cannot be written: {error.strerror}"
    except sqlite3.Error as error:
        problem = "" if "locked" in str(error) else f"it cannot be used: {error}"
    if problem:
        raise UnusableFile(
            f"The MLflow store {file}: {problem}; give another --out or --tracking-uri."
        )


def _fault_of_database(file: Path) -> str:
    """Return why the non-empty file is not a store; raise sqlite3.Error if it is not writable."""
    with closing(sqlite3.connect(file, timeout=_SECONDS_TO_WAIT, isolation_level=None)) as db:
        names = {name for (name,) in db.execute("SELECT name FROM sqlite_master")}
        if names and not {"experiments", "runs"} <= names:
            return "it is the database of another program"
        (version,) = db.execute("PRAGMA user_version").fetchone()
        db.execute("BEGIN IMMEDIATE")
        db.execute(f"PRAGMA user_version = {version}")  # only here SQLite detects a read-only file
        db.execute("ROLLBACK")
    return ""


def existing_store_of(out: Path, tracking_uri: str | None) -> Store:
    """Return the store as `store_of` does, for reading.

    Raises:
        SpecError: If the store is a file that does not exist yet.
    """
    store = store_of(out, tracking_uri)
    file = sqlite_path(store.uri)
    if file is not None and not file.is_file():
        raise SpecError(
            f"--out {out}: nothing is recorded here yet; run `{command('run', 'NAME', out=out)}`."
        )
    return store


def is_own(store: Store, out: Path) -> bool:
    """Return True if this is the folder's own file, which no other folder writes to."""
    return store == store_of(out, None)


def mlflow_is_installed() -> bool:
    """Return True if mlflow is installed, without which no store can be used."""
    return importlib.util.find_spec("mlflow") is not None


def check_tracking_uri(uri: str) -> str:
    """Return the address if it is valid and allowed.

    Raises:
        BadUri: If it is not the address of a store.
        RefusedUri: If it is a plain folder (``file:``), or leaves one (``..``).
    """
    shown = redact(uri)
    scheme = uri.partition(":")[0].lower()
    is_file = scheme == "sqlite"  # a path may contain spaces
    if not uri or not uri.isprintable() or (" " in uri and not is_file):
        raise BadUri(f"--tracking-uri {shown!r} is empty or contains spaces; allowed: {_ALLOWED}.")
    if scheme == "file":
        raise RefusedUri(
            f"--tracking-uri {shown}: stores of plain files are refused; allowed: {_ALLOWED}."
        )
    if scheme == "sqlite":
        return _checked_sqlite(uri, shown)
    if scheme not in _SERVERS and scheme.partition("+")[0] not in _DATABASES:
        raise BadUri(
            f"--tracking-uri {shown!r} is not the address of a store; allowed: {_ALLOWED}."
        )
    parts = _split(uri)
    if parts is None or not parts.hostname:
        raise BadUri(f"--tracking-uri {shown!r} has no valid host and port; allowed: {_ALLOWED}.")
    return uri.rstrip("/")


def sqlite_path(uri: str) -> Path | None:
    """Return the file of a ``sqlite:///`` address, or None for a server."""
    prefix = "sqlite:///"
    return Path(uri.removeprefix(prefix)) if uri.startswith(prefix) else None


def secrets_of(uri: str) -> tuple[str, ...]:
    """Return the password in a URI, as written and decoded; empty if there is none."""
    parts = _split(uri)
    password = parts.password if parts else None
    return (password, unquote(password)) if password else ()


def _checked_sqlite(uri: str, shown: str) -> str:
    path = unquote(uri.removeprefix("sqlite:///"))
    is_too_long = any(len(os.fsencode(part)) > 255 for part in path.split("/"))
    is_no_file = path in ("", ":memory:") or path.endswith("/") or "\0" in path or is_too_long
    if not uri.startswith("sqlite:///") or is_no_file:
        raise BadUri(f"--tracking-uri {shown!r} names no file; allowed: sqlite:///PATH.")
    is_odd = _UNFIT.search(uri) or path.startswith("file:")
    if ".." in re.split(r"[/\\]", path) or is_odd:
        raise RefusedUri(
            f"--tracking-uri {shown}: a path with '..', options or '%' before two hexadecimal "
            "digits is refused; give the plain path of the file."
        )
    return uri


def _split(uri: str) -> SplitResult | None:
    """Return the parsed address, or None if the host or the port (0 to 65535) is invalid."""
    try:
        parts = urlsplit(uri)
        _ = parts.port
    except ValueError:
        return None
    return parts


def rebased(store: Store) -> str:
    """Point the store of a moved or copied folder to the artifacts in that folder.

    MLflow stores the absolute path of every run's artifacts. In a copy these are the original's:
    new records of the copy would be written there, and break both. All paths are replaced in one
    transaction.

    This only applies to the file `mlflow.db` of the output folder itself: a store that is given by
    its address may be shared, and is not changed. Neither is an experiment that another folder made
    here.

    Returns:
        One sentence to show; empty if nothing was replaced.

    Raises:
        sqlite3.Error: If the file cannot be read or written, or is not a store.
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
    """Call `rebased`; return an empty text if it fails: the writer then reports it, and waits."""
    with suppress(sqlite3.Error):
        return rebased(store)
    return ""


def _moved(db: sqlite3.Connection, artifacts: Path) -> dict[Path, Path]:
    """Return old -> new folder of experiments whose artifacts lie outside of this folder."""
    if not db.execute("SELECT 1 FROM sqlite_master WHERE name = 'experiment_tags'").fetchone():
        return {}
    found = {}
    for number, created, location in db.execute(_EXPERIMENTS).fetchall():
        old = Path(location)
        new = artifacts / old.name
        if not old.is_absolute() or old.is_relative_to(artifacts):  # an address is not absolute
            continue
        if new.is_dir() or not old.is_dir() or _has_same(old.parent.parent, number, created):
            found[old] = new
    return found


def _has_same(out: Path, number: int, created: int) -> bool:
    """Return True if the store of that folder has the same experiment, of which ours is a copy."""
    file = out / "mlflow.db"
    if not file.is_file():
        return False
    query = "SELECT 1 FROM experiments WHERE (experiment_id, creation_time) = (?, ?)"
    with (
        suppress(sqlite3.Error),
        closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True)) as db,
    ):
        return db.execute(query, (number, created)).fetchone() is not None
    return False


def _replace(db: sqlite3.Connection, old: str, new: str) -> None:
    """Replace the path, and all paths below it."""
    for table, column in _COLUMNS:
        names = {row[1] for row in db.execute(f"PRAGMA table_info({table})")}
        if column in names:  # other versions of MLflow have other tables
            db.execute(
                f"UPDATE {table} SET {column} = ? || substr({column}, ?) "
                f"WHERE {column} = ? OR substr({column}, 1, ?) = ?",
                (new, len(old) + 1, old, len(old) + 1, f"{old}/"),
            )
