"""Tests for `bakeoff run --address`: joining a running cluster, and one-line refusals."""

from __future__ import annotations

import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest

from bakeoff.suite.errors import DONE, UNAVAILABLE
from bakeoff.suite.journal.journal import Journal
from bakeoff.suite.schema import Status
from tests.suite.cluster.heads import AUTHENTICATION, head
from tests.workplace import Workplace

pytestmark = [pytest.mark.ray, pytest.mark.cluster]


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workplace:
    """Return a workplace whose home holds no token."""
    for name in AUTHENTICATION:
        monkeypatch.delenv(name, raising=False)
    home = tmp_path / "home"
    home.mkdir()
    return Workplace(tmp_path, environment={"HOME": str(home)})


def sweep(work: Workplace, address: str) -> subprocess.CompletedProcess[str]:
    file = work.ablation(probes=["parameters"])
    return work.bakeoff("run", file, "--address", address, timeout=100)


def assert_done(work: Workplace, done: subprocess.CompletedProcess[str]) -> None:
    assert done.returncode == DONE, done.stderr
    with Journal(work.out / "journal.db", read_only=True) as journal:
        trial_ids = [entry.trial_id for entry in journal.entries()]
        assert [r.status for r in journal.results(trial_ids)] == [Status.OK]
        (attempt,) = journal.attempts()
    assert attempt.place.startswith("node ")
    assert not (work.path / "home" / ".ray").exists()


def with_token(work: Workplace) -> dict[str, str]:
    token = work.path / "token"
    token.write_text("0123456789abcdef0123456789abcdef")
    return {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(token)}


def test_a_cluster_with_a_token_is_joined_by_who_has_it(work: Workplace) -> None:
    environment = with_token(work)
    with head(environment) as address:
        done = sweep(replace(work, environment={**work.environment, **environment}), address)
    assert_done(work, done)
    assert "0123456789abcdef" not in done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("wrong", ["", "fedcba9876543210fedcba9876543210"])
def test_a_cluster_with_a_token_refuses_whoever_lacks_it(work: Workplace, wrong: str) -> None:
    of_ours = {"RAY_AUTH_TOKEN": wrong} if wrong else {}
    with head(with_token(work)) as address:
        start = time.monotonic()
        refused = sweep(replace(work, environment={**work.environment, **of_ours}), address)
        assert time.monotonic() - start < 15
        assert refused.returncode == UNAVAILABLE, refused.stderr
        why = "does not accept the token" if wrong else "requires a token"
        assert f"--address {address}: the cluster there {why}" in refused.stderr
        assert "RAY_AUTH_TOKEN_PATH" in refused.stderr
        assert "Traceback" not in refused.stderr
        assert not wrong or wrong not in refused.stderr


@pytest.mark.slow
def test_a_cluster_of_this_machine_without_a_token_is_joined_too(work: Workplace) -> None:
    with head({"RAY_AUTH_MODE": "disabled"}) as address:
        assert_done(work, sweep(work, address))


@pytest.mark.slow
def test_a_token_in_the_home_folder_is_found(work: Workplace) -> None:
    token = work.path / "home" / ".ray" / "auth_token"
    token.parent.mkdir()
    token.write_text("0123456789abcdef0123456789abcdef")
    with head({"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(token)}) as address:
        done = sweep(work, address)
        assert done.returncode == DONE, done.stderr
