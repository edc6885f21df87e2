"""`bakeoff logs`: print the traceback and the output of a failed trial."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from bakeoff.suite.errors import UsageError, one_line
from bakeoff.suite.journal.journal import Journal
from bakeoff.suite.journal.plans import listed
from bakeoff.suite.journal.sqlite_schema import journal_in
from bakeoff.suite.schema import Result
from bakeoff.suite.text import command, short

_LEAST_DIGITS = 4
_MOST_NAMED = 5


def show_logs(trial: str, out: Path) -> None:
    """Print what the journal keeps of the failures of the trial whose id begins with `trial`.

    Raises:
        UsageError: If no trial or several trials match, or if the trial has not failed.
    """
    if not os.path.isfile(journal_in(out)):
        raise UsageError(f"--out {out}: nothing has been run there yet.")
    with Journal(journal_in(out), read_only=True) as journal:
        labels = _labels(journal)
        trial_id = _the_one(trial, labels, out)
        results = list(journal.results([trial_id]))
    kept = [result for result in results if result.traceback or result.output]
    if not kept:
        statuses = ", ".join(result.status.value for result in results) or "not run yet"
        raise UsageError(
            f"trial {short(trial_id)} ({labels[trial_id]}) is {statuses}: tracebacks and output "
            "are kept only for failed trials."
        )
    for result in kept:
        print("\n".join(_lines(result, labels[trial_id])))


def _labels(journal: Journal) -> dict[str, str]:
    """Return the labels of the trials of every edition."""
    plans = [of for plan in journal.plans() for _, of in journal.history(plan)]
    earlier = {each.trial_id: each.label for plan in plans for each in listed(plan)}
    return earlier | {each.trial_id: each.label for each in journal.trials()}


def _the_one(trial: str, labels: dict[str, str], out: Path) -> str:
    found = [trial_id for trial_id in labels if trial_id.startswith(trial)]
    if trial in labels:
        return trial
    if len(trial) >= _LEAST_DIGITS and len(found) == 1:
        return found[0]
    where = f"TRIAL {trial!r}: "
    if len(trial) < _LEAST_DIGITS or len(found) > 1:
        named = ", ".join(map(short, found[:_MOST_NAMED]))
        raise UsageError(
            f"{where}{len(found)} trials of {out} match ({named or 'none'}); give at least "
            f"{_LEAST_DIGITS} digits of the id, and enough digits to identify one trial."
        )
    raise UsageError(
        f"{where}no trial of {out} has an id with this prefix; `{command('status', '--json')}` "
        "lists the failed ones."
    )


def _lines(result: Result, label: str) -> Iterator[str]:
    device = result.provenance.device
    yield one_line(f"{result.trial_id}: {label}, on {device}")
    yield one_line(f"{result.status.value}: {result.reason}")
    for title, text in (("traceback", result.traceback), ("output", result.output)):
        yield f"\n--- {title}" if text.strip() else f"\n--- no {title}"
        if text.strip():
            yield _shown(text.rstrip())


def _shown(text: str) -> str:
    """Return the lines, with control characters of a terminal escaped."""
    return "\n".join(one_line(line.replace("\t", "    ")) for line in text.split("\n"))
