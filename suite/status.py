"""`bakeoff status`: counts by state, what runs, what failed and why, how long the rest takes.

Read from the journal alone, without torch, so that it answers at once while a driver works.
"""

from __future__ import annotations

import json
import os
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from suite.duration import in_words
from suite.journal import Journal, journal_in
from suite.labels import labels_of
from suite.lock import is_held
from suite.schema import FAILURES, Plan, Result, Trial
from suite.status_line import Standing


@dataclass(frozen=True, kw_only=True)
class SweepStatus:
    """Where the sweeps of an output folder stand.

    Attributes:
        counts: Trials by status of their result, and ``running`` and ``missing``.
        running: trial_id -> the process that works on it.
        waiting: ``num_trials`` that have no place, and the ``reason``; None where none waits.
        failed: trial_id -> status and reason.
        eta_seconds: From how long the finished trials took; None where there is nothing to go by.
    """

    counts: Mapping[str, int]
    running: Mapping[str, str]
    failed: Mapping[str, str]
    eta_seconds: float | None
    waiting: Mapping[str, Any] | None = None


def show(out: Path, *, as_json: bool) -> None:
    """Print it."""
    found = status_of(out)
    if as_json:
        print(json.dumps(asdict(found), indent=1))
        return
    console = Console()
    counts = ", ".join(f"{number} {state}" for state, number in found.counts.items())
    console.print(counts or f"nothing was run in {out} yet", highlight=False)
    for trial_id, place in found.running.items():
        console.print(f"running {trial_id} on {place}", highlight=False, markup=False)
    if found.waiting:
        told = f"{found.waiting['num_trials']} wait: {found.waiting['reason']}"
        console.print(told, highlight=False, markup=False)
    for trial_id, reason in found.failed.items():
        console.print(f"failed  {trial_id} {reason}", highlight=False, markup=False)
    if found.counts.get("missing") or found.running:
        console.print(f"{in_words(found.eta_seconds)} left", highlight=False)


def status_of(out: Path) -> SweepStatus:
    """Read from the journal of the folder."""
    path = journal_in(out)
    if not os.path.isfile(path):
        return SweepStatus(counts={}, running={}, failed={}, eta_seconds=None)
    with Journal(path, read_only=True) as journal:
        trials = {t.trial_id: t for plan in journal.plans() for t in plan.trials}
        results = {result.trial_id: result for result in journal.results(trials)}
        is_driven = is_held(out)
        running = _running(journal, trials, results) if is_driven else {}
        num_waiting, reason = journal.waiting() if is_driven else (0, "")
    waiting = {"num_trials": num_waiting, "reason": reason} if num_waiting else None
    return replace(_status(trials, results, running), waiting=waiting)


def standing_of(plans: Sequence[Plan], out: Path) -> Standing:
    """Where these sweeps stand once no driver works on them: every trial by its own state."""
    trials = {trial.trial_id: trial for plan in plans for trial in plan.trials}
    with Journal(journal_in(out), read_only=True) as journal:
        results = {result.trial_id: result for result in journal.results(trials)}
    found = _status(trials, results, {})
    return Standing(
        counts=found.counts,
        failed=found.failed,
        out=str(out.resolve()),
        labels=labels_of(plans),
        eta_seconds=found.eta_seconds if found.counts.get("missing") else 0.0,
    )


def _running(
    journal: Journal, trials: Iterable[str], results: Mapping[str, Result]
) -> dict[str, str]:
    """Started, and without a result; what an older driver left behind looks the same."""
    wanted = set(trials) - set(results)
    return {a.trial_id: a.place for a in journal.attempts() if a.trial_id in wanted}


def _status(
    trials: Mapping[str, Trial], results: Mapping[str, Result], running: Mapping[str, str]
) -> SweepStatus:
    counts: dict[str, int] = {}
    for trial_id in trials:
        result = results.get(trial_id)
        state = result.status.value if result else "running" if trial_id in running else "missing"
        counts[state] = counts.get(state, 0) + 1
    failed = {r.trial_id: r for r in results.values() if r.status in FAILURES}
    return SweepStatus(
        counts=dict(sorted(counts.items())),
        running=running,
        failed={key: f"{r.status.value}: {r.reason}" for key, r in failed.items()},
        eta_seconds=_eta(trials, results),
    )


def _eta(trials: Mapping[str, Trial], results: Mapping[str, Result]) -> float | None:
    """Each missing trial takes as long as the finished ones of its probe, packed on the cores."""
    seconds: dict[str, list[float]] = {}
    for result in results.values():
        seconds.setdefault(trials[result.trial_id].probe, []).append(result.seconds)
    if not seconds:
        return None
    any_probe = statistics.mean(value for of_probe in seconds.values() for value in of_probe)
    left = [trial for trial_id, trial in trials.items() if trial_id not in results]
    total = sum(statistics.mean(seconds.get(trial.probe, [any_probe])) for trial in left)
    return total / (os.cpu_count() or 1)
