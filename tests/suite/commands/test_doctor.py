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


@pytest.mark.parametrize(
    ("name", "packages", "code", "line"),
    [
        ("_NEEDED", ("torch", "none"), UNAVAILABLE, "MISSING none; pip install bakeoff"),
        ("_FOR", {"none": "something else"}, DONE, "absent  none; only for something else"),
    ],
)
def test_a_missing_package_is_named_with_its_remedy(
    name: str, packages: object, code: int, line: str,
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setattr(doctor, name, packages)
    assert doctor.show(tmp_path) == code
    assert line in capsys.readouterr().out
