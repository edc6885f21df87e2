"""Check that a file is complete or absent, whatever fails."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import pytest

from bakeoff.suite.training import tensor_io as atomic_files
from tests.suite.training.faulty_disk import ERRORS, Failing, Tape, restore, watch

OLD, NEW = b"old" * 1000, b"new" * 5000


def write(draft: Path, to: Path) -> None:
    """Write a folder with one file, in the order that makes it complete or absent."""
    atomic_files.make_folder(draft)
    atomic_files.create(draft / "file", NEW)
    atomic_files.fsync_folder(draft)
    atomic_files.move_folder(draft, to)


def test_a_disk_that_takes_little_at_a_time_gets_all(tmp_path: Path, monkeypatch) -> None:
    original = os.write
    monkeypatch.setattr(os, "write", lambda file, body: original(file, body[:7]))
    for name, body in (("full", NEW), ("empty", b"")):
        atomic_files.create(tmp_path / name, body)
        assert (tmp_path / name).read_bytes() == body


@pytest.mark.parametrize("error", ERRORS)
def test_each_operation_that_fails_is_an_error(
    error: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for at in itertools.count():
        folder = tmp_path / str(at)
        failing = Failing(at, ERRORS[error])
        with monkeypatch.context() as patch:
            watch(patch, failing)
            try:
                write(folder / "draft", folder / "whole")
            except OSError as raised:
                assert raised.errno == ERRORS[error]  # noqa: PT017 - it may also succeed
            else:
                break
        whole = folder / "whole"
        assert not whole.exists() or (whole / "file").read_bytes() == NEW
    assert failing.count >= 12, "each operation has failed once"


def test_after_a_power_cut_it_is_complete_or_absent(tmp_path: Path) -> None:
    live = tmp_path / "live"
    live.mkdir()
    tape = Tape(live)
    with pytest.MonkeyPatch.context() as patch:
        watch(patch, tape)
        write(live / "draft", live / "whole")
        tape.note(1)
    found = set()
    for number, (root, published) in enumerate(tape.crashes()):
        for loses in ("data", "half", "names"):
            crashed = tmp_path / f"{number} {loses}"
            restore(root, crashed, loses)
            whole = crashed / "whole"
            body = (whole / "file").read_bytes() if whole.exists() else None
            assert body in ((NEW,) if published else (None, NEW))
            found.add(body)
    assert found == {None, NEW}


def test_a_folder_is_made_with_those_above_it_and_removed_with_those_below(tmp_path: Path) -> None:
    deep = tmp_path / "a" / "b" / "c"
    atomic_files.make_folder(deep)
    atomic_files.make_folder(deep)
    (deep / "file").write_bytes(NEW)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "kept").write_bytes(OLD)
    (deep / "link").symlink_to(tmp_path / "elsewhere")
    atomic_files.remove_folder(tmp_path / "a")
    assert [path.name for path in tmp_path.rglob("*")] == ["elsewhere", "kept"]


def test_a_name_that_is_taken_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(OLD)
    with pytest.raises(FileExistsError):
        atomic_files.create(tmp_path / "file", NEW)
    assert (tmp_path / "file").read_bytes() == OLD
