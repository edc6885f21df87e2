"""Fixtures: an empty place, and the command line in this process or in a separate one."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from bakeoff.suite import cli
from tests.bad_inputs.command import Called, Ended, Place
from tests.suite.conftest import write_ablation

__all__ = ["called", "place", "write_ablation"]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """Return an empty place that is the working folder; no token exists anywhere."""
    for name in ("home", "temporary", "here"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("TMPDIR", "RAY_TMPDIR"):
        monkeypatch.setenv(name, str(tmp_path / "temporary"))
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH", "RAY_ADDRESS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.chdir(tmp_path / "here")
    return Place(tmp_path)


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Called:
    """Return the entry point of the command in this process, which has torch imported."""

    def call(*arguments: str) -> Ended:
        monkeypatch.setattr(sys, "argv", ["bakeoff", *arguments])
        with pytest.raises(SystemExit) as caught:
            cli.main()
        captured = capfd.readouterr()
        return Ended(int(caught.value.code or 0), captured.out, captured.err)

    return call
