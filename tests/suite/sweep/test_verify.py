"""`verify` says that the books agree where they do, and names each difference where they do not."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
import torch

from suite.schema import Result
from suite.spec import SpecError
from suite.sweep.driver import Options, run
from suite.sweep.verify import differences
from tests.workplace import Workplace


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An output folder with a sweep that is done; every test plants its fault in a copy."""
    torch.set_num_threads(1)
    work = Workplace(tmp_path_factory.mktemp("finished"))
    run(work.ablation(probes=["quality"]), options=Options(out=work.out, executor="inline"))
    # Out of the way: a copy must find its artifacts beside it, not where they were made.
    return work.out.rename(work.path / "moved")


@pytest.fixture
def out(finished: Path, tmp_path: Path) -> Path:
    """A copy."""
    return Path(shutil.copytree(finished, tmp_path / "out"))


def change(database: Path, *queries: str) -> None:
    with closing(sqlite3.connect(database)) as db:
        for query in queries:
            assert db.execute(query).rowcount != 0, query
        db.commit()


CHILD = """(SELECT run_uuid FROM tags WHERE key = 'bakeoff.role' AND value = 'trial'
            ORDER BY run_uuid LIMIT 1)"""


def delete_child(out: Path) -> None:
    change(
        out / "mlflow.db", f"UPDATE runs SET lifecycle_stage = 'deleted' WHERE run_uuid = {CHILD}"
    )


def double_child(out: Path) -> None:
    columns = "name, source_type, source_name, entry_point_name, user_id, status, start_time, "
    columns += "end_time, source_version, lifecycle_stage, artifact_uri, experiment_id"
    change(
        out / "mlflow.db",
        f"INSERT INTO runs (run_uuid, {columns}) "
        f"SELECT 'doubled', {columns} FROM runs WHERE run_uuid = {CHILD}",
        f"INSERT INTO tags (key, value, run_uuid) "
        f"SELECT key, value, 'doubled' FROM tags WHERE run_uuid = {CHILD}",
    )


def foreign_child(out: Path) -> None:
    change(
        out / "mlflow.db",
        f"UPDATE tags SET value = 'feed' WHERE key = 'bakeoff.trial_id' AND run_uuid = {CHILD}",
    )


def alter_child(out: Path) -> None:
    change(
        out / "mlflow.db",
        "UPDATE tags SET value = 'beef' WHERE key = 'bakeoff.result_sha256' "
        f"AND run_uuid = {CHILD}",
    )


def unfinish_child(out: Path) -> None:
    change(out / "mlflow.db", f"UPDATE runs SET status = 'RUNNING' WHERE run_uuid = {CHILD}")


def alter_journal(out: Path) -> None:
    with closing(sqlite3.connect(out / "journal.db")) as db:
        key, body = db.execute("SELECT trial_id, result FROM results LIMIT 1").fetchone()
        result = json.loads(body)
        result["measurements"][0]["value"] += 1e-12
        db.execute("UPDATE results SET result = ? WHERE trial_id = ?", (json.dumps(result), key))
        db.commit()


def drop_from_journal(out: Path) -> None:
    change(
        out / "journal.db",
        "DELETE FROM results WHERE trial_id = (SELECT trial_id FROM results LIMIT 1)",
    )


def alter_csv(out: Path) -> None:
    file = out / "reports" / "small" / "results.csv"
    file.write_text(file.read_text().replace("accuracy", "accurate", 1))


def drop_report(out: Path) -> None:
    shutil.rmtree(out / "reports" / "small")


PLANTED: dict[Callable[[Path], None], list[str]] = {
    delete_child: ["is in the journal, not in the store"],
    double_child: ["is in the store 2 times"],
    foreign_child: ["is in the journal, not in the store", "feed is in the store, not in the"],
    alter_child: ["differs between journal and store"],
    unfinish_child: ["is in the journal, not in the store"],
    alter_journal: ["in the journal is not what was written, by its SHA-256"],
    drop_from_journal: [
        "is in the store, not in the journal", "results.parquet of the store is not",
        "curves.parquet of the store is not", "journal.jsonl.gz of the store is not",
    ],
    alter_csv: ["small: results.csv is not what the store gives"],
    drop_report: ["small: there is no report"],
}  # fmt: skip


def test_what_agrees_is_said_to_agree(out: Path) -> None:
    found = differences(out, None)
    assert found.differences == ()
    assert found.summary == "4 trials of small: journal, store and reports agree"


@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_every_planted_difference_is_named_and_nothing_else(
    out: Path, plant: Callable[[Path], None]
) -> None:
    plant(out)
    found = differences(out, None)
    wanted = PLANTED[plant]
    assert len(found.differences) == len(wanted), found.differences
    for line, words in zip(found.differences, wanted, strict=True):
        assert words in line
        assert line.startswith("small")
    assert found.summary.endswith(f"{len(wanted)} differences")


def test_an_artifact_that_is_gone_or_altered_is_told(out: Path) -> None:
    for name in ("results.parquet", "curves.parquet"):
        (file,) = (out / "artifacts").rglob(f"artifacts/{name}")
        file.write_bytes(file.read_bytes()[:-1])
    next((out / "artifacts").rglob("journal.jsonl.gz")).unlink()
    assert differences(out, None).differences == (
        "small, quick: results.parquet in the store is not the file that was published, by its "
        "SHA-256.",
        "small, quick: curves.parquet in the store is not the file that was published, by its "
        "SHA-256.",
        "small, quick: the parent in the store has no journal.jsonl.gz.",
    )


def test_an_empty_folder_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="nothing was run here yet"):
        differences(tmp_path, None)
    assert list(tmp_path.iterdir()) == []


def test_a_result_keeps_its_hash_through_the_journal(out: Path) -> None:
    """What `verify` rests on: the hash of a result that was read is that of the one written."""
    from suite.journal.journal import Journal

    with Journal(out / "journal.db", read_only=True) as journal:
        entries = {entry.trial_id: entry.sha256 for entry in journal.entries()}
        results: list[Result] = list(journal.results(entries))
    assert {result.trial_id: result.sha256 for result in results} == entries
    assert len(entries) == 4
