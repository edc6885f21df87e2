"""Faults to plant into the journal, the store and the reports of a finished sweep."""

from __future__ import annotations

import json
import shutil
import sqlite3
import uuid
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from bakeoff.suite.journal.journal import Journal
from tests.suite.finished_sweep import FinishedSweep

SWEEP = FinishedSweep("heads_small")


@dataclass(frozen=True)
class Folder:
    """An output folder."""

    out: Path
    number: int = 0  # the child in which a fault is planted

    @property
    def database(self) -> Path:
        return self.out / "mlflow.db"

    def store(self, *queries: str) -> None:
        self._change(
            self.database, [q.replace("LIMIT 1", f"LIMIT 1 OFFSET {self.number}") for q in queries]
        )

    def journal(self, *queries: str) -> None:
        self._change(self.out / "journal.db", queries)

    def artifact(self, name: str) -> Path:
        return next(
            path for path in (self.out / "artifacts").rglob(f"artifacts/{name}") if path.is_file()
        )

    def state(self) -> tuple[list[str], dict[str, tuple[bytes, int]]]:
        """Return a dump of the database, and the content and write time of every other file."""
        with closing(sqlite3.connect(self.database)) as db:
            rows = list(db.iterdump())
        shown = ("reports", "artifacts")
        files = {
            str(path): (path.read_bytes(), path.stat().st_mtime_ns)
            for folder in shown
            for path in sorted((self.out / folder).rglob("*"))
            if path.is_file()
        }
        return rows, files

    @staticmethod
    def _change(database: Path, queries: Iterable[str]) -> None:
        with closing(sqlite3.connect(database)) as db:
            for query in queries:
                assert db.execute(query).rowcount != 0, query
            db.commit()


def kept(out: Path) -> None:
    """Write a journal with all results, as a driver does while the store is unavailable."""
    with Journal(out / "journal.db") as journal:
        planned = journal.keep_plan(SWEEP.plan)
        for result in SWEEP.results:
            journal.commit(result, journal.begin(result.trial_id, "here"))
        assert len(planned.trials) == 9


CHILD = """(SELECT run_uuid FROM runs NATURAL JOIN tags WHERE key = 'bakeoff.role' AND
            value = 'trial' AND lifecycle_stage = 'active' ORDER BY run_uuid LIMIT 1)"""
PARENT = """(SELECT run_uuid FROM runs NATURAL JOIN tags WHERE key = 'bakeoff.role' AND
             value = 'sweep' AND lifecycle_stage = 'active')"""
DELETE = "UPDATE runs SET lifecycle_stage = 'deleted' WHERE run_uuid = CHILD"
VARIANT = CHILD.replace("'trial'", "'variant'")
CURVE = "validation_bits_per_character"
ALTERED = "in the store differs from the journal"


def _doubled(run: str) -> list[str]:
    columns = "name, source_type, source_name, entry_point_name, user_id, status, start_time, "
    columns += "end_time, source_version, lifecycle_stage, artifact_uri, experiment_id"
    new = f"'{uuid.uuid4().hex}'"
    return [
        f"INSERT INTO tags (key, value, run_uuid) SELECT key, value, {new} FROM tags "
        f"WHERE run_uuid = {run}",
        f"INSERT INTO runs (run_uuid, {columns}) SELECT {new}, {columns} FROM runs "
        f"WHERE run_uuid = {run}",
    ]


def _truncate(name: str) -> Callable[[Folder], None]:
    def truncate(folder: Folder) -> None:
        file = folder.artifact(name)
        file.write_bytes(file.read_bytes()[:-7])

    return truncate


def alter_row(folder: Folder) -> None:
    with closing(sqlite3.connect(folder.out / "journal.db")) as db:
        key, body = db.execute("SELECT trial_id, result FROM results LIMIT 1").fetchone()
        result = json.loads(body)
        result["measurements"][0]["value"] += 1e-12
        db.execute("UPDATE results SET result = ? WHERE trial_id = ?", (json.dumps(result), key))
        db.commit()


# By name: the function that plants the fault, and words of each line that `verify` prints.
PLANTED: dict[str, tuple[Callable[[Folder], object], *tuple[str, ...]]] = {
    "a run deleted": (
        lambda f: f.store(DELETE.replace("CHILD", CHILD)),
        "is in the journal, not in the store",
    ),
    "a run left open": (
        lambda f: f.store(f"UPDATE runs SET status = 'RUNNING' WHERE run_uuid = {CHILD}"),
        "is in the journal, not in the store",
    ),
    "a metric changed": (
        lambda f: f.store(
            "UPDATE latest_metrics SET value = value * (1 + 1e-15) WHERE "
            f"key = 'bits_per_character' AND run_uuid = {CHILD}"
        ),
        ALTERED,
    ),
    "a metric too many": (
        lambda f: f.store(
            "INSERT INTO latest_metrics SELECT 'other', value, timestamp, step, is_nan, run_uuid "
            f"FROM latest_metrics WHERE key = 'trial_seconds' AND run_uuid = {CHILD}"
        ),
        ALTERED,
    ),
    "a point of a curve lost": (
        lambda f: f.store(
            f"DELETE FROM metrics WHERE key = '{CURVE}' AND step = 20 AND run_uuid = {CHILD}"
        ),
        ALTERED,
    ),
    "a param changed": (
        lambda f: f.store(
            f"UPDATE params SET value = '7' WHERE key = 'mixer.heads' AND run_uuid = {CHILD}"
        ),
        ALTERED,
    ),
    "a tag changed": (
        lambda f: f.store(
            f"UPDATE tags SET value = 'error' WHERE key = 'bakeoff.status' AND run_uuid = {CHILD}"
        ),
        ALTERED,
    ),
    "another result": (
        lambda f: f.store(
            "UPDATE tags SET value = 'beef' WHERE key = 'bakeoff.result_sha256' AND "
            f"run_uuid = {CHILD}"
        ),
        ALTERED,
    ),
    "a run doubled": (lambda f: f.store(*_doubled(CHILD)), "is in the store 2 times"),
    "a variant's number changed": (
        lambda f: f.store(
            "UPDATE latest_metrics SET value = value + 0.1 WHERE key = 'bits_per_character_low' "
            f"AND run_uuid = {VARIANT}"
        ),
        ALTERED,
    ),
    "a variant deleted": (
        lambda f: f.store(DELETE.replace("CHILD", VARIANT)),
        "variant heads=",
    ),
    "a variant doubled": (lambda f: f.store(*_doubled(VARIANT)), "variant heads="),
    "the parent doubled": (
        lambda f: f.store(*_doubled(PARENT)),
        "the parent is in the store 2 times",
    ),
    "the parent deleted": (
        lambda f: f.store(DELETE.replace("CHILD", PARENT)),
        "the parent in the store has no results.parquet",
        "the parent in the store has no curves.parquet",
        "the parent in the store has no journal.jsonl.gz",
    ),
    "results truncated": (
        _truncate("results.parquet"),
        "results.parquet in the store differs from the published file: its SHA-256 differs",
    ),
    "curves truncated": (_truncate("curves.parquet"), "curves.parquet in the store differs from"),
    "lines truncated": (
        _truncate("journal.jsonl.gz"),
        "journal.jsonl.gz in the store differs from",
    ),
    "a file deleted": (
        lambda f: f.artifact("journal.jsonl.gz").unlink(),
        "has no journal.jsonl.gz",
    ),
    "a file cut off while it was sent": (
        lambda f: f.store(
            "UPDATE tags SET value = value || ' none' WHERE key = 'bakeoff.sha256.curves.parquet'"
        ),
        "curves.parquet in the store differs from",
    ),
    "all artifacts deleted": (
        lambda f: shutil.rmtree(f.out / "artifacts"),
        "has no results.parquet",
        "has no curves.parquet",
        "has no journal.jsonl.gz",
        "report/curves.parquet in the store differs from the published file",
    ),
    "a report altered": (
        lambda f: (f.out / "reports" / SWEEP.name / "report.md").write_text("All is well."),
        "report.md is not consistent with the store",
    ),
    "a report deleted": (
        lambda f: shutil.rmtree(f.out / "reports"),
        "there is no report",
    ),
    "a report altered in the store": (
        lambda f: f.artifact("report/report.md").write_text("All is well."),
        "report/report.md in the store differs from the published file",
    ),
    "a row of the journal lost": (
        lambda f: f.journal(
            "DELETE FROM results WHERE trial_id = (SELECT trial_id FROM results LIMIT 1)"
        ),
        "is in the store, not in the journal",
        "results.parquet of the store differs from the journal",
        "curves.parquet of the store differs from the journal",
        "journal.jsonl.gz of the store differs from the journal",
    ),
    "a row of the journal altered": (alter_row, "was altered: its SHA-256 differs"),
    "a row of the journal garbled": (
        lambda f: f.journal("UPDATE results SET result = '{\"trial'"),
        *(["was altered: its SHA-256 differs"] * 9),
    ),
    "a status of the journal altered": (
        lambda f: f.journal("UPDATE results SET status = 'error'"),
        *(["was altered: its SHA-256 differs"] * 9),
    ),
    "the journal's plan lost": (
        lambda f: f.journal("DELETE FROM sweeps"),
        "the sweep is in the store, not in the journal",
    ),
    "the journal deleted": (
        lambda f: (f.out / "journal.db").unlink(),
        "there is no journal at",
    ),
    "the store deleted": (lambda f: f.database.unlink(), "there is no store at"),
}
