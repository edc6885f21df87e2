"""Tests for the status messages that a driver writes to its log for other programs."""

from __future__ import annotations

from bakeoff.suite.journal.status_message import (
    SweepStatus,
    is_status_line,
    last_status,
    line_of,
)

STANDING = SweepStatus(
    counts={"ok": 2, "running": 1},
    running={"a": "node 1"},
    failed={"b": "error: x"},
    waiting={"num_trials": 3, "reason": "no node is free"},
    eta_seconds=4.5,
    out="/out",
    labels={"a": "heads=4", "b": "heads=1", "c": "heads=2"},
)


def test_there_and_back() -> None:
    line = line_of(STANDING)
    assert is_status_line(line)
    assert "\n" not in line
    found = last_status(f"hello\n{line_of(SweepStatus())}\n{line}\n[1/3] heads=4\n")
    assert found is not None
    assert found == SweepStatus(**{**vars(STANDING), "labels": {"a": "heads=4", "b": "heads=1"}})


def test_a_line_that_is_not_written_to_its_end_does_not_hold() -> None:
    line = line_of(STANDING)
    assert last_status(f"{line}\n{line[:40]}") == last_status(line)
    assert last_status('bakeoff-status {"of_another_version": 1}') is None
    assert last_status("") is None


def test_long_lists_are_cut_and_secrets_blotted_out() -> None:
    failed = {str(n): "error: http://me:s3cret@h " + "x" * 1000 for n in range(5000)}
    line = line_of(SweepStatus(failed=failed))
    assert len(line) < 50_000
    assert "s3cret" not in line
