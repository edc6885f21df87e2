from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from bakeoff.suite.errors import UNAVAILABLE, USAGE, exit_code_of
from bakeoff.suite.spec import SpecError
from bakeoff.suite.sweep.driver import Options, run
from bakeoff.suite.text import redact
from bakeoff.suite.tracking.location import (
    BadUri,
    RefusedUri,
    UnusableFile,
    check_tracking_uri,
    refuse_unusable,
    secrets_of,
    sqlite_path,
    store_of,
)
from bakeoff.suite.tracking.read import StoreReader
from bakeoff.suite.tracking.write import RunWriter
from tests.suite.heads_sweep import HEADS, LocalStore
from tests.workplace import Workplace


@pytest.mark.parametrize(
    "uri",
    [
        "sqlite:///out/mlflow.db",
        "sqlite:////tmp/out/mlflow.db",
        "sqlite:////tmp/a folder/mlflow.db",
        "http://127.0.0.1:5000",
        "https://mlflow.example.org/team",
        "postgresql+psycopg2://user:password@db.example.org/mlflow",
    ],
)
def test_a_store_may_stand_there(uri: str) -> None:
    assert check_tracking_uri(uri) == uri


@pytest.mark.parametrize(
    "uri",
    [
        "file:mlruns",
        "FILE:///etc",
        "sqlite:////tmp/../etc/x.db",
        "sqlite:///out/..\\x.db",
        "sqlite:///file:x.db?uri=true",
        "sqlite:////tmp/what?/x.db",
        "sqlite:////tmp/a%20b/x.db",
    ],
)
def test_refused_for_safety(uri: str) -> None:
    with pytest.raises(RefusedUri, match=r"^--tracking-uri .*\.$"):
        check_tracking_uri(uri)


@pytest.mark.parametrize(
    "uri",
    [
        " ",
        "mlruns",
        "/tmp/x.db",
        "sqlite://",
        "sqlite:///out/",
        "sqlite:///a b.db\n",
        "http://",
        "http://host:port",
        "ftp://host/x",
        "http://ho\x1b[31mst",
    ],
)
def test_cannot_be_meant(uri: str) -> None:
    with pytest.raises(BadUri, match=r"^--tracking-uri .*allowed: .*\.$") as refusal:
        check_tracking_uri(uri)
    assert "\n" not in str(refusal.value)
    assert "\x1b" not in str(refusal.value)


@pytest.mark.parametrize(
    "uri",
    [
        "http://user:CANARY_1@host:99999",
        "ftp://user:CANARY_1@host",
        "sqlite:///../x.db?password=CANARY_1",
        "file://user:CANARY_1@host/x",
    ],
)
def test_a_refusal_keeps_the_password(uri: str) -> None:
    with pytest.raises((BadUri, RefusedUri)) as refusal:
        check_tracking_uri(uri)
    assert "CANARY_1" not in str(refusal.value)


def test_redact() -> None:
    said = "GET https://me:p%40ss@host/x?token=abc&step=1 by me@example.org failed"
    assert redact(said) == "GET https://***@host/x?token=***&step=1 by me@example.org failed"


def test_secrets_are_known_as_written_and_as_decoded() -> None:
    assert secrets_of("http://me:p%40ss@host") == ("p%40ss", "p@ss")
    assert secrets_of("http://host") == ()


def test_the_file_behind_an_address() -> None:
    assert sqlite_path("sqlite:///out/mlflow.db") == Path("out/mlflow.db")
    assert sqlite_path("sqlite:////tmp/mlflow.db") == Path("/tmp/mlflow.db")
    assert sqlite_path("http://host") is None


@pytest.mark.parametrize("name", ["what?", "a%20b", "a%41", "a\nb", "a\udcffb"])
def test_a_folder_that_mlflow_would_read_otherwise_is_refused_at_once(
    tmp_path: Path, name: str
) -> None:
    file = Workplace(tmp_path).ablation(probes=["parameters"])
    out = tmp_path / name
    with pytest.raises(SpecError, match="rename the folder") as refused:
        run(file, options=Options(out=out, executor="inline"))
    assert exit_code_of(refused.value) == USAGE
    assert not out.exists()
    # The server keeps the artifacts itself.
    assert store_of(out, "http://127.0.0.1:5000").artifacts is None


@pytest.mark.whole
def test_a_folder_of_any_other_name_holds_a_store(store: LocalStore, tmp_path: Path) -> None:
    out = tmp_path / "-a b'\"ü#100%;&[x]"
    out.mkdir()
    shutil.copy(store.database, out)
    held, trial = store_of(out, None), HEADS.trial()
    writer = RunWriter(held)
    writer.open_sweep(HEADS.about)
    writer.finish_trial(HEADS.key, trial, HEADS.cells(trial), HEADS.result(trial))
    writer.publish(HEADS.key, {"results.parquet": b"results"})
    sweep = StoreReader(held.uri).sweep(HEADS.key)
    assert sweep.file("results.parquet").body == b"results"
    assert len(sweep.trials) == 1
    assert sorted(path.name for path in out.iterdir()) == ["artifacts", "mlflow.db"]


def _folder(path: Path) -> None:
    path.mkdir()


def _foreign(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE mine (x)")


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (_folder, "this is a folder"),
        (_foreign, "it is the database of another program"),
        (lambda path: path.write_text("a letter" * 200), "it cannot be used: file is not a data"),
    ],
)
def test_a_file_that_can_never_be_a_store_is_refused_before_anything_runs(
    tmp_path: Path, make: Callable[[Path], object], why: str
) -> None:
    file = Workplace(tmp_path).ablation(probes=["parameters"])
    make(tmp_path / "x.db")
    options = Options(
        out=tmp_path / "out", tracking_uri=f"sqlite:///{tmp_path}/x.db", executor="inline"
    )
    with pytest.raises(UnusableFile, match=why) as refused:
        run(file, options=options)
    assert exit_code_of(refused.value) == UNAVAILABLE
    assert not options.out.exists()


def test_a_store_below_a_file_is_refused_and_one_in_a_new_folder_is_not(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UnusableFile, match="a parent of this path is a file; give another"):
        refuse_unusable(store_of(tmp_path, f"sqlite:///{tmp_path}/file/x.db"))
    refuse_unusable(store_of(tmp_path, f"sqlite:///{tmp_path}/new/x.db"))
