"""A worker that is stopped (SIGSTOP): revived, ended, or outlived by another driver's attempt.

Nothing that it says late may be taken, and nothing may be committed twice.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

from suite.errors import FAILED
from tools.chaos.command import SWEEPS, start, wait, wait_until
from tools.chaos.figures import Figures, total
from tools.chaos.processes import MARK, count_orphans
from tools.chaos.recorded import num_starts, recorded, results_in, running_in
from tools.chaos.scenario import Scale

SWEEP = SWEEPS / "slow.py"
NUM_TRIALS = 2
_PATIENCE_SECONDS = 120.0


def prove(scale: Scale, folder: Path) -> Figures:
    """Three sweeps of two trials each, on a Ray of this machine."""
    return total(
        [_revived(folder / "revived"), _ended(folder / "ended"), _outlived(folder / "late")]
    )


def _revived(folder: Path) -> Figures:
    """It goes on where it was."""
    run = _start(folder)
    worker = _stopped_worker(folder)
    time.sleep(3.0)
    _send(worker, signal.SIGCONT)
    found = (wait(run, _PATIENCE_SECONDS), num_starts(folder / "out"))
    return _figures(folder, found == (0, NUM_TRIALS), "revived: exit code {}, {} attempts", *found)


def _ended(folder: Path) -> Figures:
    """Its limit comes while it is stopped, or Ray misses its answers before that, and ends it.

    By its limit it is a timeout; by Ray it runs again. No process is left.
    """
    run = _start(folder, "--trial-limit", "12")
    _stopped_worker(folder)
    code, out = wait(run, _PATIENCE_SECONDS), folder / "out"
    statuses = Counter(result.status.value for result in results_in(out))
    found = (code, num_starts(out), dict(statuses))
    by_limit = (FAILED, NUM_TRIALS, {"ok": NUM_TRIALS - 1, "timeout": 1})
    by_ray = (0, NUM_TRIALS + 1, {"ok": NUM_TRIALS})
    text = "ended: exit code {}, {} attempts, statuses {}"
    return _figures(folder, found in (by_limit, by_ray), text, *found)


def _outlived(folder: Path) -> Figures:
    """Its driver is killed; another one runs the trial; then it is revived."""
    run, out = _start(folder), folder / "out"
    worker = _stopped_worker(folder)
    run.kill()
    run.wait()
    again = _start(folder)
    wait_until(
        lambda: num_starts(out) > NUM_TRIALS or again.poll() is not None,
        "another attempt of the trial",
        _PATIENCE_SECONDS,
    )
    _send(worker, signal.SIGCONT)
    code = wait(again, _PATIENCE_SECONDS)
    return _figures(folder, not code, "outlived: exit code {}", code)


def _figures(folder: Path, is_right: bool, text: str, *found: object) -> Figures:
    problems = () if is_right else (text.format(*found),)
    return (
        recorded(folder / "out", NUM_TRIALS)
        + count_orphans(_mark(folder))
        + Figures(faults=Counter({"workers paused": 1}), problems=problems)
    )


def _start(folder: Path, *options: str) -> subprocess.Popen[bytes]:
    return start(
        "run",
        str(SWEEP),
        "--out",
        str(folder / "out"),
        *options,
        log=folder / f"run-{time.monotonic_ns()}.log",
        environment={MARK: _mark(folder)},
    )


def _mark(folder: Path) -> str:
    return f"{os.environ.get(MARK, 'alone')}-{folder.name}"


def _stopped_worker(folder: Path) -> int:
    """Stop the worker of a trial that has begun; returns its process id."""
    out = folder / "out"
    wait_until(lambda: bool(running_in(out)), "the first trial", _PATIENCE_SECONDS)
    time.sleep(1.0)
    worker = next(iter(running_in(out).values()))
    _send(worker, signal.SIGSTOP)
    return worker


def _send(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)
