"""Tests for the choice of the submitted sweep that `bakeoff cancel` stops."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bakeoff.suite.cluster.jobs import Job
from bakeoff.suite.commands import cancel as command_cancel
from bakeoff.suite.commands.cancel import cancel
from bakeoff.suite.spec import SpecError

HEADS = Job(
    submission_id="bakeoff-heads-quick-0123456789ab-2",
    status="RUNNING",
    message="",
    names="heads",
    scale="quick",
    out="~/out",
    start_seconds=2.0,
    exit_code=None,
)
MINE = replace(
    HEADS, submission_id="bakeoff-mine-quick-0123456789ac", names="mine.py", status="PENDING"
)
OTHER = replace(HEADS, submission_id="bakeoff-heads-quick-0123456789ad")
ENDED = replace(HEADS, submission_id="bakeoff-heads-quick-0123456789ab", status="FAILED")


@pytest.fixture
def stopped(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list of the stopped submissions, from a fake cluster."""
    stopped: list[str] = []

    def stop(url: str, submission_id: str) -> Job:
        stopped.append(submission_id)
        return replace(HEADS, submission_id=submission_id, status="STOPPED")

    monkeypatch.setattr(command_cancel, "check_url", lambda address: address)
    monkeypatch.setattr(command_cancel.jobs, "stop_job", stop)
    return stopped


def has(monkeypatch: pytest.MonkeyPatch, *jobs: Job) -> None:
    monkeypatch.setattr(command_cancel.jobs, "list_jobs", lambda url: list(jobs))


@pytest.mark.parametrize(
    ("names", "jobs", "chosen"),
    [
        ([], [ENDED, HEADS], HEADS),
        (["heads"], [HEADS, MINE, ENDED], HEADS),
        ([HEADS.submission_id], [HEADS, MINE, ENDED], HEADS),
        ([ENDED.submission_id], [HEADS, MINE, ENDED], HEADS),  # the id of the first attempt
        (["some/where/mine.py"], [HEADS, MINE], MINE),
    ],
    ids=["the only live one", "ablation", "id", "first id", "file"],
)
def test_a_sweep_is_named_by_ablation_file_or_id(
    names: list[str],
    jobs: list[Job],
    chosen: Job,
    stopped: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    has(monkeypatch, *jobs)
    assert cancel(names, "http://h:1") == 0
    assert stopped == [chosen.submission_id]


@pytest.mark.parametrize(
    ("names", "jobs", "why"),
    [
        ([], [HEADS, MINE], r"several sweeps are running; name one of them: .*-2 \(run.*, .*mine"),
        (
            ["heads"],
            [HEADS, OTHER],
            "several sweeps of this name are running; give an id: .*-2 .*ad ",
        ),
        ([], [], "no submitted sweep is running there"),
        (["heads"], [ENDED], r"no submitted sweep is running there; the newest is .*\(failed; sub"),
        (
            ["heads", "haeds"],
            [HEADS],
            "'haeds': no sweep of this name was submitted to .*; submitted sweeps: ",
        ),
        (
            ["haeds"],
            [],
            "'haeds': no sweep of this name was submitted to http://h:1; submitted sweeps: nothing",
        ),
    ],
)
def test_what_cannot_be_told_stops_nothing(
    names: list[str],
    jobs: list[Job],
    why: str,
    stopped: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    has(monkeypatch, *jobs)
    with pytest.raises(SpecError, match=why):
        cancel(names, "http://h:1")
    assert stopped == []
