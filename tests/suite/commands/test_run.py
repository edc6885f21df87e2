"""Tests for the last lines of a run, and for its interruption."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from rich.console import Console

from bakeoff.suite.commands import run as run_command
from bakeoff.suite.commands.run import _report_outcome, run
from bakeoff.suite.errors import DONE, FAILED, INTERRUPTED
from bakeoff.suite.events import Unavailable
from bakeoff.suite.planning.plan import plan
from bakeoff.suite.schema import Plan
from bakeoff.suite.sweep.driver import Options
from bakeoff.suite.sweep.finish import SweepOutcome

URL = "https://host/#/experiments/1/runs?viewStateShareKey=quick"
SOME = ("recall", "data_parallel")
PAGES = (Path("out/reports/heads/index.html"), Path("out/reports/mine/index.html"))


def told(capsys: pytest.CaptureFixture[str], outcome: SweepOutcome, options: Options) -> list[str]:
    assert _report_outcome(outcome, options, Console(stderr=True)) == 0
    lines = capsys.readouterr().out.splitlines()
    return [line.removeprefix("compare:   ") for line in lines if line.startswith("compare: ")]


def ended(**fields: object) -> SweepOutcome:
    return SweepOutcome(by_status={}, num_run=1, num_missing=0, reports=PAGES, **fields)  # type: ignore[arg-type]


def test_a_server_has_an_address(capsys: pytest.CaptureFixture[str]) -> None:
    options = Options(tracking_uri="https://me:secret@host")
    assert told(capsys, ended(comparisons=(URL,)), options) == [URL]


def test_a_file_has_a_command_for_each_ablation(capsys: pytest.CaptureFixture[str]) -> None:
    commands = [command.partition(" ui ")[2] for command in told(capsys, ended(), Options())]
    assert commands == ["heads", "mine"]
    options = Options(out=Path("far"), tracking_uri="sqlite:////tmp/x.db")
    (first, _) = told(capsys, ended(), options)
    assert first.endswith(" ui heads --out far --tracking-uri sqlite:////tmp/x.db")


def test_without_dashboard_or_record_there_is_nothing_to_compare(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert told(capsys, ended(), Options(tracking_uri="postgresql://host/name")) == []
    assert told(capsys, ended(note="MLflow is not installed here."), Options()) == []


def test_of_all_what_cannot_run_here_is_left_out_with_its_reason(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Check data_parallel, which needs several workers, with the inline executor."""
    ran: list[str] = []

    def run_plans(plans: Sequence[Plan], *rest: object) -> SweepOutcome:
        ran.extend(plan.about.ablation for plan in plans)
        return ended()

    monkeypatch.setattr(run_command, "run_plans", run_plans)
    monkeypatch.setattr(run_command, "plans_of", lambda names, **how: list(map(plan, SOME)))
    inline = Options(executor="inline")
    assert run(["all"], scale="quick", seeds=None, options=inline) == DONE
    assert ran == ["recall"]
    words = " ".join(capsys.readouterr().err.split())
    assert "leaves out data_parallel: a data_parallel trial takes 1 worker of DeepSpeed" in words
    monkeypatch.setattr(run_command, "plans_of", lambda names, **how: [plan("data_parallel")])
    with pytest.raises(Unavailable, match="takes 1 worker of DeepSpeed"):
        run(["all"], scale="quick", seeds=None, options=inline)


def test_what_failed_here_shows_beside_what_was_found_elsewhere(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert _report_outcome(ended(num_failed_beside=2), Options(), Console(stderr=True)) == FAILED
    words = " ".join(capsys.readouterr().err.split())
    assert "2 trials failed here; their results from another environment are kept" in words
    assert _report_outcome(ended(), Options(), Console(stderr=True)) == DONE
    assert "failed" not in capsys.readouterr().err


STUBBORN = """
import os, sys, time
from bakeoff.suite.sweep.interruption import signals_interrupt
try:
    with signals_interrupt(on_second=lambda: None):
        print("ready", flush=True)
        time.sleep(600)
except KeyboardInterrupt:
    print("once", flush=True)
"""


@pytest.mark.whole
def test_the_first_ctrl_c_is_an_interruption() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", STUBBORN], stdout=subprocess.PIPE, text=True
    ) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == "ready\n"
        run.send_signal(signal.SIGINT)
        assert run.communicate(timeout=60)[0] == "once\n"
    assert run.returncode == 0


@pytest.mark.whole
def test_the_second_ctrl_c_ends_at_once_whatever_the_first_has_begun() -> None:
    waits = STUBBORN.replace(
        '        print("ready", flush=True)\n        time.sleep(600)\n',
        "        try:\n            print('ready', flush=True)\n            time.sleep(600)\n"
        "        finally:\n"
        "            print('closing', flush=True)\n            time.sleep(600)\n",
    )
    with subprocess.Popen([sys.executable, "-c", waits], stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == "ready\n"
        run.send_signal(signal.SIGINT)
        assert run.stdout.readline() == "closing\n"
        run.send_signal(signal.SIGINT)
        assert run.communicate(timeout=60)[0] == ""
    assert run.returncode == INTERRUPTED
