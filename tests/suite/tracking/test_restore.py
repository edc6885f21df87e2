"""Tests for filling an empty journal from the store: same results, attempts, claims, hashes."""

from __future__ import annotations

import gzip
import shutil
import socket
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from mlflow.tracking._tracking_service import utils

from bakeoff.suite.journal.export import JOURNAL_FILE, ExportError, packed, parsed, unpacked
from bakeoff.suite.journal.journal import Journal
from bakeoff.suite.reporting.build import reports_of, sweeps_in
from bakeoff.suite.reporting.frames import by_trial, sweep_files
from bakeoff.suite.schema import Result, Status
from bakeoff.suite.sweep.mlflow_sync import MlflowSync
from bakeoff.suite.tracking import restore
from bakeoff.suite.tracking.client import StoreUnavailable
from bakeoff.suite.tracking.location import Store, store_of
from bakeoff.suite.tracking.restore import DamagedStore, rebuild, taken_over
from tests.suite.finished_sweep import FinishedSweep

SWEEP = FinishedSweep("heads_again")
KEYS = [SWEEP.plan.key]


def failure(result: Result, said: str) -> Result:
    return replace(
        result,
        status=Status.ERROR,
        measurements=(),
        points=(),
        samples=(),
        reason="It failed.",
        traceback=said,
    )


def filled(path: Path) -> None:
    """Write nine results, including a second attempt, a failure, an adopted one and a late one."""
    with Journal(path) as journal:
        journal.keep_plan(SWEEP.plan)
        first, second, third, *others = SWEEP.results
        journal.begin(first.trial_id, "a node that was lost")
        for result in (first, *others):
            journal.commit(result, journal.begin(result.trial_id, "here"))
        journal.commit(first, 1)  # a late result of the first attempt
        journal.commit(failure(second, "Traceback"), journal.begin(second.trial_id, "here"))
        journal.adopt(third)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, store_tables: Path) -> Path:
    from bakeoff.suite.tracking.write import RunWriter

    out = tmp_path_factory.mktemp("whole")
    shutil.copy(store_tables, out / "mlflow.db")
    filled(out / "journal.db")
    store = store_of(out, None)
    with Journal(out / "journal.db") as journal:
        outbox = MlflowSync(lambda: RunWriter(store), journal.plans(), journal.path)
        outbox.start()
        assert outbox.close()[1] == ""
    return out


@pytest.fixture
def out(whole: Path, tmp_path: Path) -> Path:
    """Return a copy with its own store and without a journal."""
    utils._artifact_repos_cache.clear()
    copy = tmp_path / "out"
    shutil.copytree(whole, copy, ignore=shutil.ignore_patterns("journal.db*"))
    with closing(sqlite3.connect(copy / "mlflow.db")) as db:
        db.execute(f"UPDATE runs SET artifact_uri = replace(artifact_uri, '{whole}', '{copy}')")
        db.commit()
    return copy


def test_what_was_there_is_there_again(whole: Path, out: Path) -> None:
    with (
        Journal(whole / "journal.db", read_only=True) as before,
        Journal(out / "journal.db") as journal,
    ):
        said = taken_over(journal, store_of(out, None), KEYS)
        assert said == "the journal was empty: 9 results were restored from the store"
        trial_ids = [trial.trial_id for trial in SWEEP.plan.trials]
        assert journal.entries() == before.entries()
        assert list(journal.results(trial_ids)) == list(before.results(trial_ids))
        assert list(journal.kept(trial_ids)) == list(before.kept(trial_ids))
        assert journal.done() == before.done()
        assert journal.trials() == before.trials()
        assert [end for end in before.ends() if end.is_kept] == journal.ends()
        assert journal.statements(KEYS[0]) == before.statements(KEYS[0])
        (was,), (now,) = before.plans(), journal.plans()
        assert now == replace(was, source_paths=())
        assert now.about.registration is not None
        assert now.about.registration.is_confirmatory  # it was stated before there were results
        results = by_trial(journal.results(trial_ids))
        assert sweep_files(now, results) == sweep_files(was, results)


def test_a_trial_that_failed_is_tried_again_under_the_next_number(out: Path) -> None:
    with Journal(out / "journal.db") as journal:
        taken_over(journal, store_of(out, None), KEYS)
        second = SWEEP.results[1]
        assert journal.begin(second.trial_id, "here") == 2
        assert journal.commit(second, 2)


def test_what_others_recorded_in_a_store_that_is_not_our_own_stays_in_it(
    out: Path, tmp_path: Path
) -> None:
    """Check that they enter the journal, because the writer publishes only what is in it."""
    uri, ours = f"sqlite:///{out / 'mlflow.db'}", tmp_path / "ours"
    ours.mkdir()
    with Journal(ours / "journal.db") as journal:
        result = SWEEP.results[0]
        journal.commit(result, journal.begin(result.trial_id, "here"))
        store = store_of(ours, uri)
        assert taken_over(journal, store, KEYS) == "8 results were restored from the store"
        assert len(journal.entries()) == 9
        assert taken_over(journal, store, KEYS) == ""


def test_where_there_is_a_result_nothing_is_taken_over_from_our_own(out: Path) -> None:
    with Journal(out / "journal.db") as journal:
        result = SWEEP.results[0]
        journal.commit(result, journal.begin(result.trial_id, "here"))
        assert taken_over(journal, store_of(out, None), KEYS) == ""
        assert len(journal.entries()) == 1


def test_twice_is_once(out: Path) -> None:
    with Journal(out / "journal.db") as journal:
        store = store_of(out, None)
        assert rebuild(journal, store, KEYS) == 9
        before = list(journal._db.iterdump())
        assert rebuild(journal, store, KEYS) == 0
        assert list(journal._db.iterdump()) == before


def test_another_sweep_is_not_taken_over(out: Path) -> None:
    with Journal(out / "journal.db") as journal:
        assert taken_over(journal, store_of(out, None), [("other", "quick")]) == ""
        assert taken_over(journal, store_of(out, None), [(KEYS[0][0], "paper")]) == ""
        assert journal.plans() == []


def test_a_store_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    with Journal(tmp_path / "journal.db") as journal:
        assert taken_over(journal, store_of(tmp_path, None), KEYS) == ""
    assert not (tmp_path / "mlflow.db").exists()


@pytest.mark.parametrize("fault", ["truncated", "altered", "gone"])
def test_what_is_damaged_is_refused_in_one_sentence(out: Path, fault: str) -> None:
    file = next((out / "artifacts").rglob(JOURNAL_FILE))
    body = file.read_bytes()
    file.unlink()
    if fault != "gone":
        file.write_bytes(body[:-9] if fault == "truncated" else body[:99] + b"?" + body[100:])
    with Journal(out / "journal.db") as journal:
        with pytest.raises(DamagedStore, match="its SHA-256 differs") as refusal:
            taken_over(journal, store_of(out, None), KEYS)
        assert journal.plans() == []
    assert isinstance(refusal.value, StoreUnavailable)  # exit code 4
    assert "\n" not in str(refusal.value)


def test_a_report_does_not_need_the_lines(out: Path) -> None:
    next((out / "artifacts").rglob(JOURNAL_FILE)).write_bytes(b"")
    (page,) = reports_of([SWEEP.name], sweeps_in(store_of(out, None)), out / "reports")
    assert page.is_file()


@contextmanager
def hanging() -> Iterator[Store]:
    """Yield a server that accepts connections and never answers, like a stopped process."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield Store(uri=f"http://127.0.0.1:{listening.getsockname()[1]}", artifacts=None)


def test_a_store_that_hangs_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(restore, "_SECONDS_TO_ANSWER", 0.2)
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "3")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with Journal(tmp_path / "journal.db") as journal, hanging() as store:
        start = time.monotonic()
        said = taken_over(journal, store, KEYS)
        assert said.endswith(f"The MLflow store {store.uri} does not answer.")
        assert time.monotonic() - start < 3
    for thread in threading.enumerate():
        if thread.name == "asks for the store":
            thread.join()


def test_a_store_where_nobody_listens_is_not_waited_for(tmp_path: Path) -> None:
    with Journal(tmp_path / "journal.db") as journal:
        said = taken_over(journal, Store(uri="http://127.0.0.1:9", artifacts=None), KEYS)
    assert said.startswith(
        "The run continues without a store; the results are in the journal. The "
    )
    assert "\n" not in said


def test_what_an_exception_said_leaves_no_password_behind(tmp_path: Path) -> None:
    password = "_".join(["CANARY", "8"])
    secret = failure(SWEEP.results[0], f"cannot reach http://me:{password}@host/")
    with Journal(tmp_path / "journal.db") as journal:
        plan = journal.keep_plan(SWEEP.plan)
        journal.commit(secret, journal.begin(secret.trial_id, "here"))
        body = packed(plan, (), journal.kept([secret.trial_id]))
    assert password.encode() not in unpacked(body)
    (kept,) = parsed(body).results
    with Journal(tmp_path / "other.db") as other:
        assert other.restore(kept)  # its hash matches the changed content
        (result,) = other.results([secret.trial_id])
    assert "http://***@host/" in result.traceback


@pytest.mark.parametrize("body", [b"", b"no gzip", packed(SWEEP.plan, (), ())[:-4]])
def test_what_is_no_such_file_is_told(body: bytes) -> None:
    with pytest.raises(ExportError, match=r"^journal\.jsonl\.gz (cannot be unpacked|was written)"):
        parsed(body)


def test_lines_of_another_version_are_told() -> None:
    with pytest.raises(ExportError, match="another version of bakeoff"):
        parsed(gzip.compress(b'{"plan":{"cells":7},"statements":[]}\n'))
