"""A file is what it was or what it was to be, whatever fails."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import pytest

from suite import durable
from tests.suite.faulty_disk import ERRORS, Failing, Tape, restore, watch

OLD, NEW = b"old" * 1000, b"new" * 5000


def test_it_writes_and_overwrites(tmp_path: Path) -> None:
    for body in (OLD, NEW, b""):
        durable.write(tmp_path / "file", body)
        assert (tmp_path / "file").read_bytes() == body
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_disk_that_takes_little_at_a_time_gets_all(tmp_path: Path, monkeypatch) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda file, body: write(file, body[:7]))
    durable.write(tmp_path / "file", NEW)
    assert (tmp_path / "file").read_bytes() == NEW


@pytest.mark.parametrize("error", ERRORS)
def test_a_failure_leaves_what_was_there_and_nothing_else(
    error: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for at in itertools.count():
        file = tmp_path / str(at) / "file"
        file.parent.mkdir()
        file.write_bytes(OLD)
        failing = Failing(at, ERRORS[error])
        with monkeypatch.context() as patch:
            watch(patch, failing)
            try:
                durable.write(file, NEW)
            except OSError as raised:
                assert raised.errno == ERRORS[error]  # noqa: PT017 - it may also succeed
            else:
                break
        assert file.read_bytes() in (OLD, NEW)
        assert list(file.parent.iterdir()) == [file]
    assert failing.count >= 8, "each operation has failed once"


def test_after_a_power_cut_there_is_the_old_or_the_new(tmp_path: Path) -> None:
    live = tmp_path / "live"
    live.mkdir()
    tape = Tape(live)
    with pytest.MonkeyPatch.context() as patch:
        watch(patch, tape)
        durable.write(live / "file", OLD)
        tape.note(1)
        durable.write(live / "file", NEW)
        tape.note(2)
    found = set()
    for number, (root, told) in enumerate(tape.crashes()):
        for loses in ("data", "half", "names"):
            crashed = tmp_path / f"{number} {loses}"
            restore(root, crashed, loses)
            body = (crashed / "file").read_bytes() if (crashed / "file").exists() else None
            assert body in ({0: (None, OLD), 1: (OLD, NEW), 2: (NEW,)}[told])
            found.add(body)
    assert found == {None, OLD, NEW}


def test_a_folder_is_made_with_those_above_it_and_removed_with_those_below(tmp_path: Path) -> None:
    deep = tmp_path / "a" / "b" / "c"
    durable.make_folder(deep)
    durable.make_folder(deep)
    (deep / "file").write_bytes(NEW)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "kept").write_bytes(OLD)
    (deep / "link").symlink_to(tmp_path / "elsewhere")
    durable.remove_folder(tmp_path / "a")
    assert [path.name for path in tmp_path.rglob("*")] == ["elsewhere", "kept"]


def test_a_name_that_is_taken_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(OLD)
    with pytest.raises(FileExistsError):
        durable.create(tmp_path / "file", NEW)
    assert (tmp_path / "file").read_bytes() == OLD


def test_names_of_what_is_unfinished() -> None:
    names = {durable.unfinished_name("file") for _ in range(100)}
    assert len(names) == 100
    assert all(durable.is_unfinished(name) for name in names)
    assert durable.unfinished_name("x", 5) == durable.unfinished_name("x", 5)
    assert not durable.is_unfinished("generation-000001")
