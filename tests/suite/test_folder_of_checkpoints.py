"""Where the folder of checkpoints cannot be had, one sentence says so before anything trains."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from suite.errors import UNAVAILABLE, exit_code_of
from suite.events import Checkpoints
from suite.sweep.driver import Options, _folder_for, run
from suite.sweep.folder_lock import FolderUnavailable
from tests.workplace import Workplace


def checkpoints(out: Path) -> Checkpoints:
    return Checkpoints(folder=out / "checkpoints", seconds_between=1.0)


def refuse_full(self: Path, *arguments: object, **named: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self))


def test_a_file_in_its_place_is_told_by_a_sweep_and_stays(tmp_path: Path) -> None:
    work = Workplace(tmp_path)
    folder = work.out / "checkpoints"
    work.out.mkdir()
    folder.write_text("in the way")
    with pytest.raises(FolderUnavailable) as refused:
        run(work.ablation(probes=["parameters"]), options=Options(out=work.out, executor="inline"))
    assert str(refused.value) == f"{folder}: no checkpoints can be kept here: a file stands there."
    assert exit_code_of(refused.value) == UNAVAILABLE
    assert folder.read_text() == "in the way"


@pytest.mark.parametrize("effect", ["mkdir", "iterdir"])
def test_a_full_disk_is_told(effect: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, effect, refuse_full)
    with (
        pytest.raises(FolderUnavailable, match=r"checkpoints: .*: No space left on device\."),
        _folder_for(checkpoints(tmp_path), {}),
    ):
        pass


def test_what_goes_wrong_later_is_not_taken_for_the_folders(tmp_path: Path) -> None:
    with (
        pytest.raises(PermissionError, match="of something else"),
        _folder_for(checkpoints(tmp_path), {}),
    ):
        raise PermissionError("of something else")
    assert not (tmp_path / "checkpoints").exists()


def test_only_what_is_done_is_tidied_away(tmp_path: Path) -> None:
    for name in ("done", "begun"):
        (tmp_path / "checkpoints" / name).mkdir(parents=True)
    with _folder_for(checkpoints(tmp_path), {"done"}):
        assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["begun"]
