"""`bakeoff status`: how far all is, where it runs, why it waits or failed, what it costs.

Read from the journal's columns alone: no result and no plan is parsed, and no torch is needed, so
that it answers at once while a driver works.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from suite.journal.journal import Journal
from suite.journal.rows import Attempt, End
from suite.journal.sqlite_schema import journal_in
from suite.journal.status_message import Standing
from suite.journal.trial_index import Listed
from suite.lock import is_held
from suite.schema import FAILURES, Plan
from suite.spending import Progress, spending_of
from suite.status_text import print_standing

_DIGITS = 6  # of hours and rates, for programs


def show(out: Path, *, as_json: bool) -> None:
    """Print it."""
    found = status_of(out)
    if as_json:
        print(json.dumps(asdict(found), indent=1))
    elif found.counts:
        print_standing(found, Console())
    else:
        Console(soft_wrap=True).print(
            f"nothing was run in {out} yet", markup=False, highlight=False
        )


def status_of(out: Path) -> Standing:
    """Where all sweeps of the folder stand, whether or not a driver works on them."""
    if not os.path.isfile(journal_in(out)):
        return Standing(out=str(out.resolve()))
    return _standing(out, None, is_driven=is_held(out))


def standing_of(plans: Sequence[Plan], out: Path) -> Standing:
    """Where these sweeps stand once no driver works on them: every trial by its own state."""
    return _standing(out, {plan.key for plan in plans}, is_driven=False)


@dataclass(frozen=True, kw_only=True)
class _Read:
    """What the journal says, of the sweeps asked for.

    Attributes:
        listed: A trial that two sweeps share stands in both.
        trials: By id, each once.
        driver_started: None where no driver works.
    """

    listed: Sequence[Listed]
    trials: Mapping[str, Listed]
    statuses: Mapping[str, str]
    starts: Sequence[Attempt]
    ends: Sequence[End]
    waiting: tuple[int, str]
    driver_started: float | None


def _standing(out: Path, keys: Collection[tuple[str, str]] | None, *, is_driven: bool) -> Standing:
    with Journal(journal_in(out), read_only=True) as journal:
        read = _read(journal, keys, is_driven=is_driven)
    running = _running(read)
    states = {key: _state(key, read.statuses, running) for key in read.trials}
    counts = _counted(read.trials, states)
    failed = _failed(read, states)
    spent = asdict(spending_of(_progress(read, running, time.time())))
    costs: dict[str, Any] = {
        name: round(x, _DIGITS) if isinstance(x, float) else x for name, x in spent.items()
    }
    return Standing(
        counts=counts,
        running={key: attempt.place for key, attempt in running.items()},
        waiting=_waiting(read.waiting, counts.get("missing", 0)),
        failed=failed,
        labels={key: read.trials[key].label for key in (*running, *failed)},
        out=str(out.resolve()),
        by_ablation=_by_ablation(read.listed, states),
        **costs,
    )


def _read(journal: Journal, keys: Collection[tuple[str, str]] | None, *, is_driven: bool) -> _Read:
    every = journal.trials()
    listed = [t for t in every if keys is None or (t.ablation, t.scale) in keys]
    trials = {trial.trial_id: trial for trial in listed}
    statuses = journal.statuses()
    return _Read(
        listed=listed,
        trials=trials,
        statuses={key: statuses[key] for key in trials if key in statuses},
        starts=[start for start in journal.starts() if start.trial_id in trials],
        ends=[end for end in journal.ends() if end.trial_id in trials],
        waiting=journal.waiting() if is_driven else (0, ""),
        driver_started=journal.driver_started() if is_driven else None,
    )


def _running(read: _Read) -> dict[str, Attempt]:
    """Begun by the driver that works now, and not ended.

    What an older driver left behind looks the same but for its time.
    """
    if read.driver_started is None:
        return {}
    ended = {(end.trial_id, end.attempt) for end in read.ends}
    newest = {start.trial_id: start for start in read.starts}
    return {
        key: start
        for key, start in newest.items()
        if (key, start.attempt) not in ended
        and start.started_seconds >= read.driver_started
        and (read.driver_started or key not in read.statuses)  # old journals do not say when
    }


def _state(key: str, statuses: Mapping[str, str], running: Mapping[str, Attempt]) -> str:
    return "running" if key in running else statuses.get(key, "missing")


def _counted(keys: Iterable[str], states: Mapping[str, str]) -> dict[str, int]:
    return dict(sorted(Counter(states[key] for key in keys).items()))


def _by_ablation(
    listed: Sequence[Listed], states: Mapping[str, str]
) -> dict[str, Mapping[str, int]]:
    keys: dict[str, list[str]] = {}
    for trial in listed:
        keys.setdefault(f"{trial.ablation}, {trial.scale}", []).append(trial.trial_id)
    return {name: _counted(of_sweep, states) for name, of_sweep in keys.items()}


def _waiting(told: tuple[int, str], num_missing: int) -> dict[str, object] | None:
    """Those that wait are some of the missing: what has begun since it was told does not wait."""
    num_waiting = min(told[0], num_missing)
    return {"num_trials": num_waiting, "reason": told[1]} if num_waiting else None


def _failed(read: _Read, states: Mapping[str, str]) -> dict[str, str]:
    """trial_id -> status and reason, of the newest failure."""
    reasons = {
        (end.trial_id, end.status): end.reason
        for end in sorted(read.ends, key=lambda end: end.attempt)
    }
    return {
        key: f"{state}: {reasons.get((key, state), '')}"
        for key, state in states.items()
        if state in FAILURES
    }


def _progress(read: _Read, running: Mapping[str, Attempt], now: float) -> Progress:
    return Progress(
        trials=read.trials,
        done=frozenset(read.statuses),
        running={key: attempt.started_seconds for key, attempt in running.items()},
        starts=read.starts,
        ends=read.ends,
        now=now,
        driver_started=read.driver_started,
    )
