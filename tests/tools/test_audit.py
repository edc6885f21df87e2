"""Test that the audit queries the installed packages and reports inconclusive answers."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from tools import audit

SKIPPED = {"name": "a", "skip_reason": "not found"}
SOUND = {"name": "b", "version": "1", "vulns": []}
WEAK = {"name": "c", "version": "2", "vulns": [{"id": "CVE-1", "fix_versions": ["3"]}]}


@pytest.mark.parametrize(
    ("packages", "code", "said"),
    [
        ([SKIPPED], 0, "could not be asked (it knows none of the 1 packages)"),
        ([], 0, "could not be asked"),
        ([SKIPPED, SOUND], 0, "1 of 2 packages asked about, 0 known weaknesses"),
        ([SOUND, WEAK], 1, "c 2: CVE-1, mended in 3"),
    ],
)
def test_what_is_known_is_told(
    packages: list[dict[str, Any]],
    code: int,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    answer = json.dumps({"dependencies": packages})
    done = subprocess.CompletedProcess([], code, stdout=answer, stderr="")
    monkeypatch.setattr(audit.subprocess, "run", lambda *_, **__: done)
    assert audit.main() == code
    assert said in capsys.readouterr().out


def test_a_service_that_is_not_there_is_said_in_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    done = subprocess.CompletedProcess([], 1, stdout="", stderr="more\nno route to it\n")
    monkeypatch.setattr(audit.subprocess, "run", lambda *_, **__: done)
    assert audit.main() == 0
    assert capsys.readouterr().out.count("\n") == 1
