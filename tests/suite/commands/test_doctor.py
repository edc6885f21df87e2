"""What the doctor finds, and what it makes of it."""

from pathlib import Path

import pytest

from suite.commands import doctor
from suite.errors import DONE, UNAVAILABLE


def test_a_machine_that_runs_the_tests_is_fit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert doctor.show(tmp_path / "not" / "yet") == DONE
    lines = capsys.readouterr().out.splitlines()
    assert any("torch" in line for line in lines)
    assert not any(line.startswith("MISSING") for line in lines)
    assert list(tmp_path.iterdir()) == []


def test_a_missing_package_is_named_with_its_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(doctor, "_NEEDED", ("torch", "no_such_package"))
    assert doctor.show(tmp_path) == UNAVAILABLE
    assert "MISSING no_such_package; pip install bakeoff" in capsys.readouterr().out


def test_what_one_can_do_without_is_only_absent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(doctor, "_FOR", {"no_such_package": "something else"})
    assert doctor.show(tmp_path) == DONE
    assert "absent  no_such_package; only for something else" in capsys.readouterr().out
