"""Tests for MPS: used where its daemon starts and serves a process, ended after the block."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from bakeoff.suite.execution import side_by_side
from bakeoff.suite.execution.side_by_side import PIPES, shared_gpus
from bakeoff.suite.schema import Resources
from tests.suite.heads_sweep import HeadsSweep

TRIAL = HeadsSweep().trial()
SHARED, WHOLE = [(TRIAL, Resources(num_gpus=0.5))], [(TRIAL, Resources(num_gpus=1.0))]
DAEMON = """#!/bin/sh
echo "$@ $(cat) pipes=$CUDA_MPS_PIPE_DIRECTORY visible=$CUDA_VISIBLE_DEVICES" >> {log}
exit {code}
"""


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the log of a fake MPS daemon that starts, whose test client succeeds."""
    daemon = tmp_path / "nvidia-cuda-mps-control"
    daemon.write_text(DAEMON.format(log=tmp_path / "log", code=0))
    daemon.chmod(daemon.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,5")
    monkeypatch.delenv(PIPES, raising=False)
    monkeypatch.setattr(side_by_side, "_A_CLIENT", "pass")
    return tmp_path / "log"


def test_it_serves_processes_until_the_end(log: Path) -> None:
    with shared_gpus(SHARED) as environment:
        (begun,) = log.read_text().splitlines()
        assert Path(environment[PIPES]).is_dir()
    begun, ended = (line.split() for line in log.read_text().splitlines())
    # The daemon sees all GPUs, so that its clients number them in the same way.
    assert begun == ["-d", f"pipes={environment[PIPES]}", "visible="]
    assert ended == ["quit", *begun[1:]]
    assert not Path(environment[PIPES]).exists()


def test_where_no_process_can_compute_through_it_it_is_ended_and_not_used(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(side_by_side, "_A_CLIENT", "raise SystemExit(1)")
    with shared_gpus(SHARED) as environment:
        assert environment == {}
    assert log.read_text().splitlines()[-1].split()[0] == "quit"


def test_where_it_does_not_start_it_is_not_used(log: Path, tmp_path: Path) -> None:
    daemon = tmp_path / "nvidia-cuda-mps-control"
    daemon.write_text(DAEMON.format(log=log, code=1))
    with shared_gpus(SHARED) as environment:
        assert environment == {}


@pytest.mark.parametrize("work", [[], WHOLE])
def test_whole_gpus_need_none(log: Path, work: list[tuple[object, Resources]]) -> None:
    with shared_gpus(work) as environment:  # type: ignore[arg-type]
        assert environment == {}
    assert not log.exists()


def test_a_daemon_that_runs_already_is_left_alone(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PIPES, "/somewhere")
    with shared_gpus(SHARED) as environment:
        assert environment == {}  # processes inherit the variable
    assert not log.exists()
