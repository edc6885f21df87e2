"""A worker that is stopped (SIGSTOP): revived, ended, or outlived by another driver's attempt.

Nothing that it says late may be taken, and nothing may be committed twice.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from suite.errors import FAILED
from suite.journal.journal import Journal
from suite.journal.sqlite_schema import JournalError, journal_in
from tools.chaos.books import (
    num_amiss,
    num_committed_twice,
    num_contradictions,
    results_in,
    statuses_in,
)
from tools.chaos.command import start
from tools.chaos.figures import Figures, total
from tools.chaos.processes import MARK, end, orphans
from tools.chaos.scale import Scale

SWEEP = Path(__file__).parent / "sweeps" / "slow.py"
NUM_TRIALS = 2
_PATIENCE_SECONDS = 120.0
_PROCESS = re.compile(r"process (\d+)")


def prove(scale: Scale, folder: Path) -> Figures:
    """Three sweeps of two trials each, on a Ray of this machine."""
    return total(
        [_revived(folder / "revived"), _ended(folder / "ended"), _outlived(folder / "late")]
    )


def _revived(folder: Path) -> Figures:
    """It goes on where it was."""
    run = _run(folder)
    worker = _stopped_worker(folder / "out")
    time.sleep(3.0)
    _send(worker, signal.SIGCONT)
    code = _wait(run)
    troubles = [f"revived: exit code {code}"] if code else []
    starts = _num_starts(folder / "out")
    if starts != NUM_TRIALS:
        troubles.append(f"revived: {starts} attempts for {NUM_TRIALS} trials")
    return _figures(folder / "out", _mark(folder), troubles)


def _ended(folder: Path) -> Figures:
    """Its limit comes while it is stopped, or Ray misses its answers before that, and ends it.

    By its limit it is a timeout; by Ray it runs again. No process is left.
    """
    run = _run(folder, "--trial-limit", "12")
    _stopped_worker(folder / "out")
    code = _wait(run)
    statuses, starts = statuses_in(folder / "out"), _num_starts(folder / "out")
    by_limit = (FAILED, {"ok": NUM_TRIALS - 1, "timeout": 1}, NUM_TRIALS)
    by_ray = (0, {"ok": NUM_TRIALS}, NUM_TRIALS + 1)
    troubles = []
    if (code, statuses, starts) not in (by_limit, by_ray):
        troubles.append(f"ended: exit code {code}, {starts} attempts, statuses {dict(statuses)}")
    return _figures(folder / "out", _mark(folder), troubles)


def _outlived(folder: Path) -> Figures:
    """Its driver is killed; another one runs the trial; then it is revived."""
    run = _run(folder)
    worker = _stopped_worker(folder / "out")
    run.kill()
    run.wait()
    again = _run(folder)
    _until(lambda: _num_starts(folder / "out") > NUM_TRIALS or again.poll() is not None)
    _send(worker, signal.SIGCONT)
    code = _wait(again)
    troubles = [f"outlived: exit code {code}"] if code else []
    return _figures(folder / "out", _mark(folder), troubles)


def _figures(out: Path, mark: str, troubles: list[str]) -> Figures:
    results = results_in(out)
    left = orphans(mark)
    end(mark)
    return Figures(
        faults=Counter({"workers paused": 1}),
        num_submitted=NUM_TRIALS,
        num_acknowledged=len(results),
        num_lost=num_amiss(NUM_TRIALS, results),
        num_doubled=num_committed_twice(out),
        num_alarms=num_contradictions(out),
        num_orphans=len(left),
        troubles=(*troubles, *(f"left behind: {line}" for line in left.values())),
    )


def _run(folder: Path, *options: str) -> subprocess.Popen[bytes]:
    log = folder / f"run-{time.monotonic_ns()}.log"
    return start(
        "run", str(SWEEP), "--out", str(folder / "out"), *options, log=log,
        environment={MARK: _mark(folder)},
    )  # fmt: skip


def _mark(folder: Path) -> str:
    return f"{os.environ.get(MARK, 'alone')}-{folder.name}"


def _stopped_worker(out: Path) -> int:
    """Stop the worker of a trial that has begun; returns its process id."""
    _until(lambda: bool(_workers(out)))
    time.sleep(1.0)
    worker = _workers(out)[0]
    _send(worker, signal.SIGSTOP)
    return worker


def _workers(out: Path) -> list[int]:
    """The processes of trials that have begun and have no result."""
    try:
        with Journal(journal_in(out), read_only=True) as journal:
            ended = {entry.trial_id for entry in journal.entries()}
            running = [one for one in journal.attempts() if one.trial_id not in ended]
    except JournalError:
        return []
    found = (_PROCESS.search(one.place) for one in running)
    return [int(match[1]) for match in found if match]


def _num_starts(out: Path) -> int:
    with Journal(journal_in(out), read_only=True) as journal:
        return len(journal.starts())


def _until(is_so: Callable[[], bool]) -> None:
    until = time.monotonic() + _PATIENCE_SECONDS
    while not is_so():
        if time.monotonic() > until:
            raise TimeoutError("what was waited for never came")
        time.sleep(0.05)


def _send(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def _wait(run: subprocess.Popen[bytes]) -> int:
    try:
        return run.wait(timeout=_PATIENCE_SECONDS)
    except subprocess.TimeoutExpired:
        run.kill()
        run.wait()
        return 124
