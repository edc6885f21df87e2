"""What stands in the way of a sweep's last step is a sentence, and its results are safe."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path

import pytest

from suite import answers
from suite.commands import run as run_command
from suite.exit_codes import DONE, UNAVAILABLE
from suite.sweep.driver import Options
from tests.workplace import Workplace


@pytest.fixture
def without_mlflow(monkeypatch: pytest.MonkeyPatch) -> None:
    for absent in ("mlflow", "ray"):
        monkeypatch.setitem(sys.modules, absent, None)


def exit_code(work: Workplace, file: str) -> int:
    options = Options(out=work.out, executor="inline")
    return run_command.run([file], scale="quick", seeds=None, options=options)


@pytest.mark.usefixtures("without_mlflow")
def test_without_a_store_a_folder_of_reports_that_is_none_is_told_and_made_later(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    work = Workplace(tmp_path)
    file, reports = work.ablation(probes=["parameters"]), work.out / "reports"
    work.out.mkdir()
    reports.write_text("in the way")
    assert exit_code(work, file) == UNAVAILABLE
    said = " ".join(capsys.readouterr().err.split())
    assert f"The reports cannot be written to {reports}: " in said
    assert "all results are safe, and the same command makes the reports." in said
    assert f"the results stand in {work.out / 'journal.db'}" in said
    assert reports.read_text() == "in the way"
    reports.unlink()
    assert exit_code(work, file) == DONE
    assert (reports / "small" / "index.html").is_file()


@pytest.mark.usefixtures("without_mlflow")
def test_without_a_store_a_full_disk_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*arguments: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(answers, "reports_from_journal", full)
    work = Workplace(tmp_path)
    assert exit_code(work, work.ablation(probes=["parameters"])) == UNAVAILABLE
    assert "No space left on device" in capsys.readouterr().err
