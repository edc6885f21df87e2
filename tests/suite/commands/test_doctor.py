"""Tests for the findings of `bakeoff doctor` and its exit code."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bakeoff.suite.commands import doctor
from bakeoff.suite.errors import DONE, UNAVAILABLE


def test_a_machine_that_runs_the_tests_is_fit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert doctor.show(tmp_path / "not" / "yet") == DONE
    lines = capsys.readouterr().out.splitlines()
    assert any("torch" in line for line in lines)
    assert not any(line.startswith("MISSING") for line in lines)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "packages", "code", "line"),
    [
        ("_NEEDED", ("torch", "none"), UNAVAILABLE, "MISSING none; pip install bakeoff"),
        ("_FOR", {"none": "something else"}, DONE, "absent  none; only for something else"),
    ],
)
def test_a_missing_package_is_named_with_its_remedy(
    name: str,
    packages: object,
    code: int,
    line: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(doctor, name, packages)
    assert doctor.show(tmp_path) == code
    assert line in capsys.readouterr().out


@pytest.mark.whole
def test_without_a_home_commands_get_one(tmp_path: Path) -> None:
    program = (
        "import os, pwd, sys\n"
        "def nobody(*_): raise KeyError('uid not found')\n"
        "pwd.getpwuid = nobody\n"  # simulates a user id that is not in passwd
        "from bakeoff.suite import cli\n"
        "cli.main()"
    )
    environment = {"PATH": os.environ["PATH"], "TMPDIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", program, "doctor", "--out", str(tmp_path / "out")],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (DONE, "")
    (home,) = tmp_path.glob("bakeoff-home-*")
    assert home.stat().st_mode & 0o077 == 0
