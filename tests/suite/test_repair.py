"""Whatever is lost, doubled or altered is found by `verify`, and mended once by `--repair`."""

from __future__ import annotations

import gzip
import json
import shutil
import sqlite3
import uuid
from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from mlflow.tracking._tracking_service import utils
from rich.console import Console
from typer.testing import CliRunner

from suite.cli import app
from suite.exit_codes import DONE, FAILED
from suite.journal.journal import Journal, JournalError
from suite.mlflow_store import StoreUnavailable
from suite.recorder import Recorder
from suite.repair import repaired
from suite.spec import SpecError
from suite.sweep.driver import Options, record_journal, run_plans
from suite.sweep.folder_lock import FolderUnavailable, held
from suite.verify import differences
from tests.suite.finished_sweep import FinishedSweep

SWEEP = FinishedSweep("heads_small")


@dataclass(frozen=True)
class Folder:
    """An output folder."""

    out: Path
    number: int = 0  # of the child that a fault is planted in

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
        """All of the database, and every other file with the time at which it was written."""
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
    """A journal with all results: what a driver leaves whose store was away."""
    with Journal(out / "journal.db") as journal:
        planned = journal.keep_plan(SWEEP.plan)
        for result in SWEEP.results:
            journal.commit(result, journal.begin(result.trial_id, "here"))
        assert len(planned.trials) == 9


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("whole")
    kept(out)
    made = repaired(out, None)
    assert made.differences == ()
    assert len(made.mended) == 1
    assert "there is no store" in made.mended[0]
    return out


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> Folder:
    """A copy, whose store knows where it stands now, as mlflow, which remembers, does not."""
    utils._artifact_repos_cache.clear()
    copy = Folder(Path(shutil.copytree(whole, tmp_path / "out")))
    move = f"replace(%s, '{whole}', '{copy.out}')"
    copy.store(
        f"UPDATE runs SET artifact_uri = {move % 'artifact_uri'}",
        f"UPDATE experiments SET artifact_location = {move % 'artifact_location'}",
    )
    return copy


CHILD = """(SELECT run_uuid FROM runs NATURAL JOIN tags WHERE key = 'bakeoff.role' AND
            value = 'trial' AND lifecycle_stage = 'active' ORDER BY run_uuid LIMIT 1)"""
PARENT = """(SELECT run_uuid FROM runs NATURAL JOIN tags WHERE key = 'bakeoff.role' AND
             value = 'sweep' AND lifecycle_stage = 'active')"""
CURVE = "validation_bits_per_character"


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


def _alter_row(folder: Folder) -> None:
    with closing(sqlite3.connect(folder.out / "journal.db")) as db:
        key, body = db.execute("SELECT trial_id, result FROM results LIMIT 1").fetchone()
        result = json.loads(body)
        result["measurements"][0]["value"] += 1e-12
        db.execute("UPDATE results SET result = ? WHERE trial_id = ?", (json.dumps(result), key))
        db.commit()


PLANTED: dict[str, tuple[Callable[[Folder], object], str]] = {
    "a run deleted": (
        lambda f: f.store(f"UPDATE runs SET lifecycle_stage = 'deleted' WHERE run_uuid = {CHILD}"),
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
        "shows the metric bits_per_character as ",
    ),
    "a metric lost": (
        lambda f: f.store(
            f"DELETE FROM latest_metrics WHERE key = 'trial_seconds' AND run_uuid = {CHILD}"
        ),
        "shows no metric trial_seconds",
    ),
    "a metric too many": (
        lambda f: f.store(
            "INSERT INTO latest_metrics SELECT 'other', value, timestamp, step, is_nan, run_uuid "
            f"FROM latest_metrics WHERE key = 'trial_seconds' AND run_uuid = {CHILD}"
        ),
        "shows the metric other, which its result does not have",
    ),
    "a point of a curve lost": (
        lambda f: f.store(
            f"DELETE FROM metrics WHERE key = '{CURVE}' AND step = 20 AND run_uuid = {CHILD}"
        ),
        f"shows another curve of {CURVE}",
    ),
    "a param changed": (
        lambda f: f.store(
            f"UPDATE params SET value = '7' WHERE key = 'mixer.heads' AND run_uuid = {CHILD}"
        ),
        "shows the parameter mixer.heads as '7', not '",
    ),
    "a param lost": (
        lambda f: f.store(f"DELETE FROM params WHERE key = 'seed' AND run_uuid = {CHILD}"),
        "shows no parameter seed",
    ),
    "a tag changed": (
        lambda f: f.store(
            "UPDATE tags SET value = 'error' WHERE key = 'bakeoff.status' AND "
            f"run_uuid = {CHILD}"
        ),
        "shows the tag bakeoff.status as 'error', not 'ok'",
    ),
    "another result": (
        lambda f: f.store(
            "UPDATE tags SET value = 'beef' WHERE key = 'bakeoff.result_sha256' AND "
            f"run_uuid = {CHILD}"
        ),
        "differs between journal and store",
    ),
    "a run doubled": (lambda f: f.store(*_doubled(CHILD)), "is in the store 2 times"),
    "the parent doubled": (
        lambda f: f.store(*_doubled(PARENT)), "the parent is in the store 2 times",
    ),
    "the parent deleted": (
        lambda f: f.store(f"UPDATE runs SET lifecycle_stage = 'deleted' WHERE run_uuid = {PARENT}"),
        "the parent in the store has no results.parquet",
    ),
    "results truncated": (_truncate("results.parquet"), "results.parquet in the store is not"),
    "curves truncated": (_truncate("curves.parquet"), "curves.parquet in the store is not"),
    "lines truncated": (_truncate("journal.jsonl.gz"), "journal.jsonl.gz in the store is not"),
    "a file deleted": (
        lambda f: f.artifact("journal.jsonl.gz").unlink(), "has no journal.jsonl.gz",
    ),
    "a file cut off while it was sent": (
        lambda f: f.store(
            "UPDATE tags SET value = value || ' none' WHERE key = 'bakeoff.sha256.curves.parquet'"
        ),
        "curves.parquet in the store is not",
    ),
    "all artifacts deleted": (
        lambda f: shutil.rmtree(f.out / "artifacts"), "has no results.parquet",
    ),
    "a report altered": (
        lambda f: (f.out / "reports" / SWEEP.name / "report.md").write_text("All is well."),
        "report.md is not what the store gives",
    ),
    "a report deleted": (
        lambda f: shutil.rmtree(f.out / "reports"), "there is no report",
    ),
    "a report altered in the store": (
        lambda f: f.artifact("report/report.md").write_text("All is well."),
        "report/report.md in the store is not the file",
    ),
    "a row of the journal lost": (
        lambda f: f.journal(
            "DELETE FROM results WHERE trial_id = (SELECT trial_id FROM results LIMIT 1)"
        ),
        "is in the store, not in the journal",
    ),
    "a row of the journal altered": (_alter_row, "is not what was written, by its SHA-256"),
    "a row of the journal garbled": (
        lambda f: f.journal("UPDATE results SET result = '{\"trial'"),
        "is not what was written, by its SHA-256",
    ),
    "a status of the journal altered": (
        lambda f: f.journal("UPDATE results SET status = 'error'"),
        "is not what was written, by its SHA-256",
    ),
    "the journal's plan lost": (
        lambda f: f.journal("DELETE FROM sweeps"), "the sweep is in the store, not in the journal",
    ),
    "the journal deleted": (
        lambda f: (f.out / "journal.db").unlink(), "there is no journal at",
    ),
    "the store deleted": (lambda f: f.database.unlink(), "there is no store at"),
}  # fmt: skip


FAST = ("the journal deleted", "the store deleted", "a row of the journal altered")
OF_CHILDREN = [fault for fault, (_, words) in PLANTED.items() if "shows" in words]


def test_many_faults_at_once_are_told_apart_and_mended(folder: Folder) -> None:
    """One child each; the slow tests plant every fault alone."""
    for number, fault in enumerate(OF_CHILDREN):
        PLANTED[fault][0](Folder(folder.out, number))
    for fault in ("results truncated", "a report altered in the store"):
        PLANTED[fault][0](folder)
    found = differences(folder.out, None).differences
    for fault in (*OF_CHILDREN, "results truncated", "a report altered in the store"):
        assert sum(PLANTED[fault][1] in line for line in found) == 1, fault
    assert repaired(folder.out, None).differences == ()
    before = folder.state()
    again = repaired(folder.out, None)
    assert (again.differences, again.mended) == ((), ())
    assert folder.state() == before


def test_a_run_refuses_a_row_that_was_altered_and_spoils_nothing(folder: Folder) -> None:
    _alter_row(folder)
    before = folder.state()
    options = Options(out=folder.out, executor="inline")
    with pytest.raises(JournalError, match=r"`bakeoff verify --repair` brings it back"):
        run_plans([SWEEP.plan], options, Console(quiet=True))
    with pytest.raises(JournalError, match=r"`bakeoff verify --repair` brings it back"):
        record_journal(folder.out / "journal.db", replace(options, out=folder.out / "other"))
    assert folder.state() == before
    assert repaired(folder.out, None).differences == ()


@pytest.mark.parametrize(
    "fault",
    [pytest.param(f, marks=() if f in FAST else pytest.mark.slow, id=f) for f in PLANTED],
)
def test_every_fault_is_found_and_mended_and_mended_once(folder: Folder, fault: str) -> None:
    plant, words = PLANTED[fault]
    plant(folder)
    found = differences(folder.out, None)
    assert any(words in line for line in found.differences), found.differences
    made = repaired(folder.out, None)
    assert made.differences == ()
    assert any(words in line for line in made.mended)
    assert made.summary == f"9 trials of {SWEEP.name}: journal, store and reports agree"
    before = folder.state()
    again = repaired(folder.out, None)
    assert (again.differences, again.mended) == ((), ())
    assert folder.state() == before
    with Journal(folder.out / "journal.db", read_only=True) as journal:
        found_again = {result.sha256 for result in journal.results(journal.done())}
    assert found_again == {result.sha256 for result in SWEEP.results}


def test_nothing_is_repaired_where_nothing_is_wrong(folder: Folder) -> None:
    before = folder.state()
    made = repaired(folder.out, None)
    assert (made.differences, made.mended) == ((), ())
    assert folder.state() == before


def test_what_the_journal_cannot_know_is_told_and_never_deleted(folder: Folder) -> None:
    folder.store(
        f"UPDATE tags SET value = 'feed' WHERE key = 'bakeoff.trial_id' AND run_uuid = {CHILD}"
    )
    made = repaired(folder.out, None)
    assert len(made.differences) == 1
    assert "trial feed is in the store, not in the journal" in made.differences[0]
    assert len(made.mended) == 1
    before = folder.state()
    again = repaired(folder.out, None)
    assert (again.differences, again.mended) == (made.differences, ())
    assert folder.state() == before


def test_a_damaged_row_that_the_store_has_not_either_is_told_and_spreads_no_further(
    folder: Folder,
) -> None:
    _alter_row(folder)
    folder.artifact("journal.jsonl.gz").unlink()
    before = folder.state()
    made = repaired(folder.out, None)
    assert len(made.differences) == 1
    assert "in the journal is not what was written" in made.differences[0]
    assert folder.state() == before


def test_a_contradiction_is_told_and_cannot_be_repaired(folder: Folder) -> None:
    folder.journal(
        "INSERT INTO ends SELECT trial_id, environment_id, 3, status, seconds, num_cpus, num_gpus,"
        " ended_seconds, reason, 0, 'another' FROM ends LIMIT 1"
    )
    made = repaired(folder.out, None)
    (line,) = made.differences
    assert line.startswith(f"{SWEEP.name}, quick: trial ")
    assert line.endswith("gave different numbers in attempts 1 and 3 of the same environment.")


class Killed(BaseException):
    """The process dies here."""


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["a metric changed", "results truncated", "a run doubled"])
def test_a_repair_that_is_killed_anywhere_is_done_by_the_next(
    folder: Folder, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between any two of the writes to the store."""
    plant, _ = PLANTED[fault]
    steps = ("open_sweep", "delete_trials", "unpublish", "finish_trial", "publish", "close_sweep")
    for step in steps:
        with monkeypatch.context() as patch:
            plant(folder)
            patch.setattr(Recorder, step, _dying)
            with suppress(Killed, StoreUnavailable):  # the writer's thread dies alone
                repaired(folder.out, None)
        assert repaired(folder.out, None).differences == (), step


def _dying(*_: object, **__: object) -> None:
    raise Killed


def test_exit_codes(folder: Folder) -> None:
    shutil.rmtree(folder.out / "reports")
    call = ["verify", "--out", str(folder.out)]
    before = CliRunner().invoke(app, call)
    mended = CliRunner().invoke(app, [*call, "--repair"])
    after = CliRunner().invoke(app, call)
    assert (before.exit_code, mended.exit_code, after.exit_code) == (FAILED, DONE, DONE)
    assert mended.stdout.splitlines()[0].startswith(f"repaired: {SWEEP.name}: there is no report")


def test_a_folder_that_is_held_is_left_alone(folder: Folder) -> None:
    with held(folder.out), pytest.raises(FolderUnavailable, match="another run works here"):
        repaired(folder.out, None)


def test_an_empty_folder_stays_empty(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="nothing was run here yet"):
        repaired(tmp_path, None)
    with pytest.raises(SpecError, match="nothing was run here yet"):
        repaired(tmp_path / "nowhere", None)
    assert list(tmp_path.iterdir()) == []


def test_a_journal_that_is_none_is_refused_and_left(folder: Folder) -> None:
    (folder.out / "journal.db").write_bytes(b"no database at all" * 100)
    with pytest.raises(JournalError):
        repaired(folder.out, None)
    assert (folder.out / "journal.db").read_bytes().startswith(b"no database")


def test_the_lines_in_the_store_are_the_same_bytes_for_the_same_journal(folder: Folder) -> None:
    body = folder.artifact("journal.jsonl.gz").read_bytes()
    folder.database.unlink()
    shutil.rmtree(folder.out / "artifacts")
    assert repaired(folder.out, None).differences == ()
    assert folder.artifact("journal.jsonl.gz").read_bytes() == body
    head, *lines = gzip.decompress(body).splitlines()
    assert set(json.loads(head)) == {"plan", "statements"}
    assert len(lines) == 9
