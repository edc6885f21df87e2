"""Test the harness of `make chaos`: every fault point exists, and every checker can fail."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tools.chaos import faults
from tools.chaos.faults import (
    SAFETY,
    STEPS,
    Fault,
    Point,
    count_into,
    install,
    located,
    parsed,
    time_into,
)

HERE = f"{__name__}:Steps"


class Steps:
    """A stand-in for the product."""

    calls: list[str]

    def first(self) -> None:
        self.calls.append("first")

    def second(self) -> None:
        self.first()
        self.calls.append("second")


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Return the fault points of `Steps`, whose methods are restored afterwards."""
    monkeypatch.setattr(Steps, "first", Steps.first)
    monkeypatch.setattr(Steps, "second", Steps.second)
    monkeypatch.setattr(Steps, "calls", [], raising=False)
    monkeypatch.setattr(faults, "located", lambda target: (Steps, target.rpartition(".")[2]))
    return {"one": f"{HERE}.first", "two": f"{HERE}.second"}


@pytest.mark.parametrize("target", sorted({*STEPS.values(), *SAFETY}))
def test_every_point_is_a_function_of_the_product_and_named_once(target: str) -> None:
    owner, name = located(target)
    assert callable(getattr(owner, name))
    assert list(STEPS.values()).count(target) <= 1


def test_the_product_knows_nothing_of_chaos() -> None:
    root = Path(faults.__file__).parents[2]
    for room in ("suite", "models", "reports", "ablations"):
        for file in (root / room).rglob("*.py"):
            assert "chaos" not in file.read_text(), file


@pytest.mark.parametrize(
    ("kind", "when", "number"),
    [("no-space", "before", errno.ENOSPC), ("io-error", "after", errno.EIO)],
)
def test_a_fault_strikes_once_before_or_after_the_nth_time(
    kind: Any, when: Any, number: int, steps: dict[str, str]
) -> None:
    install([Fault(Point("one", when, 2), kind)], steps)
    Steps().first()
    with pytest.raises(OSError, match=os.strerror(number)) as caught:
        Steps().first()
    assert caught.value.errno == number
    assert len(Steps.calls) == (1 if when == "before" else 2)
    Steps().first()


def test_steps_are_counted(steps: dict[str, str]) -> None:
    counts = [0, 0]
    count_into(counts, steps)
    Steps().second()
    Steps().first()
    assert counts == [2, 1]


def test_time_inside_stands_with_the_outer_one(steps: dict[str, str]) -> None:
    seconds = [0.0, 0.0]
    time_into(seconds, list(steps.values()))
    Steps().second()
    assert seconds[0] == 0.0
    assert seconds[1] > 0.0


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("kill:before:journal: commit", Fault(Point("journal: commit", "before"))),
        ("io-error:after:journal: begin:3", Fault(Point("journal: begin", "after", 3), "io-error")),
    ],
)
def test_a_fault_is_read_from_a_command_line(text: str, fault: Fault) -> None:
    assert parsed(text) == fault


@pytest.mark.parametrize("text", ["kill:before:nothing", "burn:before:journal: commit"])
def test_what_is_no_fault_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no such fault"):
        parsed(text)


def test_a_killed_process_is_killed() -> None:
    code = (
        "from tools.chaos.faults import *; install([parsed('kill:after:checkpoint: sync')]); "
        "import os, tempfile; file = tempfile.TemporaryFile(); os.fsync(file.fileno())"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], cwd=Path(faults.__file__).parents[2], check=False
    )
    assert ended.returncode == -9
