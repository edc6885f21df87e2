"""Trials that fail in every way there is: each named rightly, bounded, alone, and without remains.

One sweep on a Ray of this machine. Every way to fail is a mixer of a user's own file.
"""

from __future__ import annotations

import os
import subprocess
from collections import Counter
from pathlib import Path

from suite.errors import FAILED
from suite.journal.journal import Journal
from suite.journal.sqlite_schema import journal_in
from suite.planning.plan import plan
from tools.chaos.books import num_amiss, results_in
from tools.chaos.command import start
from tools.chaos.figures import Figures
from tools.chaos.processes import MARK, end, orphans
from tools.chaos.scale import Scale

SWEEP = Path(__file__).parent / "sweeps" / "faulty.py"
_LIMIT_SECONDS = 8  # of one trial
_PATIENCE_SECONDS = 300

# What each must be called, and how often it may be started.
WANTED: dict[str, tuple[str, int]] = {
    "Good": ("ok", 1),
    "RunsOutOfMemory": ("out_of_memory", 1),
    "AsksForTooMuch": ("out_of_memory", 2),
    "BecomesNaN": ("diverged", 1),
    "Hangs": ("timeout", 1),
    "HoldsOn": ("timeout", 1),
    "Segfaults": ("crashed", 3),
    "Leaves": ("crashed", 3),
    "RaisesOddly": ("error", 1),
    "LeavesProcesses": ("ok", 1),
    "Poison": ("crashed", 3),
}


def prove(scale: Scale, folder: Path) -> Figures:
    """Run it once; the same at every scale."""
    out, log = folder / "out", folder / "run.log"
    mark = f"{os.environ.get(MARK, 'alone')}-trials"
    code = _run(out, log, mark)
    left = orphans(mark)
    end(mark)
    mixers = {trial.trial_id: str(trial.subjects[0].mixer) for trial in plan(str(SWEEP)).trials}
    found = {mixers[trial_id].partition(":")[2]: result.status.value
             for (trial_id, _), result in results_in(out).items()}  # fmt: skip
    with Journal(journal_in(out), read_only=True) as journal:
        starts = Counter(mixers[one.trial_id].partition(":")[2] for one in journal.starts())
    troubles = [*differences(found, starts), *(f"left behind: {line}" for line in left.values())]
    if code != FAILED:
        troubles.append(f"exit code {code}, not {FAILED}: {_end_of(log)}")
    return Figures(
        faults=Counter({"trials that fail by themselves": sum(s != "ok" for s in found.values())}),
        num_submitted=len(WANTED),
        num_acknowledged=len(found),
        num_lost=num_amiss(len(WANTED), found),
        num_orphans=len(left),
        troubles=tuple(troubles),
    )


def differences(found: dict[str, str], starts: Counter[str]) -> list[str]:
    """Where status or number of attempts is not what it should be."""
    lines = []
    for name, (status, most) in WANTED.items():
        if found.get(name) != status:
            lines.append(f"{name} is called {found.get(name, 'nothing')}, not {status}")
        if starts[name] > most:
            lines.append(f"{name} was started {starts[name]} times, at most {most} are allowed")
    if "Poison" in found and starts["Poison"] != WANTED["Poison"][1]:
        lines.append(f"Poison was tried {starts['Poison']} times, not {WANTED['Poison'][1]}")
    return lines


def _run(out: Path, log: Path, mark: str) -> int:
    run = start(
        "run", str(SWEEP), "--trial-limit", str(_LIMIT_SECONDS), "--out", str(out), log=log,
        environment={MARK: mark},
    )  # fmt: skip
    try:
        return run.wait(timeout=_PATIENCE_SECONDS)
    except subprocess.TimeoutExpired:
        run.kill()
        run.wait()
        return 124


def _end_of(log: Path) -> str:
    lines = log.read_text().strip().splitlines()
    return lines[-1] if lines else ""
