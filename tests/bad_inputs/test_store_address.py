"""Test store addresses that are invalid or unsafe, and how secrets are kept."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from tests.bad_inputs.command import Called, Place, WriteAblation, expect, expect_refused

BAD = {
    "line-37 a path that climbs": ("sqlite:///../../etc/x.db", 3, ["'..'"]),
    "line-37 one that climbs in code": ("sqlite:///%2e%2e/x.db", 3, ["'..'"]),
    "line-37 a folder of files": ("file:///etc", 3, ["stores of plain files are refused"]),
    "options in a path": ("sqlite:///x.db?mode=memory", 3, ["options"]),
    "garbage": ("garbage", 2, ["'garbage' is not the address of a store"]),
    "nothing": ("", 2, ["empty"]),
    "spaces": ("http://a b/", 2, ["spaces"]),
    "a line break": ("http://h\nX: y", 2, [r"http://h\nX: y"]),
    "an escape sequence": ("http://\x1b[2J", 2, [r"\x1b[2J"]),
    "port 99999": ("http://127.0.0.1:99999", 2, ["no valid host and port"]),
    "half an address": ("http://[::1", 2, ["no valid host and port"]),
    "a script": ("javascript:alert(1)", 2, ["not the address of a store"]),
    "Databricks": ("databricks", 2, ["not the address of a store"]),
    "no file": ("sqlite:///", 2, ["names no file"]),
    "memory": ("sqlite:///:memory:", 2, ["names no file"]),
    "100,000 characters": ("x" * 100_000, 2, ["not the address of a store"]),
    "line-36 a password in a bad one": ("http://me:s3cret@h:99999", 2, ["***@h:99999"]),
}


@pytest.mark.parametrize("case", BAD)
@pytest.mark.parametrize("command", ["run", "report"])
def test_what_is_no_store(command: str, case: str, place: Place, called: Called) -> None:
    uri, code, fragments = BAD[case]
    ended = called(command, "heads", "--tracking-uri", uri)
    expect_refused(ended, code, ["--tracking-uri", *fragments], place)


@pytest.mark.bad_input(36)
def test_a_password_does_not_travel_in_a_jobs_command(place: Place, called: Called) -> None:
    uri = "http://me:s3cret@h"
    ended = called("submit", "heads", "--address", "127.0.0.1", "--dry-run", "--tracking-uri", uri)
    expect_refused(ended, 3, ["http://***@h", "MLFLOW_TRACKING_PASSWORD"])


@pytest.mark.bad_input(36)
@pytest.mark.parametrize("command", ["report", "verify"])
def test_a_server_that_is_not_there_is_named_without_the_password(
    command: str, write_ablation: WriteAblation, place: Place, called: Called
) -> None:
    uri = "http://me:s3cret@127.0.0.1:1"
    names = ["heads"] if command == "report" else []
    ended = called(command, *names, "--tracking-uri", uri)
    assert ended.code in (2, 4)
    expect(ended, ended.code, [])


def _no_database(file: Path) -> None:
    file.write_text("This is no database, though it is called one.\n" * 40)


def _other_tables(file: Path) -> None:
    with sqlite3.connect(file) as database:
        database.execute("CREATE TABLE alembic_version (version_num VARCHAR(32))")
        database.execute("INSERT INTO alembic_version VALUES ('0123456789ab')")
    database.close()


@pytest.mark.bad_input(39)
@pytest.mark.parametrize("make", [_no_database, _other_tables, Path.mkdir])
def test_a_file_that_is_no_store_of_ours(
    make: object, write_ablation: WriteAblation, place: Place, called: Called
) -> None:
    """Check that such a file, which can never work, is refused before anything runs."""
    path = write_ablation(probes='["parameters"]')
    make(place.here / "x.db")  # type: ignore[operator]
    uri = f"sqlite:///{place.here / 'x.db'}"
    inline = ("--executor", "inline", "--seeds", "1")
    ended = called("run", str(path), *inline, "--tracking-uri", uri)
    expect(ended, 4, ["x.db"])
    assert not (place.here / "out" / "journal.db").exists()
