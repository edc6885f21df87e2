"""Scenario: a worker is stopped (SIGSTOP), and continued, ended, or replaced by another driver's.

Late messages of the stopped worker must be ignored, and no result may be committed twice.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

from bakeoff.suite.errors import FAILED
from tools.chaos.arena import MARK, SWEEPS, count_orphans, own_mark, start, wait, wait_until
from tools.chaos.figures import Figures, Scale, total
from tools.chaos.recorded import num_starts, recorded, results_in, running_in

SWEEP = SWEEPS / "slow.py"
NUM_TRIALS = 2
_PATIENCE_SECONDS = 120.0


def prove(scale: Scale, folder: Path) -> Figures:
    """Run three sweeps of two trials each, on a Ray of this machine."""
    return total(
        [_revived(folder / "revived"), _ended(folder / "ended"), _outlived(folder / "late")]
    )


def _revived(folder: Path) -> Figures:
    """Continue the worker after three seconds."""
    run = _start(folder)
    worker = _stopped_worker(folder)
    time.sleep(3.0)
    _send(worker, signal.SIGCONT)
    found = (wait(run, _PATIENCE_SECONDS), num_starts(folder / "out"))
    return _figures(folder, found == (0, NUM_TRIALS), "revived: exit code {}, {} attempts", *found)


def _ended(folder: Path) -> Figures:
    """Leave the worker stopped until its limit, or Ray, which misses its answers, ends it.

    If the limit ends it, it is a timeout; if Ray ends it, it runs again. No process may be left.
    """
    run = _start(folder, "--trial-limit 12")
    _stopped_worker(folder)
    code, out = wait(run, _PATIENCE_SECONDS), folder / "out"
    statuses = Counter(result.status.value for result in results_in(out))
    found = (code, num_starts(out), dict(statuses))
    by_limit = (FAILED, NUM_TRIALS, {"ok": NUM_TRIALS - 1, "timeout": 1})
    by_ray = (0, NUM_TRIALS + 1, {"ok": NUM_TRIALS})
    text = "ended: exit code {}, {} attempts, statuses {}"
    return _figures(folder, found in (by_limit, by_ray), text, *found)


def _outlived(folder: Path) -> Figures:
    """Kill the driver, let another one run the trial, then continue the worker."""
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
        + count_orphans(own_mark(folder.name))
        + Figures(faults=Counter({"workers paused": 1}), problems=problems)
    )


def _start(folder: Path, options: str = "") -> subprocess.Popen[bytes]:
    command = f"run {SWEEP} --out {folder / 'out'} {options}"
    log = folder / f"run-{time.monotonic_ns()}.log"
    return start(command, log=log, environment={MARK: own_mark(folder.name)})


def _stopped_worker(folder: Path) -> int:
    """Stop the worker of a trial that has begun; return its process id."""
    out = folder / "out"
    wait_until(lambda: bool(running_in(out)), "the first trial", _PATIENCE_SECONDS)
    time.sleep(1.0)
    worker = next(iter(running_in(out).values()))
    _send(worker, signal.SIGSTOP)
    return worker


def _send(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)
