"""Tests for stores that are locked, read-only, too old or hang, and for a full disk."""

from __future__ import annotations

import http.server
import resource
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from bakeoff.suite import cli
from bakeoff.suite.errors import UNAVAILABLE, UnavailableError, exit_code_of
from bakeoff.suite.journal.journal import Journal
from bakeoff.suite.journal.sqlite_schema import JournalError
from bakeoff.suite.schema import Result
from bakeoff.suite.sweep import mlflow_sync
from bakeoff.suite.sweep.driver import Options, run
from bakeoff.suite.sweep.verify import differences, repaired
from bakeoff.suite.tracking.client import UnusableStore
from tests.suite.fake_server import http_server
from tests.workplace import Workplace

pytestmark = pytest.mark.whole


def options(work: Workplace) -> Options:
    return Options(out=work.out, executor="inline")


@contextmanager
def locked(database: Path) -> Iterator[None]:
    with closing(sqlite3.connect(database, isolation_level=None)) as db:
        db.execute("BEGIN EXCLUSIVE")
        yield
        db.execute("ROLLBACK")


@contextmanager
def read_only(database: Path) -> Iterator[None]:
    """Make the database read-only, even for root, by a write version that SQLite does not know."""
    body = database.read_bytes()
    database.write_bytes(body[:18] + b"\x03" + body[19:])
    yield
    database.write_bytes(body)


@contextmanager
def too_old(database: Path) -> Iterator[None]:
    with closing(sqlite3.connect(database)) as db:
        ((version,),) = db.execute("SELECT version_num FROM alembic_version").fetchall()
        db.execute("UPDATE alembic_version SET version_num = '451aebb31d03'")
        db.commit()
    yield
    with closing(sqlite3.connect(database)) as db:
        db.execute("UPDATE alembic_version SET version_num = ?", (version,))
        db.commit()


@contextmanager
def no_database(database: Path) -> Iterator[None]:
    body = database.read_bytes()
    database.write_bytes(b"This is no database." * 100)
    yield
    database.write_bytes(body)


@pytest.mark.bad_input(39)
@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(locked, id="locked", marks=pytest.mark.slow),  # SQLite waits 5 s each time
    ],
)
def test_all_results_are_in_the_journal_and_reach_the_store_once_it_is_mended(
    work: Workplace, fault: Callable[[Path], Iterator[None]]
) -> None:
    with fault(work.out / "mlflow.db"):  # type: ignore[attr-defined]
        outcome = run(work.ablation(probes=["quality"]), options=options(work))
    assert outcome.num_missing == 0
    assert outcome.error.startswith("The MLflow store sqlite:///")
    assert "\n" not in outcome.error
    # This import warns, unless MLflow has been imported before.
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

    for engine in SqlAlchemyStore._engine_map.values():
        engine.dispose()  # an open connection stays read-only; the next command opens another one
    assert repaired(work.out, None).differences == ()


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        (read_only, "attempt to write a readonly database"),
        (too_old, "out-of-date database schema"),
        (no_database, "file is not a database"),
    ],
)
def test_a_store_that_can_never_work_is_refused_before_anything_runs(
    work: Workplace, fault: Callable[[Path], AbstractContextManager[None]], why: str
) -> None:
    file = work.ablation(probes=["parameters"])
    with fault(work.out / "mlflow.db"), pytest.raises(UnavailableError, match=why) as refused:
        run(file, options=options(work))
    assert exit_code_of(refused.value) == UNAVAILABLE
    assert "\n" not in str(refused.value)
    if (work.out / "journal.db").exists():
        with Journal(work.out / "journal.db", read_only=True) as journal:
            assert journal.attempts() == []


@pytest.mark.parametrize(
    ("code", "why"), [(200, "not in a valid JSON format"), (404, "404"), (401, "401")]
)
def test_a_server_of_another_kind_is_refused_before_anything_runs(
    work: Workplace, code: int, why: str
) -> None:
    def answer(request: http.server.BaseHTTPRequestHandler) -> None:
        request.send_response(code)
        request.send_header("Content-Length", "14")
        request.end_headers()
        request.wfile.write(b"<html>Welcome!")

    with http_server(answer) as port:
        uri = f"http://127.0.0.1:{port}"
        with pytest.raises(UnusableStore, match=why) as refused:
            run(
                work.ablation(probes=["parameters"]),
                options=Options(out=work.out, executor="inline", tracking_uri=uri),
            )
    assert exit_code_of(refused.value) == UNAVAILABLE


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        ("max_page_count = {}", "full"),
        pytest.param(
            "query_only = ON", "attempt to write a readonly database", marks=pytest.mark.slow
        ),
    ],
)
def test_a_journal_that_cannot_grow_ends_the_sweep_in_one_sentence_and_the_next_goes_on(
    work: Workplace, monkeypatch: pytest.MonkeyPatch, fault: str, why: str
) -> None:
    commit, num_commits = Journal.commit, 0

    def on_a_full_disk(self: Journal, result: Result, attempt: int) -> bool:
        nonlocal num_commits
        num_commits += 1
        if num_commits == 3:
            ((number,),) = self._db.execute("PRAGMA page_count").fetchall()
            self._db.execute(f"PRAGMA {fault.format(number)}")
        return commit(self, replace(result, traceback="long " * 4000), attempt)

    ablation = work.ablation(probes=["quality"])
    with monkeypatch.context() as patch:
        patch.setattr(Journal, "commit", on_a_full_disk)
        with pytest.raises(JournalError, match=why) as failure:
            run(ablation, options=options(work))
    assert exit_code_of(failure.value) == UNAVAILABLE
    assert "\n" not in str(failure.value)
    with Journal(work.out / "journal.db", read_only=True) as journal:
        before = journal.entries()
    assert len(before) == 2
    outcome = run(ablation, options=options(work))
    assert (outcome.num_missing, outcome.error) == (0, "")
    with Journal(work.out / "journal.db", read_only=True) as journal:
        assert {(e.trial_id, e.sha256) for e in before} <= {
            (e.trial_id, e.sha256) for e in journal.entries()
        }
    assert differences(work.out, None).differences == ()


@contextmanager
def full_at(num_bytes: int) -> Iterator[None]:
    """Limit the size of every file, even for root."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("num_bytes", [4_000, pytest.param(400_000, marks=pytest.mark.slow)])
def test_a_disk_that_is_full_for_the_journal_or_a_new_store_is_said_and_resumed(
    work: Workplace,
    num_bytes: int,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    def called(*arguments: str) -> int:
        monkeypatch.setattr(sys, "argv", ["bakeoff", *arguments, "--out", str(work.out)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        return int(ended.value.code or 0)

    if num_bytes == 400_000:
        (work.out / "mlflow.db").unlink()
    command = ("run", work.ablation(probes=["parameters"]), "--executor", "inline")
    with full_at(num_bytes):
        assert called(*command) == UNAVAILABLE
        said = capfd.readouterr().err
    assert "Traceback" not in said
    assert "unfinished" not in said
    assert called(*command) == 0
    assert differences(work.out, None).differences == ()
    (work.out / "reports/small/index.html").unlink()
    with full_at(30_000):
        assert called("report", "small") == UNAVAILABLE
    assert "File too large; once that is corrected" in capfd.readouterr().err


def test_a_server_that_hangs_holds_up_neither_the_trials_nor_the_end(
    work: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mlflow_sync, "_SECONDS_OF_SILENCE", 1.0)
    monkeypatch.setattr("bakeoff.suite.tracking.restore._SECONDS_TO_ANSWER", 0.5)
    is_over = threading.Event()
    with http_server(lambda _: is_over.wait()) as port:
        start = time.monotonic()
        uri = f"http://127.0.0.1:{port}"
        outcome = run(
            work.ablation(probes=["quality"]),
            options=Options(out=work.out, executor="inline", tracking_uri=uri),
        )
        spent = time.monotonic() - start
        is_over.set()
    assert outcome.num_missing == 0
    assert "does not answer" in outcome.error or "is not available" in outcome.error
    assert spent < 20  # a request takes 21 seconds, and each trial makes several


@pytest.mark.slow
def test_reports_that_cannot_be_written_are_one_sentence_and_made_later(work: Workplace) -> None:
    (work.out / "reports").write_text("a file stands in the way")
    outcome = run(work.ablation(probes=["quality"]), options=options(work))
    assert outcome.num_missing == 0
    assert outcome.error.startswith(f"The reports cannot be written to {work.out / 'reports'}: ")
    (work.out / "reports").unlink()
    assert repaired(work.out, None).differences == ()
