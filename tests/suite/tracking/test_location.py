from __future__ import annotations

from pathlib import Path

import pytest

from suite.text import redact
from suite.tracking.location import BadUri, RefusedUri, check_tracking_uri, secrets_of, sqlite_path


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
