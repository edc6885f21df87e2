"""Scenario: trials fail in every way; each must get its status, and must not disturb the others.

One sweep on a Ray of this machine. Every way to fail is a mixer of a user's own file.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from bakeoff.suite.errors import FAILED
from bakeoff.suite.planning.plan import plan
from tools.chaos.arena import MARK, SWEEPS, count_orphans, own_mark, start, wait
from tools.chaos.figures import Figures, Scale
from tools.chaos.recorded import read, recorded, results_in

SWEEP = SWEEPS / "faulty.py"
_TRIAL_LIMIT_SECONDS = 30  # a fresh process needs 3 s of CPU to start, beside other scenarios
_PATIENCE_SECONDS = 300

# The status that each must have, and the number of attempts that it may have.
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
    """Run the sweep once, at every scale."""
    out, log, mark = folder / "out", folder / "run.log", own_mark("trials")
    command = f"run {SWEEP} --trial-limit {_TRIAL_LIMIT_SECONDS} --out {out}"
    code = wait(start(command, log=log, environment={MARK: mark}), _PATIENCE_SECONDS)
    left = count_orphans(mark)
    names = {
        trial.trial_id: str(trial.subjects[0].mixer).partition(":")[2]
        for trial in plan(str(SWEEP)).trials
    }
    statuses = {names[result.trial_id]: result.status.value for result in results_in(out)}
    starts = Counter(names[one.trial_id] for one in read(out, lambda journal: journal.starts()))
    problems = differences(statuses, starts)
    if code != FAILED:
        problems.append(f"exit code {code}, not {FAILED}: {log.read_text()[-200:]}")
    num_failed = sum(status != "ok" for status in statuses.values())
    faults = Counter({"trials that fail by themselves": num_failed})
    return left + recorded(out, len(WANTED)) + Figures(faults=faults, problems=tuple(problems))


def differences(statuses: dict[str, str], starts: Counter[str]) -> list[str]:
    """Return a sentence for each wrong status and number of attempts."""
    lines = []
    for name, (status, most) in WANTED.items():
        if statuses.get(name) != status:
            lines.append(f"{name} is called {statuses.get(name, 'nothing')}, not {status}")
        if starts[name] > most:
            lines.append(f"{name} was started {starts[name]} times, at most {most} are allowed")
    if "Poison" in statuses and starts["Poison"] != WANTED["Poison"][1]:
        lines.append(f"Poison was tried {starts['Poison']} times, not {WANTED['Poison'][1]}")
    return lines
