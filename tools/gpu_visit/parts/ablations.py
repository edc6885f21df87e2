"""Runs shipped ablations by the ordinary command, as many trials as fit, and keeps the journal.

Under a time limit the command runs seed 0 of everything first. `bakeoff record` takes the journal
home.
"""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

from bakeoff.suite.journal.journal import Journal
from bakeoff.suite.planning.cost_model import seconds_of
from bakeoff.suite.planning.gpu_specs import gpu_spec
from bakeoff.suite.planning.plan import plan
from bakeoff.suite.schema import Status
from tools.gpu_visit.results import JOURNAL, STOPPED, Finding, Item, Visit
from tools.gpu_visit.runner import ROOT

_LEAST_SECONDS = 5  # or no trial would end
_SECONDS_TO_STOP = 12  # for the command to start, and to write what has ended
_MOST_TIMES_PLANNED = 1.5  # in either direction
_DONE, _FAILED = 0, 5  # exit codes of bakeoff


def items(visit: Visit) -> Iterator[Item]:
    """Yield all ablations as one item, since one command orders their trials; then their times."""
    if visit.ablations:
        yield ", ".join(visit.ablations), partial(_run, visit)
    for name in visit.ablations:
        yield f"{name}, time as planned", partial(_time_as_planned, visit, name)


def _run(visit: Visit) -> Finding:
    limit = int(visit.seconds_left) - _SECONDS_TO_STOP
    if limit < _LEAST_SECONDS:
        return Finding(text="too little time is left for a trial", status=STOPPED)
    visit.work.mkdir(exist_ok=True)
    if not (visit.work / JOURNAL).exists() and (visit.out / JOURNAL).exists():
        _copy(visit.out / JOURNAL, visit.work / JOURNAL)
    scale = "smoke" if visit.is_dry else "standard"
    command = [
        sys.executable,
        "-m",
        "bakeoff.suite.cli",
        "run",
        *visit.ablations,
        "--executor",
        "inline",
        "--scale",
        scale,
        "--out",
        str(visit.work),
        "--time-limit",
        f"{limit}s",
    ]
    log = visit.work / "run.log"  # a file: also a run that is killed leaves it
    with log.open("w") as file:
        code = subprocess.run(command, cwd=ROOT, stdout=file, stderr=file, check=False).returncode
    output = log.read_text(errors="replace")
    print(output)
    counts = counts_of(visit.work / JOURNAL)
    said = ", ".join(f"{number} {status}" for status, number in counts.items()) or "no trial ended"
    text = f"at {scale}: {said}"
    if code == _DONE:
        return Finding(text=text, values=counts)
    if code == _FAILED and "the time limit of" in output:
        return Finding(text=f"{text}; the time was over", status=STOPPED, values=counts)
    last_line = (output.strip().splitlines() or [""])[-1]
    text = f"{text}; exit code {code}: {last_line}"
    return Finding(text=text, status="failed", values=counts)


def _time_as_planned(visit: Visit, ablation: str) -> Finding:
    """Compare the seconds of the trials that ended with those that were planned for them."""
    scale = "smoke" if visit.is_dry else "standard"
    planned = plan(ablation, scale=scale)
    taken = seconds_of_trials(visit.work / JOURNAL)
    rates = gpu_spec(None).flops_per_second
    pairs = [
        (taken[t.trial_id], seconds_of(t, planned.resources.for_trial(t), rates))
        for t in planned.trials
        if t.trial_id in taken
    ]
    if not pairs:
        return Finding(text="no trial ended", status="skipped")
    measured, expected = (sum(each) for each in zip(*pairs, strict=True))
    ratio = measured / expected
    is_near = visit.is_dry or 1 / _MOST_TIMES_PLANNED <= ratio <= _MOST_TIMES_PLANNED
    values = {"seconds": measured, "planned_seconds": expected, "num_trials": len(pairs)}
    return Finding(
        text=f"{ratio:.2f} times the planned {expected:.0f} s (at most {_MOST_TIMES_PLANNED})",
        status="ok" if is_near else "failed",
        values=values,
    )


def seconds_of_trials(journal: Path) -> dict[str, float]:
    """Return how long the trials that ended well took, by id."""
    if not journal.exists():
        return {}
    with Journal(journal, read_only=True) as opened:
        return {end.trial_id: end.seconds for end in opened.ends() if end.status == Status.OK}


def counts_of(journal: Path) -> dict[str, int]:
    """Return how many trials ended with each status."""
    if not journal.exists():
        return {}
    with closing(sqlite3.connect(f"file:{journal}?mode=ro", uri=True)) as db:
        try:
            return dict(
                db.execute("SELECT status, COUNT(*) FROM results GROUP BY status ORDER BY status")
            )
        except sqlite3.OperationalError:  # no trial has ended yet
            return {}


def keep_journal(out: Path) -> str:
    """Copy the journal to the results, also after a kill; return what is wrong, or nothing."""
    journal = out.with_name(f"{out.name}.work") / JOURNAL
    if journal.exists():
        try:
            _copy(journal, out / JOURNAL)
        except sqlite3.Error as error:
            return f"the journal {journal} cannot be copied: {error}"
    return ""


def _copy(source: Path, target: Path) -> None:
    """Copy a database as of its last transaction, whoever writes into it."""
    draft = target.with_name(f"{target.name}.draft")
    draft.unlink(missing_ok=True)
    with closing(sqlite3.connect(source)) as db, closing(sqlite3.connect(draft)) as into:
        db.backup(into)
        into.execute("PRAGMA journal_mode=DELETE")
    draft.replace(target)
